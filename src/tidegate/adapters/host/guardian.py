"""Waits until the owner of process groups ends, in whatever way, and undoes what it left behind.

Started by `ProcessGroups` as `python -m tidegate.adapters.host.guardian RECORD`, with a pipe from the owner as its
input. The kernel closes the pipe even if the owner is killed.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tidegate.adapters.host.shares import undo_record


def main() -> None:
    record = Path(sys.argv[1])
    sys.stdin.buffer.read()  # returns when the owner has ended; it may still be listed as a process
    if record.exists():
        undo_record(record)


if __name__ == "__main__":
    main()
