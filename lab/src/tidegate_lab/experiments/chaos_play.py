"""Injects one fault after another, in an order given by the seed, and waits for recovery after each."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tidegate.domain import EnvironmentUnfit
from tidegate_lab.experiments.chaos_sink import Sink
from tidegate_lab.experiments.chaos_watch import Watch, control_gap_s, recovered_s, usual_s

Told = Callable[[str, float], None]
"""Reports the current activity and the seconds so far."""
_FIRST_S, _GIVEN_UP_S = 240.0, 150.0
_WARM_BOUND_S = 5.0
_DRAIN_S = 240.0


@dataclass(frozen=True, slots=True)
class Struck:
    """One fault and its time to recover."""

    kind: str
    at_s: float
    """Seconds since faults could begin."""
    recovered_s: float | None
    """Seconds until no job was further behind than before; 0 if none was; None if there was no recovery."""
    control_gap_s: float
    """The longest time without a control step."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Counts of a job's rows."""

    rows_in: int
    rows_lost: int
    rows_doubled: int


@dataclass(frozen=True, slots=True)
class Part:
    """The result of one part of the run."""

    struck: list[Struck]
    rows: dict[str, Rows]
    """By job."""
    overlaps: int
    restarts: list[str]
    """Queries and drivers that failed and were restarted."""


class Play:
    """Injects faults for some time."""

    def __init__(
        self,
        watch: Watch,
        chance: random.Random,
        told: Told,
        keep: Callable[[], None] = lambda: None,
        ready: Callable[[], bool] = lambda: True,
    ) -> None:
        """`keep` is called repeatedly while waiting and acts as a supervisor. No fault is injected before everything is
        `ready`.
        """
        self._watch, self._chance, self._told = watch, chance, told
        self._keep, self._ready = keep, ready

    def warm_up(self) -> None:
        """Wait until every job keeps up."""
        self._told("waiting until the jobs keep up", 0.0)
        if not self._wait(self._watch.now_s(), _WARM_BOUND_S, _FIRST_S):
            raise EnvironmentUnfit(f"chaos: the jobs did not keep up within {_FIRST_S:g} s, before any fault")

    def faults(self, strikes: Mapping[str, Callable[[], None]], seconds: float, before_s: float = 0.0) -> list[Struck]:
        """Inject every kind once per round until the time is over. The last fault is awaited."""
        began_s = self._watch.now_s()
        struck: list[Struck] = []
        while self._watch.now_s() - began_s < seconds:
            for kind in order(list(strikes), self._chance):
                at_s = self._watch.now_s()
                if at_s - began_s >= seconds:
                    break
                self._told(kind, before_s + at_s - began_s)
                bound_s = usual_s(self._watch.samples, at_s)
                strikes[kind]()
                over = self._wait(self._watch.now_s(), bound_s, _GIVEN_UP_S, before_s - began_s, kind)
                hurt_s = recovered_s(self._watch.samples, at_s, bound_s) if over else None
                gap_s = control_gap_s(self._watch.samples, at_s)
                struck.append(
                    Struck(
                        kind,
                        round(before_s + at_s - began_s, 1),
                        None if hurt_s is None else round(hurt_s, 1),
                        round(gap_s, 1),
                    )
                )
        return struck

    def _wait(self, since_s: float, bound_s: float, limit_s: float, shift_s: float = 0.0, what: str = "") -> bool:
        while self._watch.now_s() - since_s < limit_s:
            if self._watch.calm(since_s, bound_s) and self._ready():
                return True
            self._keep()
            if what:
                self._told(what, self._watch.now_s() + shift_s)
            time.sleep(0.1)
        return False


def await_rows(complete: Callable[[], bool], keep: Callable[[], None] = lambda: None) -> None:
    """Wait until every row is in the sink, or until a timeout. Rows that are still missing count as lost."""
    deadline_s = time.monotonic() + _DRAIN_S
    while time.monotonic() < deadline_s and not complete():
        keep()
        time.sleep(0.2)


def order(kinds: Sequence[str], chance: random.Random) -> list[str]:
    """One round: every kind once.

    >>> order("abc", random.Random(1)) == order("abc", random.Random(1)) and sorted(order("abc", random.Random(2)))
    ['a', 'b', 'c']
    """
    return chance.sample(list(kinds), len(kinds))


def judge_counts(expected: Mapping[str, int], found: Mapping[str, int]) -> Rows:
    """
    >>> judge_counts({"a": 3, "b": 2}, {"a": 2, "b": 2, "c": 4})
    Rows(rows_in=5, rows_lost=1, rows_doubled=4)
    """
    lost = sum(max(0, rows - found.get(key, 0)) for key, rows in expected.items())
    doubled = sum(max(0, rows - expected.get(key, 0)) for key, rows in found.items())
    return Rows(sum(expected.values()), lost, doubled)


def judge_ids(ids: int, copies: Mapping[int, int]) -> Rows:
    """
    >>> judge_ids(3, {0: 1, 2: 3})
    Rows(rows_in=3, rows_lost=1, rows_doubled=2)
    """
    return judge_counts(dict.fromkeys(map(str, range(ids)), 1), {str(row): number for row, number in copies.items()})


def overlaps(sink: Sink, began_s: Mapping[int, float]) -> int:
    """Return the batches that a run committed after a later run was allowed to start."""
    return sum(
        any(later > batch.run and since_s < batch.committed_s for later, since_s in began_s.items())
        for batch in sink.batches()
    )
