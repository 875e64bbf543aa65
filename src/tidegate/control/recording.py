"""A journal that also records metrics: every observation goes to Parquet files beside the journal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tidegate.control.ports import Journal
from tidegate.domain import Decision, Observation, Receipt

if TYPE_CHECKING:
    from tidegate.history.parquetwriter import HistoryWriter


class RecordingJournal:
    """Passes every call on to `journal`, and writes the batches of every observation to `history`.

    If the history cannot be written (for example because the disk is full), recording it ends with a note. Control
    goes on.
    """

    def __init__(self, journal: Journal, history: HistoryWriter) -> None:
        self._journal = journal
        self._history: HistoryWriter | None = history

    def record(self, observation: Observation, decision: Decision | None, receipt: Receipt | None) -> None:
        self._journal.record(observation, decision, receipt)
        if self._history is not None:
            try:
                self._history.observe(observation)
            except OSError as error:
                self._give_up(observation.time_s, error)

    def judge(self, step: int, body: Mapping[str, Any]) -> None:
        self._journal.judge(step, body)

    def note(self, time_s: float, event: str, text: str) -> None:
        self._journal.note(time_s, event, text)

    def close(self, time_s: float) -> None:
        """Write the last samples; the journal stays open."""
        if self._history is not None:
            try:
                self._history.close()
            except OSError as error:
                self._give_up(time_s, error)
        self._history = None

    def _give_up(self, time_s: float, error: OSError) -> None:
        folder = self._history.folder if self._history else ""
        self._history = None
        self._journal.note(time_s, "history-ended", f"{folder} cannot be written ({error}); metrics are not recorded")
