"""A CPU quota for each executor of an embedded cluster, as each would have in a container of its own.

Without quotas, one executor can use all cores of the machine, and more executors add no CPU. An executor is started
through `JAVA_HOME/bin/java` of its environment; a stand-in there enters a control group and becomes Java. The
executor's Python workers are its children, so they are in the group too.
"""

from __future__ import annotations

import contextlib
import logging
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from types import MappingProxyType

from tidegate.adapters.host.cgroups import PROCS
from tidegate.adapters.host.shares import ProcessGroups
from tidegate.adapters.host.standin import write_stand_in
from tidegate.adapters.spark.java import java_program
from tidegate.domain import EnvironmentUnfit
from tidegate.domain.capability import Capability

logger = logging.getLogger("tidegate")

_HOME = "spark.executorEnv.JAVA_HOME"
_PROCESSES = 2
"""What an executor weighs beside the driver: a Java process and a Python worker."""
_END_S = 20.0
_TRIAL_S = 60.0
_numbers = count(1)


@dataclass(frozen=True, slots=True)
class ExecutorQuota:
    """Whether executors get a quota, and the settings of a session that does this. Without a quota there are none."""

    capability: Capability
    settings: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    group: Path | None = None
    """Contains one group per executor, named after its process."""


@contextlib.contextmanager
def executor_quota(cpus: float, most_executors: int) -> Iterator[ExecutorQuota]:
    """Give each executor at most this many CPUs: `with executor_quota(0.4, 4) as quota`, then
    `embedded_session(…, settings={**quota.settings})`. Stop the session before the block ends.

    Where control groups are not permitted, a warning says so and executors have no quota. The groups are removed at
    the end, and by a guardian process if this one is killed.
    """
    groups = _groups()
    with tempfile.TemporaryDirectory(prefix="tidegate-java-") as folder:
        try:
            quota = _prepared(groups, cpus, most_executors, Path(folder))
        except (EnvironmentUnfit, OSError, subprocess.SubprocessError) as error:
            quota = ExecutorQuota(Capability("executor quota", False, str(error)))
            logger.warning("executors have no CPU quota: %s", error)
        try:
            yield quota
        finally:
            if quota.group is not None:
                _await_end(quota.group)
            if groups is not None:
                _remove(groups)


def _remove(groups: ProcessGroups) -> None:
    try:
        groups.restore()
    except OSError as error:  # they are recorded, so the next start removes them
        logger.warning("the executors' control groups are still in use: %s", error)


def _groups() -> ProcessGroups | None:
    try:
        return ProcessGroups()
    except OSError:  # no mount table: not Linux
        return None


def _prepared(groups: ProcessGroups | None, cpus: float, most_executors: int, home: Path) -> ExecutorQuota:
    """Make the groups' parent and the stand-in, and try it."""
    if groups is None:
        raise EnvironmentUnfit("there are no control groups here")
    able = next(found for found in groups.capabilities() if found.actuator == "quota")
    if not able.able:
        raise EnvironmentUnfit(able.reason)
    nursery, version = groups.nursery(f"executors-{next(_numbers)}", most_executors * _PROCESSES)
    java = home / "bin" / "java"
    write_stand_in(java, os.path.realpath(java_program()), nursery, version, cpus)
    tried = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=_TRIAL_S, check=False)
    if tried.returncode:
        raise EnvironmentUnfit((tried.stderr.strip().splitlines() or ["Java did not start in a control group"])[-1])
    reason = f"{cpus:g} CPUs each, by control groups version {version.version}"
    return ExecutorQuota(Capability("executor quota", True, reason), MappingProxyType({_HOME: str(home)}), nursery)


def _await_end(nursery: Path) -> None:
    """Executors end a moment after their session."""
    deadline_s = time.monotonic() + _END_S
    while time.monotonic() < deadline_s:
        if not any((group / PROCS).read_text().strip() for group in nursery.iterdir() if group.is_dir()):
            return
        time.sleep(0.1)
