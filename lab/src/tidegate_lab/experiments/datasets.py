"""Locations of recorded data: traces, labelled series, taxi rides. None of it is part of the repository."""

from __future__ import annotations

import os
from pathlib import Path


def recorded(path: str) -> Path | None:
    """A file of the data folder: the one that TIDEGATE_DATA names, else `../shared/data` beside the repository."""
    root = os.environ.get("TIDEGATE_DATA")
    folder = Path(root) if root else Path(__file__).resolve().parents[5] / "shared" / "data"
    found = folder / path
    return found if found.is_file() else None
