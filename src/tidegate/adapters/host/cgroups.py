"""Control groups as files, versions 1 and 2: where they are mounted, the names of their knobs, and their defaults.

Version 1 mounts a tree per controller and shares CPU by `cpu.shares`. Version 2 has one tree and `cpu.weight`, and
delegates controllers explicitly (`cgroup.subtree_control`). Hybrid machines mount both; each controller is in one.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tidegate.domain.capability import Capability

Controller = Literal["cpu", "memory"]
CONTROLLERS: tuple[Controller, ...] = ("cpu", "memory")
PROCS = "cgroup.procs"
_PERIOD_US = 100_000


@dataclass(frozen=True, slots=True)
class CgroupVersion:
    """The files of one version and how values are written into them."""

    version: int
    weight_file: str
    weight_default: int
    weight_range: tuple[int, int]
    memory_file: str

    def weight(self, share: float) -> str:
        """A share of the host as a weight. Only proportions count, so a full share is ten times the default."""
        return self.clamped(10 * self.weight_default * share)

    def clamped(self, weight: float) -> str:
        """A weight within the kernel's range."""
        least, most = self.weight_range
        return str(min(most, max(least, round(weight))))

    def quota(self, cpus: float | None) -> dict[str, str]:
        """At most this many CPUs; None removes the quota. File → text, in the order to write."""
        if self.version == 2:
            return {"cpu.max": f"{'max' if cpus is None else round(cpus * _PERIOD_US)} {_PERIOD_US}"}
        quota = "-1" if cpus is None else str(max(1000, round(cpus * _PERIOD_US)))
        return {"cpu.cfs_period_us": str(_PERIOD_US), "cpu.cfs_quota_us": quota}

    def memory(self, limit_bytes: int | None) -> str:
        unlimited = "max" if self.version == 2 else "-1"
        return unlimited if limit_bytes is None else str(limit_bytes)


V1 = CgroupVersion(1, "cpu.shares", 1024, (2, 262_144), "memory.limit_in_bytes")
V2 = CgroupVersion(2, "cpu.weight", 100, (1, 10_000), "memory.max")


class CgroupFiles:
    """The calls to the kernel. Tests replace it with their own kernel."""

    def read(self, path: Path) -> str:
        return path.read_text().strip()

    def write(self, path: Path, text: str) -> None:
        path.write_text(text)

    def may_make_in(self, path: Path) -> bool:
        """Could groups be created here? Checked without trying, because the group may belong to someone else."""
        return os.access(path, os.W_OK | os.X_OK)

    def make(self, path: Path) -> None:
        path.mkdir(exist_ok=True)

    def remove(self, path: Path) -> None:
        path.rmdir()


@dataclass(frozen=True, slots=True)
class CgroupTree:
    """Where the groups of each controller are on this machine."""

    roots: dict[Controller, tuple[Path, CgroupVersion]]
    proc: Path = Path("/proc")

    @classmethod
    def find(cls, mounts: str | None = None, proc: Path = Path("/proc")) -> CgroupTree:
        """Read the mount table. A controller is used where it really is, version 2 first."""
        table = mounts if mounts is not None else (proc / "self/mounts").read_text()
        rows = [line.split() for line in table.splitlines() if len(line.split()) >= 4]
        unified = next((Path(row[1]) for row in rows if row[2] == "cgroup2"), None)
        handed = _words(unified / "cgroup.controllers") if unified else set()
        roots: dict[Controller, tuple[Path, CgroupVersion]] = {}
        for controller in CONTROLLERS:
            if unified is not None and controller in handed:
                roots[controller] = (unified, V2)
                continue
            for row in rows:
                if row[2] == "cgroup" and controller in row[3].split(","):
                    roots[controller] = (Path(row[1]), V1)
        return cls(roots, proc)

    def group_of(self, pid: int, controller: Controller) -> Path:
        """The group that a process is in."""
        root, knobs = self.roots[controller]
        for line in (self.proc / str(pid) / "cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers == "" if knobs.version == 2 else controller in controllers.split(","):
                return root / path.lstrip("/")
        return root


def capability(controller: Controller, tree: CgroupTree, files: CgroupFiles) -> Capability:
    """Whether groups can be created for a controller. Checked without changing anything."""
    if controller not in tree.roots:
        return Capability(controller, False, "the controller is not mounted")
    _, knobs = tree.roots[controller]
    origin = tree.group_of(os.getpid(), controller)
    if not files.may_make_in(origin):
        return Capability(controller, False, f"no permission to create groups in {origin}; ask for a delegated group")
    return Capability(controller, True, f"control groups version {knobs.version}, {origin}")


def member_ids(text: str) -> Iterable[int]:
    """The processes listed in `cgroup.procs`; 0 stands for a process that this namespace cannot see."""
    return [pid for pid in map(int, text.split()) if pid > 0]


def _words(path: Path) -> set[str]:
    try:
        return set(path.read_text().split())
    except OSError:
        return set()
