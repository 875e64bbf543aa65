"""What one application has acknowledged and when: latencies and rows over a bound, from the arrival of every row."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, replace
from math import ceil

import numpy as np

from tidegate.adapters.sim.latencybins import Latencies
from tidegate.domain.observation import LatencySample
from tidegate.load import Timeline
from tidegate.load.profile import Floats

_CHUNK_BATCHES = 2000
_MOST_RANKS = 256
"""A larger batch enters the distribution as this many evenly spaced rows. Its own quantiles are always exact."""
_DIGITS = 4  # times are reported to 0.1 ms


@dataclass(frozen=True, slots=True)
class Commit:
    """Rows `first` … `end - 1` were acknowledged at `time_s`."""

    first: int
    end: int
    time_s: float


class Ledger:
    """Arrivals from the load's timeline, and acknowledgements.

    >>> from tidegate.load import Constant
    >>> ledger = Ledger(Timeline(Constant(rate=10)), start_s=100.0)
    >>> ledger.rows_arrived(102.0)
    20
    >>> ledger.commit(10, time_s=102.0)
    LatencySample(rows=10, p50_s=1.4, p90_s=1.8, p99_s=1.9, max_s=1.9)
    >>> ledger.late_rows(1.5, now_s=104.0)  # rows 0 to 4, and 10 to 24 of those that wait
    20
    """

    def __init__(self, timeline: Timeline, start_s: float) -> None:
        self._ends, self._times_s = array("q"), array("d")
        self._timeline, self._start_s = timeline, start_s
        self._latencies, self._counted = Latencies.empty(), 0
        self._max_s = 0.0

    def __len__(self) -> int:
        """Number of batches acknowledged so far."""
        return len(self._ends)

    @property
    def rows_done(self) -> int:
        return self._ends[-1] if self._ends else 0

    @property
    def commits(self) -> list[Commit]:
        """Every acknowledged batch. Each begins where the last one ended."""
        firsts = [0, *self._ends[:-1]]
        return [Commit(*made) for made in zip(firsts, self._ends, self._times_s, strict=True)] if self._ends else []

    def rows_arrived(self, now_s: float) -> int:
        return self._timeline.rows_by(now_s - self._start_s)

    def arrivals_s(self, first: int, end: int) -> Floats:
        """When each of these rows arrived."""
        return self._start_s + self._timeline.arrivals_s(first, end)

    def commit(self, end: int, time_s: float) -> LatencySample:
        """Acknowledge the rows up to `end`. Rows are first in, first out, so latency falls with arrival time."""
        rows, since_s = end - self.rows_done, time_s - self._start_s
        self._ends.append(end)
        self._times_s.append(time_s)
        asked = (end - ceil(0.5 * rows), end - ceil(0.9 * rows), end - ceil(0.99 * rows), end - rows)
        p50_s, p90_s, p99_s, max_s = [
            round(since_s - arrived_s, _DIGITS) for arrived_s in self._timeline.arrivals_of(asked)
        ]
        self._max_s = max(self._max_s, max_s)
        return LatencySample(rows, p50_s, p90_s, p99_s, max_s)

    @property
    def latencies(self) -> Latencies:
        """The distribution over all rows acknowledged so far."""
        if self._counted < len(self):
            while self._counted < len(self):
                self._count()
            self._latencies = replace(self._latencies, max_s=self._max_s)
        return self._latencies

    def late_rows(self, bound_s: float, now_s: float) -> int:
        """Rows acknowledged more than `bound_s` after arrival, or waiting for longer than that. Exact, row by row."""
        late = 0
        for commit in self.commits:
            on_time_from = self.rows_arrived(commit.time_s - bound_s)
            late += max(0, min(commit.end, on_time_from) - commit.first)
        return late + max(0, self.rows_arrived(now_s - bound_s) - self.rows_done)

    def latencies_of(self, from_s: float, to_s: float, now_s: float) -> Latencies:
        """Latencies of the rows that arrived in a span of time. Rows that still wait count by their age.

        >>> from tidegate.load import Constant
        >>> ledger = Ledger(Timeline(Constant(rate=10)), start_s=0.0)
        >>> ledger.rows_arrived(2.0)
        20
        >>> _ = ledger.commit(10, time_s=2.0)
        >>> seen = ledger.latencies_of(0.0, 2.0, now_s=5.0)
        >>> round(seen.rows), round(seen.quantile_s(0.25), 1), round(seen.quantile_s(1.0), 1)
        (20, 1.4, 3.9)
        """
        first, end = self.rows_arrived(from_s), self.rows_arrived(to_s)
        if end <= first:
            return Latencies.empty()
        picked = min(end - first, _MOST_RANKS)
        rows = first + (np.arange(picked) + 0.5) * (end - first) / picked
        arrived_s = self._start_s + self._timeline.times_of(rows + 0.5)
        batch = np.searchsorted([made.end for made in self.commits], rows, side="right")
        done_s = np.array([*(made.time_s for made in self.commits), now_s])[batch]
        return Latencies.empty().add(done_s - arrived_s, (end - first) / picked)

    def _count(self) -> None:
        """Add the next chunk of commits to the distribution."""
        first = self._counted
        self._counted = min(len(self), first + _CHUNK_BATCHES)
        ends = np.array(self._ends[first : self._counted], dtype=np.float64)
        begins = np.concatenate([[float(self._ends[first - 1]) if first else 0.0], ends[:-1]])
        rows = ends - begins
        picked = np.minimum(rows, _MOST_RANKS).astype(np.int64)
        number = np.arange(picked.sum()) - np.repeat(np.cumsum(picked) - picked, picked)
        stride = np.repeat(rows / picked, picked)
        ordinals = np.repeat(begins, picked) + (number + 0.5) * stride + 0.5
        done_s = np.repeat(np.array(self._times_s[first : self._counted]) - self._start_s, picked)
        self._latencies = self._latencies.add(done_s - self._timeline.times_of(ordinals), stride)
