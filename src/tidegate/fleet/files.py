"""The file operations of a fleet. Each happens completely or not at all. The simulation has its own disk."""

from __future__ import annotations

import contextlib
import os
import shutil
import uuid
from pathlib import Path
from typing import Protocol


class Files(Protocol):
    """A file system as one machine sees it. Every method raises `OSError` if the state is unknown."""

    def names(self, folder: Path) -> list[str]:
        """The sorted names in a folder."""
        ...

    def read(self, path: Path) -> bytes: ...

    def create(self, path: Path, body: bytes) -> bool:
        """Create the file atomically. Returns False if it exists already."""
        ...

    def replace(self, path: Path, body: bytes) -> None:
        """Replace the file atomically, so that no reader sees half of it."""
        ...

    def remove(self, path: Path) -> None:
        """Remove a file or a whole folder, if it exists."""
        ...

    def make(self, folder: Path) -> None: ...

    def trim(self, path: Path, most_bytes: int) -> None:
        """Truncate a log that has grown beyond this size. Its newest half is kept beside it as `….1`."""
        ...


class Disk:
    """The real disk. Only the owner can read the files: they hold the user's names, addresses and settings."""

    def names(self, folder: Path) -> list[str]:
        with os.scandir(folder) as found:
            return sorted(entry.name for entry in found)

    def read(self, path: Path) -> bytes:
        return path.read_bytes()

    def create(self, path: Path, body: bytes) -> bool:
        # Synced, so that an epoch that was taken survives a crash of the machine, with its owner.
        draft = self._draft(path, body, sync=True)
        try:
            os.link(draft, path)
        except FileExistsError:
            return False
        finally:
            with contextlib.suppress(OSError):
                draft.unlink()
        return True

    def replace(self, path: Path, body: bytes) -> None:
        draft = self._draft(path, body, sync=False)
        try:
            draft.replace(path)
        except OSError:
            with contextlib.suppress(OSError):
                draft.unlink()
            raise

    def remove(self, path: Path) -> None:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)

    def make(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)

    def trim(self, path: Path, most_bytes: int) -> None:
        try:
            size = path.stat().st_size
        except FileNotFoundError:
            return
        if size <= most_bytes:
            return
        with path.open("rb") as log:
            log.seek(size - most_bytes // 2)
            self.replace(path.with_name(f"{path.name}.1"), log.read(most_bytes // 2))
        os.truncate(path, 0)  # writers append, so they continue at the new end

    @staticmethod
    def _draft(path: Path, body: bytes, sync: bool) -> Path:
        draft = path.with_name(f"{path.name}.{uuid.uuid4().hex}.draft")
        handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(body)
                if sync:
                    file.flush()
                    os.fsync(file.fileno())
        except OSError:  # for example a full disk: remove the incomplete file
            with contextlib.suppress(OSError):
                draft.unlink()
            raise
        return draft


DISK = Disk()
