"""Turns totals of arrived rows, reported at irregular times, into rates in buckets of equal length."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tidegate.evaluate.forecast.rows import Array, Bools, Floats, Ints, Layout

LONGEST_GAP = 4
"""In buckets. If totals are further apart, the arrivals in each bucket between them are unknown."""


class Counts(NamedTuple):
    """Columns."""

    time_s: Floats
    """When the total was last reported; NaN before the first."""
    total: Floats
    edge_s: Floats
    """Start of the current bucket."""
    edge_total: Floats
    """The total at that time; NaN if unknown."""


COUNTS = Layout(Counts, time_s=np.nan, total=np.nan, edge_s=np.nan, edge_total=np.nan)


class Closed(NamedTuple):
    """Buckets that a new total has closed, in order of time, each for some of the streams."""

    streams: Ints
    rate: Floats
    """Rows per second; NaN if unknown."""
    skipped: Ints
    """Unknown buckets that passed before this one."""
    end_s: Floats


class Buckets:
    """Counts in buckets of `length_s` seconds, with a phase for each stream. Its state is one table.

    >>> buckets = Buckets(length_s=5.0)
    >>> buckets.add(np.array([0.0]))
    >>> for second in range(12):
    ...     for closed in buckets.tell(float(second), np.array([0]), np.array([100.0 * second])):
    ...         print(closed.end_s.tolist(), closed.rate.tolist())
    [5.0] [100.0]
    [10.0] [100.0]
    """

    def __init__(self, length_s: float) -> None:
        self.length_s = length_s
        self.table = np.ascontiguousarray(COUNTS.empty(0).T)
        """Columns × streams."""
        self.phase_s = np.zeros(0)
        self._watched: tuple[Ints, float] | None = None
        """The streams reported last, and when the first of their buckets ends."""

    def add(self, phase_s: Floats) -> None:
        """Add streams, each with the phase at which its buckets end."""
        self.table = np.concatenate([self.table, COUNTS.empty(len(phase_s)).T], axis=1)
        self.phase_s = np.concatenate([self.phase_s, phase_s % self.length_s])
        self._watched = None

    def keep(self, streams: Ints | Bools) -> None:
        self.table, self.phase_s, self._watched = self.table[:, streams], self.phase_s[streams], None

    def state(self) -> Array:
        """Streams × columns."""
        return np.ascontiguousarray(self.table.T)

    def restore(self, table: Array, phase_s: Array) -> None:
        self.table, self.phase_s, self._watched = np.array(table.T, order="C"), np.array(phase_s), None

    def since_edge_s(self, now_s: float, streams: Ints) -> Floats:
        """How long ago the last bucket of these streams ended."""
        return now_s - COUNTS.view(self.table).edge_s[streams]

    def tell(self, now_s: float, streams: Ints, totals: Floats) -> list[Closed]:
        """Totals of these streams at `now_s`. Nothing happens for a NaN, or if time has not advanced."""
        ends_none = self._watched is not None and self._watched[0] is streams and now_s < self._watched[1]
        if ends_none and len(streams) == 1 and self._note(now_s, int(streams[0]), totals.item(0)):
            return []
        every, told = streams, ~np.isnan(totals)
        if np.count_nonzero(told) < len(told):
            streams, totals = streams[told], totals[told]
        if ends_none:
            # Most steps end no bucket. If no count was restarted either, only the newest totals have to be stored.
            time_s, total = self.table[0], self.table[1]
            if (totals >= total[streams]).all() and (now_s > time_s[streams]).all():
                time_s[streams], total[streams] = now_s, totals
                return []
        found = self._close(now_s, streams, totals)
        ends_s = COUNTS.view(self.table).edge_s[every] + self.length_s
        self._watched = every, float(np.fmin.reduce(ends_s, initial=np.inf))
        return found

    def _note(self, now_s: float, stream: int, total: float) -> bool:
        """Store the newest total of a single stream. False if its count was restarted, or time has not advanced."""
        if total >= self.table.item(1, stream) and now_s > self.table.item(0, stream):
            self.table[:2, stream] = now_s, total
            return True
        return False

    def _close(self, now_s: float, streams: Ints, totals: Floats) -> list[Closed]:
        later = ~(now_s <= self.table[0, streams])
        if np.count_nonzero(later) < len(later):
            streams, totals = streams[later], totals[later]
        block = self.table[:, streams]
        counts = COUNTS.view(block)
        length, phase = self.length_s, self.phase_s[streams]
        edge = phase + np.floor((now_s - phase) / length) * length
        new = np.isnan(counts.time_s)
        counts.edge_s[new] = edge[new]  # its first bucket began before it was seen, so it stays unknown
        # A restarted source counts from zero again: what is known of the current bucket is lost.
        unknown = new | (totals < counts.total) | (now_s - counts.time_s > LONGEST_GAP * length)
        counts.edge_total[unknown] = np.where(edge == now_s, totals, np.nan)[unknown]
        passed = np.rint((edge - counts.edge_s) / length).astype(np.int64)
        found = []
        slope = (totals - counts.total) / (now_s - counts.time_s)
        lost = unknown & (passed > 0)
        if np.count_nonzero(lost):  # all of them at once, the last as a missing sample
            found.append(Closed(streams[lost], np.full(lost.sum(), np.nan), passed[lost] - 1, edge[lost]))
            passed = np.where(lost, 0, passed)
            counts.edge_s[lost] = edge[lost]
            counts.edge_total[lost] = np.where(edge[lost] == now_s, totals[lost], np.nan)
        for _ in range(int(passed.max(initial=0))):
            open_ = np.flatnonzero(passed > 0)
            end = counts.edge_s[open_] + length
            at_edge = counts.total[open_] + slope[open_] * (end - counts.time_s[open_])
            rate = (at_edge - counts.edge_total[open_]) / length
            counts.edge_s[open_], counts.edge_total[open_] = end, at_edge
            found.append(Closed(streams[open_], np.maximum(rate, 0.0), np.zeros(len(open_), dtype=np.int64), end))
            passed[open_] -= 1
        counts.time_s[:], counts.total[:] = now_s, totals
        self.table[:, streams] = block
        return found
