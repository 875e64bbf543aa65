"""A small in-memory file system for the journal that can be filled, if mounting is permitted."""

from __future__ import annotations

import contextlib
import subprocess
from pathlib import Path

from tidegate.domain import EnvironmentUnfit

_SIZE = "32m"
_BLOCK = b"\0" * 4096


class SmallDisk:
    """Exists while the `with` block does; `folder` is where it is mounted."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._filler = folder / "filler"

    def __enter__(self) -> SmallDisk:
        self.folder.mkdir(parents=True, exist_ok=True)
        command = ["mount", "-t", "tmpfs", "-o", f"size={_SIZE},mode=0700", "tidegate-chaos", str(self.folder)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        except FileNotFoundError:
            raise EnvironmentUnfit("there is no mount command") from None
        if done.returncode:
            raise EnvironmentUnfit(f"mount: {(done.stderr.strip().splitlines() or ['failed'])[-1]}")
        return self

    def __exit__(self, *_: object) -> None:
        subprocess.run(["umount", "--lazy", str(self.folder)], capture_output=True, check=False)

    def fill(self) -> None:
        """Fill the disk completely."""
        with contextlib.suppress(OSError), self._filler.open("wb", buffering=0) as file:
            while file.write(_BLOCK):
                pass

    def clear(self) -> None:
        self._filler.unlink(missing_ok=True)
