"""A kernel of our own for control groups: a folder of plain files that behaves as the real tree does."""

from __future__ import annotations

import errno
from pathlib import Path

from tidegate.adapters.host.cgroups import PROCS, V1, V2, CgroupFiles, CgroupTree, CgroupVersion


class FakeKernel(CgroupFiles):
    """A process is in one group of a tree at a time; groups with processes or groups in them cannot be removed.

    Version 2: a group other than the root has processes or hands controllers down, never both.
    """

    def __init__(self, root: Path, version: int, pids: list[int]) -> None:
        self.version = version
        self.root = root
        self.mounts = {"cpu": root / "cpu", "memory": root / "memory"} if version == 1 else {"all": root / "unified"}
        for mount in self.mounts.values():
            mount.mkdir(parents=True)
            (mount / PROCS).write_text("\n".join(map(str, pids)))
        if version == 2:
            (self.mounts["all"] / "cgroup.controllers").write_text("cpu memory pids")
            (self.mounts["all"] / "cgroup.subtree_control").write_text("")
        self.gone: set[int] = set()
        self.origin = "/"

    def delegate(self, name: str, pids: list[int]) -> Path:
        """Processes in a group of their own beneath the root, as a job has that was started there."""
        self.origin = f"/{name}"
        for mount in self.mounts.values():
            self.make(mount / name)
            for pid in pids:
                self.write(mount / name / PROCS, str(pid))
        return next(iter(self.mounts.values())) / name

    def tree(self) -> CgroupTree:
        return CgroupTree.find(self.table(), self.proc())

    def table(self) -> str:
        if self.version == 2:
            return f"cgroup2 {self.mounts['all']} cgroup2 rw,nosuid 0 0\n"
        return "".join(f"cgroup {path} cgroup rw,relatime,{name} 0 0\n" for name, path in self.mounts.items())

    def proc(self) -> Path:
        """`/proc` of processes that are all at the root, or in the group that was delegated."""
        line = f"0::{self.origin}\n" if self.version == 2 else f"2:memory:{self.origin}\n1:cpu:{self.origin}\n"
        for pid in self.members(next(iter(self.mounts.values())) / self.origin.lstrip("/")):
            folder = self.root / "proc" / str(pid)
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "cgroup").write_text(line)
        return self.root / "proc"

    def members(self, group: Path) -> list[int]:
        return [int(pid) for pid in (group / PROCS).read_text().split()]

    def make(self, path: Path) -> None:
        if path.is_dir():
            return
        path.mkdir()
        (path / PROCS).write_text("")
        if self.version == 2:
            (path / "cgroup.subtree_control").write_text("")

    def remove(self, path: Path) -> None:
        if self.members(path) or any(child.is_dir() for child in path.iterdir()):
            raise OSError(errno.EBUSY, "Device or resource busy")
        for file in path.iterdir():
            file.unlink()
        path.rmdir()

    def write(self, path: Path, text: str) -> None:
        if path.name == PROCS:
            self._move(path, int(text))
        elif path.name == HANDED:
            if text.startswith("+") and self.members(path.parent) and path.parent not in self.mounts.values():
                raise OSError(errno.EBUSY, "Device or resource busy")
            handed = [word for word in path.read_text().split() if word != text[1:]]
            path.write_text(" ".join([*handed, text[1:]] if text.startswith("+") else handed))
        else:
            if (
                self.version == 2
                and path.name.split(".")[0] not in (path.parent.parent / "cgroup.subtree_control").read_text().split()
            ):
                raise FileNotFoundError(path)  # the controller was not handed down
            path.write_text(text)

    def _move(self, procs: Path, pid: int) -> None:
        if pid in self.gone:
            raise ProcessLookupError(pid)
        mount = next(mount for mount in self.mounts.values() if mount in procs.parents)
        if self.version == 2 and procs.parent != mount and (procs.parent / HANDED).read_text():
            raise OSError(errno.EBUSY, "Device or resource busy")
        for other in mount.rglob(PROCS):
            other.write_text("\n".join(str(member) for member in self.members(other.parent) if member != pid))
        procs.write_text(f"{procs.read_text()}\n{pid}".strip())


HANDED = "cgroup.subtree_control"
KNOBS: dict[int, CgroupVersion] = {1: V1, 2: V2}
