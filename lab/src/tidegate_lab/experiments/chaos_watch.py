"""Observes the jobs during faults: how far each job is behind, and whether control takes its steps.

A fault is over when no job is further behind than usual. Rows are due at a steady rate, so commits are then back at
their usual rate and the backlog is gone.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

SAMPLE_S = 0.25
CALM_S = 5.0
"""Everything must be as usual for this long before a fault counts as over."""
_USUAL_OVER_S = 15.0


@dataclass(frozen=True, slots=True)
class Sample:
    """One observation."""

    at_s: float
    behind_s: Mapping[str, float]
    """By job: rows that are due and not in its sink, in seconds of arrivals."""
    steps: int
    """Control steps so far."""


def usual_s(samples: Sequence[Sample], before_s: float) -> float:
    """Return the usual lag: the maximum of the seconds before, plus one, within 2 to 5 s.

    >>> looks = [Sample(at, {"a": 0.5, "b": 2.0 if at == 4 else 1.0}, 0) for at in range(10)]
    >>> usual_s(looks, 10.0)
    3.0
    """
    worst = [max(look.behind_s.values()) for look in samples if before_s - _USUAL_OVER_S <= look.at_s <= before_s]
    return min(max(max(worst, default=0.0) + 1.0, 2.0), 5.0)


def recovered_s(samples: Sequence[Sample], struck_s: float, bound_s: float) -> float | None:
    """Return the seconds from the fault until no job was further behind than `bound_s`; None if one still is.

    >>> looks = [Sample(at, {"a": 9.0 if 3 <= at <= 6 else 1.0}, 0) for at in range(10)]
    >>> recovered_s(looks, 2.0, 3.0), recovered_s(looks, 7.0, 3.0), recovered_s(looks[:6], 2.0, 3.0)
    (5.0, 0.0, None)
    """
    over = struck_s
    late = False
    for look in samples:
        if look.at_s < struck_s:
            continue
        if late:
            over = look.at_s
        late = max(look.behind_s.values()) > bound_s
    return None if late else over - struck_s


def control_gap_s(samples: Sequence[Sample], struck_s: float) -> float:
    """Return the longest time without a control step after the fault.

    >>> looks = [Sample(at, {"a": 0.0}, steps) for at, steps in enumerate([1, 2, 2, 2, 3, 4])]
    >>> control_gap_s(looks, 1.0)
    3.0
    """
    after = [look for look in samples if look.at_s >= struck_s]
    stepped_s = [new.at_s for old, new in pairwise(after) if new.steps != old.steps]
    ends_s = [struck_s, *stepped_s, *([after[-1].at_s] if after else [])]
    return max((new - old for old, new in pairwise(ends_s)), default=0.0)


class Watch(threading.Thread):
    """Takes a sample four times a second while the `with` block runs."""

    def __init__(self, behind_s: Callable[[], Mapping[str, float]], steps: Callable[[], int]) -> None:
        super().__init__(name="watch", daemon=True)
        self._behind_s, self._steps = behind_s, steps
        self._over = threading.Event()
        self._began_s = time.monotonic()
        self.samples: list[Sample] = []

    def __enter__(self) -> Watch:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self.join()

    def now_s(self) -> float:
        return time.monotonic() - self._began_s

    def run(self) -> None:
        while not self._over.wait(SAMPLE_S):
            behind_s, steps = self._behind_s(), self._steps()
            self.samples.append(Sample(self.now_s(), behind_s, steps))

    def calm(self, since_s: float, bound_s: float) -> bool:
        """Return whether everything has been as usual for a while, with control running."""
        recent = [look for look in self.samples if look.at_s >= max(since_s, self.now_s() - CALM_S)]
        return (
            self.now_s() - since_s >= CALM_S
            and len(recent) > 1
            and all(max(look.behind_s.values()) <= bound_s for look in recent)
            and recent[-1].steps > recent[0].steps
        )
