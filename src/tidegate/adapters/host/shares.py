"""CPU weight, quota and memory for the processes of an application or a class, by control groups; and how to undo it.

Groups are created below the current group of the processes, so limits that others have set above still hold. Changes
are recorded before they are made. `restore` undoes them at the end, a guardian process undoes them if the owner is
killed, and `recover` undoes them at the next start if the guardian was killed too.
Queries inside one Java process cannot be separated by groups; there, scheduler pools are used (`pools.py`).
"""

from __future__ import annotations

import atexit
import contextlib
import json
import logging
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import psutil

from tidegate.adapters.host.cgroups import (
    CONTROLLERS,
    PROCS,
    CgroupFiles,
    CgroupTree,
    CgroupVersion,
    Controller,
    capability,
    member_ids,
)
from tidegate.adapters.host.records import PARENT, check_record, make_private, not_private, read_record
from tidegate.domain.capability import Capability
from tidegate.domain.errors import EnvironmentUnfit, InvalidInput

logger = logging.getLogger("tidegate")

RECORDS = Path(tempfile.gettempdir()) / f"tidegate-groups-{os.getuid()}"
"""Records here cause processes to be moved, so the folder is used only if it belongs to this user alone."""
_MEMORY_MARGIN = 1.1
"""A limit stays this factor above the memory in use, because a heap needs room for garbage collection."""
_SWEEPS = 5
_HANDED = "cgroup.subtree_control"
_NICE_STEP = 1.25
"""In Linux, one step of niceness changes a process's weight by this factor."""


class ProcessGroups:
    """The groups that one controller owns. Nothing changes until a group is adopted or set."""

    def __init__(
        self,
        tree: CgroupTree | None = None,
        files: CgroupFiles | None = None,
        records: Path = RECORDS,
        guardian: bool = True,
    ) -> None:
        self._tree = tree or CgroupTree.find()
        self._files = files or CgroupFiles()
        self._record_path = records / f"{os.getpid()}-{id(self):x}.json"
        self._members: dict[str, list[int]] = {}
        self._places: dict[str, dict[Controller, tuple[Path, Path]]] = {}
        """Group → controller → (its folder, the original folder of its processes)."""
        self._handed: dict[Path, list[Controller]] = {}
        """Version 2: the groups that delegate controllers on our behalf."""
        self._guardian: subprocess.Popen[bytes] | None = None
        self._wants_guardian = guardian
        recover(records, self._files, self._tree)

    def capabilities(self) -> tuple[Capability, ...]:
        """What can be set here. Checked without changing anything."""
        found = [capability(controller, self._tree, self._files) for controller in CONTROLLERS]
        return (*found, Capability("quota", found[0].able, found[0].reason))

    def adopt(self, group: str, pids: list[int]) -> None:
        """Put processes and all their children, present and future, into one group."""
        if not pids:
            raise InvalidInput(f"group {group!r}: no processes to control")
        self._members[group] = list(pids)
        for controller in self._places.get(group, {}):
            self._move(group, controller)

    def nursery(self, group: str, processes: int) -> tuple[Path, CgroupVersion]:
        """An empty group whose subgroups can have CPU quotas, for this many processes that enter them as they start.

        Returns its folder and how values are written there. `restore` removes it with its subgroups.
        """
        if "cpu" not in self._tree.roots:
            raise EnvironmentUnfit("no cpu controller is mounted here")
        _, knobs = self._tree.roots["cpu"]
        origin = self._tree.group_of(os.getpid(), "cpu")
        folder = self._found(group, "cpu", origin)
        if knobs.version == 2:
            self._hand_down("cpu", origin, folder.parent)
            self._files.write(folder / _HANDED, "+cpu")
        for level in (folder.parent, folder):  # a group weighs as much as one process, however many are in it
            self._files.write(level / knobs.weight_file, knobs.clamped(knobs.weight_default * processes))
        return folder, knobs

    def set_share(self, group: str, share: float) -> None:
        """Set the group's weight relative to the others. It limits nothing while CPU is idle."""
        self._set(group, "cpu", lambda knobs: {knobs.weight_file: knobs.weight(share)})

    def set_quota(self, group: str, cpus: float | None) -> None:
        """At most this many CPUs, even if others are idle; None removes the quota."""
        self._set(group, "cpu", lambda knobs: knobs.quota(cpus))

    def set_memory(self, group: str, limit_bytes: int | None) -> int | None:
        """At most this many bytes, but never less than in use, which would kill processes. Returns what was set."""
        if limit_bytes is not None:
            limit_bytes = max(limit_bytes, round(self.resident_bytes(group) * _MEMORY_MARGIN))
        self._set(group, "memory", lambda knobs: {knobs.memory_file: knobs.memory(limit_bytes)})
        return limit_bytes

    def resident_bytes(self, group: str) -> int:
        """Memory currently used by the group's processes."""
        return sum(_resident(pid) for pid in self._family(group))

    def restore(self) -> None:
        """Move the processes back to their original groups, and remove our groups."""
        _undo(self._record(), self._files, self._tree)
        self._places.clear()
        self._handed.clear()
        self._record_path.unlink(missing_ok=True)
        if self._guardian is not None and self._guardian.stdin is not None:
            self._guardian.stdin.close()  # it finds no record and exits
            self._guardian.wait(timeout=10)
            self._guardian = None
        atexit.unregister(self.restore)

    def _set(self, group: str, controller: Controller, texts: Any) -> None:
        if group not in self._members:
            raise InvalidInput(f"group {group!r}: adopt its processes first")
        if controller not in self._tree.roots:
            raise InvalidInput(f"group {group!r}: no {controller} controller is mounted here")
        if controller not in self._places.setdefault(group, {}):
            self._place(group, controller)
        knobs: CgroupVersion = self._tree.roots[controller][1]
        folder = self._places[group][controller][0]
        for file, text in texts(knobs).items():
            self._files.write(folder / file, text)

    def _place(self, group: str, controller: Controller) -> None:
        """Create the group's folder in one controller's tree and move its processes there."""
        _, knobs = self._tree.roots[controller]
        # In version 2, a group with processes cannot delegate: move all processes out before setting the first weight.
        for name in self._members if knobs.version == 2 else (group,):
            self._settle(name, controller)
        folder, origin = self._places[group][controller]
        if knobs.version == 2:
            self._hand_down(controller, origin, folder.parent)
        if controller == "cpu":
            self._files.write(folder.parent / knobs.weight_file, knobs.clamped(knobs.weight_default * self._standing()))

    def _settle(self, group: str, controller: Controller) -> None:
        places = self._places.setdefault(group, {})
        if controller in places:
            return
        if self._tree.roots[controller][1].version == 2 and places:  # one tree for all: the processes are already there
            places[controller] = next(iter(places.values()))
            return
        self._found(group, controller, self._tree.group_of(self._members[group][0], controller))
        self._move(group, controller)

    def _found(self, group: str, controller: Controller, origin: Path) -> Path:
        """Make the group's folder. It is recorded first."""
        folder = origin / PARENT / f"{re.sub(r'[^A-Za-z0-9_-]+', '-', group)}-{os.getpid()}"
        self._places.setdefault(group, {})[controller] = (folder, origin)
        self._write_record()
        self._watch()
        self._files.make(folder.parent)
        self._files.make(folder)
        return folder

    def _hand_down(self, controller: Controller, *above: Path) -> None:
        """Version 2: a group other than the root can delegate a controller only while it has no processes itself."""
        for group in above:
            if controller in self._files.read(group / _HANDED).split():
                continue
            self._handed.setdefault(group, []).append(controller)
            self._write_record()
            try:
                self._files.write(group / _HANDED, f"+{controller}")
            except OSError as error:
                self.restore()
                raise EnvironmentUnfit(
                    f"{group} contains other processes and cannot share {controller} among groups ({error.strerror}); "
                    "start the job in its own group, apart from the processes that control it"
                ) from None

    def _standing(self) -> float:
        """The total weight of all groups, in processes: one each, less if they were made nice.

        Their parent competes with single processes, and niceness counts only inside a group. Without this, nine
        processes in one group would weigh as much as one, and niceness would have no effect.
        """
        leaders = [pids[0] for group, pids in self._members.items() if "cpu" in self._places.get(group, {})]
        return sum(_NICE_STEP ** -_niceness(pid) for pid in leaders)

    def _move(self, group: str, controller: Controller) -> None:
        folder, _ = self._places[group][controller]
        for _ in range(_SWEEPS):  # a child forked while its parent moves stays behind: repeat until none does
            inside = set(member_ids(self._files.read(folder / PROCS)))
            outside = [pid for pid in self._family(group) if pid not in inside]
            if not outside:
                return
            for pid in outside:
                with contextlib.suppress(ProcessLookupError):
                    self._files.write(folder / PROCS, str(pid))

    def _family(self, group: str) -> list[int]:
        pids = set(self._members[group])
        for pid in self._members[group]:
            with contextlib.suppress(psutil.Error):
                pids |= {child.pid for child in psutil.Process(pid).children(recursive=True)}
        return sorted(pids)

    def _record(self) -> dict[str, Any]:
        places = [
            {"folder": str(folder), "origin": str(origin)}
            for controllers in self._places.values()
            for folder, origin in controllers.values()
        ]
        handed = {str(group): controllers for group, controllers in self._handed.items()}
        return {"owner": os.getpid(), "since": psutil.Process().create_time(), "places": places, "handed": handed}

    def _write_record(self) -> None:
        make_private(self._record_path.parent)
        draft = self._record_path.with_suffix(".draft")
        draft.unlink(missing_ok=True)
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(json.dumps(self._record()))
        draft.replace(self._record_path)

    def _watch(self) -> None:
        """Called before the first change: undo at exit, and start a process that survives a kill."""
        atexit.register(self.restore)
        if self._wants_guardian and self._guardian is None:
            command = [sys.executable, "-m", "tidegate.adapters.host.guardian", str(self._record_path)]
            self._guardian = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)


def recover(records: Path = RECORDS, files: CgroupFiles | None = None, tree: CgroupTree | None = None) -> int:
    """Undo what ended owners left behind. Returns how many there were."""
    found = 0
    if records.is_dir() and (problem := not_private(records)):
        logger.warning("control groups of earlier runs are not undone: %s", problem)
        return 0
    for path in sorted(records.glob("*.json")) if records.is_dir() else []:
        try:
            if _alive(read_record(path)):
                continue
            undo_record(path, files, tree)
        except (OSError, ValueError, KeyError, TypeError) as error:
            logger.warning("control groups of an earlier run could not be undone (%s): %s", path, error)
            continue
        found += 1
    return found


def undo_record(path: Path, files: CgroupFiles | None = None, tree: CgroupTree | None = None) -> None:
    """Undo a record and remove it."""
    _undo(read_record(path), files or CgroupFiles(), tree or CgroupTree.find())
    path.unlink(missing_ok=True)


def _undo(record: dict[str, Any], files: CgroupFiles, tree: CgroupTree) -> None:
    check_record(record, tree)
    handed = record.get("handed", {})
    _take_back(handed, files)  # otherwise the groups could not have processes again
    parents = set()
    for place in record["places"]:
        folder, origin = Path(place["folder"]), Path(place["origin"])
        parents.add(folder.parent)
        if folder.is_dir():
            _dissolve(folder, origin, files)
    _take_back(handed, files)  # what a group with subgroups could not give back before
    for parent in parents:
        with contextlib.suppress(OSError):  # already gone, or another owner has groups in it
            files.remove(parent)


def _take_back(handed: dict[str, list[str]], files: CgroupFiles) -> None:
    """From the innermost group outwards: a group can take back only what the groups inside have given back."""
    for group, controllers in reversed(handed.items()):
        for controller in controllers:
            with contextlib.suppress(OSError):
                files.write(Path(group) / _HANDED, f"-{controller}")


def _dissolve(folder: Path, origin: Path, files: CgroupFiles) -> None:
    """Move the processes of a group and its subgroups back, and remove the groups."""
    for inner in folder.iterdir():
        if inner.is_dir():
            _dissolve(inner, origin, files)
    for pid in member_ids(files.read(folder / PROCS)):
        with contextlib.suppress(ProcessLookupError):
            files.write(origin / PROCS, str(pid))
    files.remove(folder)


def _alive(record: dict[str, Any]) -> bool:
    """Does the owner still run, rather than another process with its id?"""
    try:
        return bool(abs(psutil.Process(record["owner"]).create_time() - record["since"]) < 1.0)
    except psutil.Error:
        return False


def _niceness(pid: int) -> int:
    try:
        return int(psutil.Process(pid).nice())
    except psutil.Error:
        return 0


def _resident(pid: int) -> int:
    try:
        return int(psutil.Process(pid).memory_info().rss)
    except psutil.Error:
        return 0
