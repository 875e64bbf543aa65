"""Alerts without Prometheus: a webhook or a command receives a message when a problem starts and when it ends."""

from __future__ import annotations

import json
import logging
import shlex
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from urllib.request import Request, urlopen

from tidegate.view.book import Book
from tidegate.view.library import Library
from tidegate.view.now import applications_now, pool_now

logger = logging.getLogger("tidegate")

_LOOK_EVERY_S = 5.0
_FIRES_AFTER_S = 60.0
"""Shorter problems are not reported."""
_SILENT_AFTER_S = 60.0
_ANSWER_WAIT_S = 10.0

SUMMARIES = {
    "error-budget-spent": "{application} misses its latency objective",
    "backlog-grows": "{application} falls behind",
    "executors-missing": "{journal} is waiting for executors",
    "control-silent": "control of {journal} has stopped",
}
"""The first words of every alert, the same as in `deploy/alerts.yaml`."""


@dataclass(frozen=True, slots=True)
class Alert:
    """A problem that a person should know about."""

    name: str
    journal: str
    application: str | None
    text: str


def alerts(book: Book, now_s: float) -> Iterator[Alert]:
    """The current problems, with the names and the words of the rules in `deploy/alerts.yaml`."""
    for one in applications_now(book):
        name = one.application
        if one.budget_left is not None and one.budget_left <= 0:
            yield _alert("error-budget-spent", book, name, "the error budget is spent")
        behind = one.backlog_s is not None and one.objective_s is not None and one.backlog_s > one.objective_s
        if behind and one.catch_up_s is None:
            yield _alert("backlog-grows", book, name, f"{one.backlog_rows} rows of backlog, and growing")
    pool = pool_now(book, book.policy())
    if pool is not None and pool.registered < pool.requested:
        missing = pool.requested - pool.registered
        yield _alert("executors-missing", book, None, f"{missing} of {pool.requested} have not registered")
    if book.newest is not None and now_s - book.newest["t"] > _SILENT_AFTER_S:
        yield _alert("control-silent", book, None, "the job continues without it")


def _alert(name: str, book: Book, application: str | None, detail: str) -> Alert:
    summary = SUMMARIES[name].format(application=application, journal=book.name)
    return Alert(name, book.name, application, f"{summary}: {detail}")


class Notifier:
    """Tracks alerts, and reports when one starts and when it ends.

    >>> told = []
    >>> notifier = Notifier(lambda message: told.append(message["state"]), fires_after_s=10)
    >>> late = Alert("error-budget-spent", "job", "orders", "…")
    >>> for second, seen in ((0, [late]), (5, [late]), (12, [late]), (20, [late]), (25, [])):
    ...     notifier.look(seen, float(second))
    >>> told
    ['firing', 'resolved']
    """

    def __init__(self, tell: Callable[[dict[str, object]], None], fires_after_s: float = _FIRES_AFTER_S) -> None:
        self._tell, self._fires_after_s = tell, fires_after_s
        self._since: dict[tuple[str, str, str | None], tuple[float, bool]] = {}

    def look(self, seen: Iterable[Alert], now_s: float) -> None:
        """Process the current problems."""
        current = {(one.name, one.journal, one.application): one for one in seen}
        for key, one in current.items():
            since_s, fired = self._since.setdefault(key, (now_s, False))
            if not fired and now_s - since_s >= self._fires_after_s:
                self._since[key] = since_s, True
                self._tell({"state": "firing", "since_s": since_s, **asdict(one)})
        for key in self._since.keys() - current.keys():
            since_s, fired = self._since.pop(key)
            if fired:
                name, journal, application = key
                over = Alert(name, journal, application, "over")
                self._tell({"state": "resolved", "since_s": since_s, **asdict(over)})


def follow(library: Library, webhook: str | None, command: str | None, ended: threading.Event) -> None:
    """Check every few seconds until `ended`; the body of a thread."""
    notifier = Notifier(lambda message: tell(message, webhook, command))

    def look() -> list[Alert]:
        library.poll()
        return [alert for book in library.books.values() for alert in alerts(book, time.time())]

    while not ended.wait(_LOOK_EVERY_S):
        try:
            notifier.look(library.run(look).result(), time.time())
        except RuntimeError:  # the library has closed
            return


def tell(message: dict[str, object], webhook: str | None, command: str | None) -> None:
    """Send one message as JSON to the webhook and to the command's standard input. Failures are logged."""
    body = json.dumps(message).encode()
    try:
        if webhook is not None:
            request = Request(webhook, data=body, headers={"content-type": "application/json"}, method="POST")
            with urlopen(request, timeout=_ANSWER_WAIT_S):
                pass
        if command is not None:
            subprocess.run(shlex.split(command), input=body, timeout=_ANSWER_WAIT_S, check=True, capture_output=True)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        logger.warning("the alert %s could not be sent: %s", message["name"], error)
