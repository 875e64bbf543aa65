"""The CPU quota and the memory limit of a host, by control groups. They hold for its JVM and its Python workers too."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tidegate.adapters.host.shares import ProcessGroups
from tidegate.domain import EnvironmentUnfit, InvalidInput
from tidegate.fleet.config import HostRule

_MIB = 1 << 20


def check_limits(rule: HostRule, groups: Callable[[], ProcessGroups] = ProcessGroups) -> None:
    """Raises if the limits in the fleet's file cannot be set on this machine. Changes nothing."""
    wanted = {"quota": rule.cpu_quota, "memory": rule.memory_limit_mb}
    if any(wanted.values()):
        for able in groups().capabilities():
            if wanted.get(able.actuator) is not None and not able.able:
                raise EnvironmentUnfit(f"host: its {able.actuator} cannot be limited here ({able.reason})")


@contextmanager
def limited(name: str, rule: HostRule, groups: Callable[[], ProcessGroups] = ProcessGroups) -> Iterator[None]:
    """Run this process and its children within the limits. Whatever ends it, its groups are removed."""
    if rule.cpu_quota is None and rule.memory_limit_mb is None:
        yield
        return
    made = groups()
    try:
        try:
            made.adopt(name, [os.getpid()])
            if rule.cpu_quota is not None:
                made.set_quota(name, rule.cpu_quota)
            if rule.memory_limit_mb is not None:
                made.set_memory(name, rule.memory_limit_mb * _MIB)
        except (OSError, InvalidInput) as error:
            raise EnvironmentUnfit(f"host {name}: cpu_quota or memory_limit_mb cannot be set here ({error})") from None
        yield
    finally:
        made.restore()
