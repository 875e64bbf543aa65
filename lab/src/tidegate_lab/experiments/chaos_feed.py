"""Rows for the chaos run: produced at a steady rate, each recorded once the broker has accepted it.

Half of the rows go to a few keys that every batch updates, half to many keys that recur once a minute. Lost state shows
when its key is counted next. Every tenth id is sent a second time, ten seconds later.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

from tidegate.domain import EnvironmentUnfit

ROWS_PER_S = 60.0
_BUSY_KEYS, _QUIET_KEYS = 20, 1800
_REPEATED_EVERY, _REPEATED_AFTER = 10, 600
_FLUSH_S = 120.0


def key_of(row: int) -> str:
    """
    >>> [key_of(row) for row in (0, 1, 2, 3, 3601)]
    ['busy-0', 'quiet-0', 'busy-1', 'quiet-1', 'quiet-0']
    """
    half = row // 2
    return f"quiet-{half % _QUIET_KEYS}" if row % 2 else f"busy-{half % _BUSY_KEYS}"


def messages(row: int) -> Iterator[tuple[str, int]]:
    """Yield keys and ids to send when this row is due: its own, and possibly a duplicate of an earlier one.

    >>> list(messages(1)), list(messages(610))
    ([('quiet-0', 1)], [('busy-5', 610), ('busy-5', 10)])
    """
    yield key_of(row), row
    earlier = row - _REPEATED_AFTER
    if earlier >= 0 and earlier % _REPEATED_EVERY == 0:
        yield key_of(earlier), earlier


class Feed(threading.Thread):
    """Sends rows at a steady rate until it is asked to finish; then one more row for every key."""

    def __init__(self, address: str, topic: str) -> None:
        super().__init__(name="feed", daemon=True)
        try:
            from confluent_kafka import Producer
        except ModuleNotFoundError:
            raise EnvironmentUnfit("chaos produces with confluent-kafka: pip install confluent-kafka") from None
        # Messages are retried until the broker has accepted them, whatever happens to it.
        settings = {"enable.idempotence": True, "message.timeout.ms": 0, "linger.ms": 5, "log_level": 0}
        self._producer = Producer({"bootstrap.servers": address, **settings})
        self._topic = topic
        self._over = threading.Event()
        self._delivered: Counter[str] = Counter()
        self._failed: list[str] = []
        self.rows = 0
        """Messages due so far."""
        self.ids = 0
        """Different ids among them."""

    def run(self) -> None:
        began_s = time.monotonic()
        while not self._over.wait(0.02):
            due = int(ROWS_PER_S * (time.monotonic() - began_s))
            while self.ids < due:
                self._send_row()
            self._producer.poll(0)
        for _ in range(2 * _QUIET_KEYS):  # every key once more, so that the sink shows the content of the state
            self._send_row()
        if self._producer.flush(_FLUSH_S):
            self._failed.append(f"{len(self._producer)} messages were not delivered within {_FLUSH_S:g} s")

    def finish(self) -> None:
        """Send the last rows and wait until the broker has all of them."""
        self._over.set()
        self.join()
        if self._failed:
            raise EnvironmentUnfit(
                f"chaos: {len(self._failed)} rows may or may not have reached the broker ({self._failed[0]}); "
                "the result would not be conclusive: see the broker's log"
            )

    def expected(self) -> dict[str, int]:
        """Return the rows of each key that the broker has accepted."""
        return dict(self._delivered)

    def _send_row(self) -> None:
        for key, row in messages(self.ids):
            while True:
                try:
                    self._producer.produce(
                        self._topic, key=key.encode(), value=str(row).encode(), on_delivery=self._arrived
                    )
                    break
                except BufferError:  # the broker has been away for long
                    self._producer.poll(0.1)
            self.rows += 1
        self.ids += 1

    def _arrived(self, error: Any, message: Any) -> None:
        if error is None:
            self._delivered[message.key().decode()] += 1
        else:
            self._failed.append(str(error))
