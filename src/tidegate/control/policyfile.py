"""The policy file: read at the start, and again whenever it changes while the controller runs."""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tidegate.control.yamlmodel import from_mapping, load_model, parse_model, read_text
from tidegate.domain import InvalidInput, PolicyInvalid
from tidegate.domain.policy import Policy

logger = logging.getLogger("tidegate")

_COARSE_S = 3.0
"""Even coarse file systems give different times to changes that are this far apart."""

Stamp = tuple[int, int, int]
"""Modification time, size and inode."""


def load_policy(path: str | Path | None) -> Policy:
    """The policy in a file, or the default policy if there is no file."""
    return Policy() if path is None else load_model(path, Policy)


def policy_from(settings: Policy | Mapping[str, Any]) -> Policy:
    """A policy from a mapping with the same keys as the file, or the policy itself."""
    return settings if isinstance(settings, Policy) else from_mapping(settings, Policy, "policy")


class PolicyFile:
    """A policy file that is watched for changes.

    A change takes effect once two polls in a row find the same content. A file that is still being written is
    therefore not mistaken for a shorter policy. If the file is invalid or missing, the current policy stays in force
    and the problem is reported once.
    """

    def __init__(
        self,
        path: str | Path,
        report: Callable[[str], None] = logger.warning,
        adjusted: Callable[[Policy], Policy] = lambda policy: policy,
    ) -> None:
        """`adjusted` is applied to what the file says, each time it is read."""
        self.path = Path(path)
        self._report = report
        self._adjusted = adjusted
        text = read_text(path)
        self.policy = adjusted(parse_model(text, Policy, str(path)))
        """The policy in force."""
        self._taken = _digest(text)
        self._pending: str | None = None
        self._stamp: Stamp | None = None
        self._missed = 0

    def poll(self) -> Policy | None:
        """The new policy if the file differs from the policy in force, else None. Call it once per step."""
        try:
            stamp = self._look()
            if stamp is not None and stamp == self._stamp and self._pending is None:
                return None
            text = read_text(self.path)
        except (OSError, InvalidInput) as error:
            self._note_missing(error)
            return None
        self._missed, self._stamp = 0, stamp
        found = _digest(text)
        if found == self._taken:
            self._pending = None
            return None
        if found != self._pending:
            self._pending = found
            return None
        self._pending, self._taken = None, found
        return self._take_up(text)

    def _look(self) -> Stamp | None:
        """A stamp that changes with the file; None while the file is too new for its time to be conclusive."""
        stat = self.path.stat()
        young = time.time() - stat.st_mtime < _COARSE_S
        return None if young else (stat.st_mtime_ns, stat.st_size, stat.st_ino)

    def _take_up(self, text: str) -> Policy | None:
        try:
            wanted = self._adjusted(parse_model(text, Policy, str(self.path)))
        except PolicyInvalid as error:
            for line in str(error).splitlines():
                self._report(f"{line} (the current policy stays in force)")
            return None
        live, fixed = wanted.live_from(self.policy)
        for name in fixed:
            self._report(f"{self.path}: {name} cannot change while Tidegate runs; it takes effect at the next start")
        if live == self.policy:
            return None
        self.policy = live
        return live

    def _note_missing(self, error: Exception) -> None:
        self._missed, self._stamp = self._missed + 1, None
        if self._missed == 2:  # while a file is being replaced, it is missing for a moment
            said = str(error) if isinstance(error, InvalidInput) else f"{self.path}: cannot be read ({error})"
            self._report(f"{said}; the current policy stays in force")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
