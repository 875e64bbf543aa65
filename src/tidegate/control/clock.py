"""Wall-clock time that can be interrupted."""

from __future__ import annotations

import threading
import time


class WallClock:
    """Real time. `stop` wakes a sleeper and ends the runner's loop."""

    def __init__(self) -> None:
        self._ended = threading.Event()

    def now_s(self) -> float:
        return time.time()

    def monotonic_s(self) -> float:
        return time.monotonic()

    def sleep_until(self, monotonic_s: float) -> bool:
        return not self._ended.wait(max(0.0, monotonic_s - time.monotonic()))

    def stop(self) -> None:
        self._ended.set()
