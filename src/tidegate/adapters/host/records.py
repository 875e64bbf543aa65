"""Records of changes to control groups: who owns them, and what they may undo.

Undoing a record moves processes and removes groups, possibly with root rights. A record is therefore valid only if its
folder and file belong to this user alone, and only for groups that Tidegate makes, below the mounted trees.
"""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

from tidegate.adapters.host.cgroups import CgroupTree
from tidegate.domain.errors import EnvironmentUnfit

PARENT = "tidegate"
"""Our groups are inside a group of this name, below the original group of their processes."""


def make_private(folder: Path) -> None:
    """Create the folder for this user alone. A folder that others have created or can write to is refused."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    if problem := not_private(folder):
        raise EnvironmentUnfit(f"{problem}; remove it, or set TMPDIR to a folder of your own")


def not_private(folder: Path) -> str | None:
    """What is wrong with the folder; None if it belongs to this user alone."""
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode):
        return f"{folder} is not a folder"
    if found.st_uid != os.geteuid():
        return f"{folder} belongs to another user ({found.st_uid})"
    if found.st_mode & 0o077:
        return f"{folder} is open to other users (mode {stat.S_IMODE(found.st_mode):o}; it must be 700)"
    return None


def read_record(path: Path) -> dict[str, Any]:
    """Raises `ValueError` for anything but a record of this user."""
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW)) as file:
        found = os.fstat(file.fileno())
        if found.st_uid != os.geteuid() or found.st_mode & 0o022:
            raise ValueError(f"{path} was not written by this user alone")
        record = json.load(file)
    if not isinstance(record, dict):
        raise ValueError(f"{path} is not a record")
    return record


def check_record(record: dict[str, Any], tree: CgroupTree) -> None:
    """Raises `ValueError` if a record names anything but our groups and those their processes came from."""
    roots = [root.resolve() for root, _ in tree.roots.values()]
    for place in record["places"]:
        folder, origin = Path(place["folder"]), Path(place["origin"])
        if folder.parent.name != PARENT or folder.parent.parent != origin:
            raise ValueError(f"{folder} is not a group that Tidegate made in {origin}")
        _check_beneath(folder, roots)
    origins = {Path(place["origin"]) for place in record["places"]}
    for handed in map(Path, record.get("handed", {})):
        if handed not in origins and handed.parent not in origins:
            raise ValueError(f"{handed} is not a group that Tidegate has changed")
        _check_beneath(handed, roots)


def _check_beneath(folder: Path, roots: list[Path]) -> None:
    resolved = folder.resolve()
    if not any(root == resolved or root in resolved.parents for root in roots):
        raise ValueError(f"{folder} is not in a control group tree")
