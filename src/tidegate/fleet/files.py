"""The few things that a fleet does with files, each whole or not at all; the simulation has a disk of its own."""

from __future__ import annotations

import contextlib
import os
import shutil
import uuid
from pathlib import Path
from typing import Protocol


class Files(Protocol):
    """A file system as one machine sees it. Everything raises `OSError` where nothing is known."""

    def names(self, folder: Path) -> list[str]:
        """What is in a folder, sorted."""
        ...

    def read(self, path: Path) -> bytes: ...

    def create(self, path: Path, body: bytes) -> bool:
        """Make the file as a whole; False where it is there already, whoever made it."""
        ...

    def replace(self, path: Path, body: bytes) -> None:
        """Replace the file in one step, so that nobody ever reads half of it."""
        ...

    def remove(self, path: Path) -> None:
        """A file or a whole folder; nothing happens where it is not there."""
        ...

    def make(self, folder: Path) -> None: ...

    def trim(self, path: Path, most_bytes: int) -> None:
        """A log that has grown beyond this begins anew; its newest half is left beside it, as `….1`."""
        ...


class Disk:
    """The real one. Files are for their owner alone: they hold names, addresses and settings of the user's."""

    def names(self, folder: Path) -> list[str]:
        return sorted(path.name for path in folder.iterdir())

    def read(self, path: Path) -> bytes:
        return path.read_bytes()

    def create(self, path: Path, body: bytes) -> bool:
        # Synced: after a crash of the machine an epoch that was taken is there, and says whose it is.
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
        os.truncate(path, 0)  # whoever writes to it appends, and goes on at the new end

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
        except OSError:  # a full disk: what was begun is taken away again
            with contextlib.suppress(OSError):
                draft.unlink()
            raise
        return draft


DISK = Disk()
