"""Carries out rebalances beside control: each in its own thread, one at a time per query."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from tidegate.domain import RebalanceReport

if TYPE_CHECKING:
    from tidegate.adapters.spark.restartablequery import RestartableQuery
    from tidegate.adapters.spark.settings import Settings
    from tidegate.adapters.spark.transaction import Transaction

Note = Callable[[str, str], None]
"""Receives an event and its text."""
_CLOSE_WAIT_S = 60.0


class Rebalancer:
    """Starts rebalances and keeps their reports until they are read."""

    def __init__(self, note: Note) -> None:
        self._note = note
        self._threads: dict[str, threading.Thread] = {}
        self._reports: dict[str, RebalanceReport] = {}
        self.failed: dict[str, str] = {}
        """Why the last rebalance of a query failed, until it is read."""
        self._lock = threading.Lock()

    def busy(self, name: str) -> bool:
        thread = self._threads.get(name)
        return thread is not None and thread.is_alive()

    def submit(self, query: RestartableQuery, settings: Settings, partitions: int | None) -> None:
        """Start a rebalance. The report comes with a later observation."""
        thread = threading.Thread(
            target=self._run, args=(query, settings, partitions), name=f"tidegate-rebalance-{query.name}", daemon=True
        )
        self._threads[query.name] = thread
        thread.start()

    def report(self, name: str) -> RebalanceReport | None:
        """The result of the last rebalance, returned once."""
        with self._lock:
            return self._reports.pop(name, None)

    def close(self) -> None:
        """Wait for rebalances in progress. A kill would be safe, but leaves a transaction unfinished."""
        for thread in list(self._threads.values()):
            thread.join(_CLOSE_WAIT_S)

    def _run(self, query: RestartableQuery, settings: Settings, partitions: int | None) -> None:
        from tidegate.adapters.spark.transaction import Step, first_line  # loaded with the query that is rebalanced

        def told(transaction: Transaction) -> None:
            if transaction.step is not Step.PLANNED or transaction.tasks_after:
                self._note(f"rebalance-{transaction.step.value.replace(' ', '-')}", f"{query.name}: {transaction.note}")

        try:
            done = query.rebalance(settings, partitions, told)
            report = RebalanceReport(True, done.pause_s, done.state_rows, done.note)
            self._note("rebalance-done", f"{query.name}: paused for {done.pause_s:.1f} s; {done.note or 'no state'}")
        except Exception as error:  # rolled back, or even that failed: control goes on and reports it
            text = first_line(error)
            report = RebalanceReport(False, None, None, text)
            self.failed[query.name] = text
            self._note("rebalance-failed", f"{query.name}: {text}")
        with self._lock:
            self._reports[query.name] = report
