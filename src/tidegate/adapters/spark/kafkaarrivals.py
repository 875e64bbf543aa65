"""When the rows of a Kafka source arrived, from the end offsets of its topics at each second.

The broker's end offsets, read every second, give an arrival curve for each partition: row `o` arrived when the end
offset passed `o`. Values between two readings are interpolated, so times are accurate to a second. Rows that arrived
before the first reading are dated by the records' timestamps (`offsetsForTimes`).
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tidegate.domain import LatencySample

Offsets = dict[str, dict[str, int]]
"""By topic and partition, as Spark writes them."""
Times = NDArray[np.float64]

_MOST_POINTS = 600
_GRID = 33
"""Number of rows dated per partition of a batch. The rows between them are interpolated."""


@dataclass(slots=True)
class _Curve:
    """One partition: times and end offsets, both increasing."""

    times_s: list[float] = field(default_factory=list)
    offsets: list[int] = field(default_factory=list)

    def add(self, time_s: float, offset: int) -> None:
        if self.times_s and time_s <= self.times_s[-1]:
            return
        self.times_s.append(time_s)
        self.offsets.append(max(offset, self.offsets[-1]) if self.offsets else offset)
        if len(self.times_s) > _MOST_POINTS:  # drop every second point of the older half
            half = _MOST_POINTS // 2
            self.times_s[1:half] = self.times_s[1:half:2]
            self.offsets[1:half] = self.offsets[1:half:2]

    def forget_before(self, offset: int) -> None:
        """Drop points for rows below the offset, except one to interpolate from."""
        done = max(0, bisect_right(self.offsets, offset) - 1)
        del self.times_s[:done], self.offsets[:done]


class ArrivalCurves:
    """The arrival curves of one source's partitions."""

    def __init__(self) -> None:
        self._curves: dict[tuple[str, str], _Curve] = {}
        self.ends: Offsets = {}
        """The newest end offsets."""
        self.time_s: float | None = None

    def add(self, time_s: float, ends: Offsets, looked_up: bool = False) -> None:
        """Add end offsets at a time. A partition that is missing in a look-up had no later rows."""
        for topic, partitions in ends.items():
            for partition, offset in partitions.items():
                self._curves.setdefault((topic, partition), _Curve()).add(time_s, offset)
        if not looked_up:
            self.ends, self.time_s = ends, time_s

    @property
    def arrived(self) -> int:
        return sum(offset for partitions in self.ends.values() for offset in partitions.values())

    def lags(self, planned: Offsets) -> dict[str, int]:
        """Backlog by partition; `planned` is the end of the newest batch."""
        return {
            f"{topic}-{partition}": max(0, end - planned.get(topic, {}).get(partition, end))
            for topic, partitions in self.ends.items()
            for partition, end in partitions.items()
        }

    def oldest_s(self, planned: Offsets) -> dict[str, float]:
        """Arrival time of the oldest row in the backlog of each topic that has one."""
        found: dict[str, float] = {}
        for (topic, partition), curve in self._curves.items():
            first = planned.get(topic, {}).get(partition)
            if first is not None and first < self.ends.get(topic, {}).get(partition, 0):
                arrived_s = float(self._arrived_s(curve, np.array([float(first)]))[0])
                found[topic] = min(arrived_s, found.get(topic, arrived_s))
        return found

    def dated(self, before: Offsets, after: Offsets) -> tuple[Times, Times]:
        """Arrival times of rows between two offsets, and how many rows each of them stands for. Empty if unknown."""
        times, weights = [np.zeros(0)], [np.zeros(0)]
        for topic, partitions in after.items():
            for partition, end in partitions.items():
                first = before.get(topic, {}).get(partition)
                curve = self._curves.get((topic, partition))
                if first is None or curve is None or end <= first or not curve.times_s:
                    continue
                grid = np.linspace(first, end, _GRID)
                middle = (grid[1:] + grid[:-1]) / 2
                times.append(np.append(self._arrived_s(curve, middle), self._arrived_s(curve, grid[:1])))
                weights.append(np.append(np.full(len(middle), (end - first) / len(middle)), 0.0))
        return np.concatenate(times), np.concatenate(weights)

    def forget_before(self, committed: Offsets) -> None:
        """The rows before these offsets are committed and dated."""
        for (topic, partition), curve in self._curves.items():
            offset = committed.get(topic, {}).get(partition)
            if offset is not None:
                curve.forget_before(offset)

    @staticmethod
    def _arrived_s(curve: _Curve, rows: Times) -> Times:
        """Row o has arrived once the end offset is above o. On a flat part of the curve, the later time counts.

        Nothing arrives during a flat part. The next row arrived with the next rise, not at the start of the flat part.
        """
        times, offsets = np.array(curve.times_s), np.array(curve.offsets, dtype=np.float64)
        at = np.clip(np.searchsorted(offsets, rows, side="right"), 1, max(1, len(offsets) - 1))
        if len(offsets) == 1:
            return np.full(len(rows), times[0])
        low, high = offsets[at - 1], offsets[at]
        part = np.clip((rows - low) / np.maximum(high - low, 1e-9), 0.0, 1.0)
        return np.asarray(times[at - 1] + part * (times[at] - times[at - 1]))


def latency_of(times_s: Times, weights: Times, committed_s: float) -> LatencySample | None:
    """Latencies of dated rows up to the commit of their batch; None without rows.

    >>> curves = ArrivalCurves()
    >>> for second in range(11):
    ...     curves.add(100.0 + second, {"t": {"0": 10 * second}})
    >>> seen = latency_of(*curves.dated({"t": {"0": 0}}, {"t": {"0": 100}}), committed_s=112.0)
    >>> seen.rows, round(seen.p50_s, 1), round(seen.max_s, 1)
    (100, 6.8, 12.0)
    """
    rows = round(float(weights.sum()))
    if not rows:
        return None
    latency = committed_s - times_s
    order = np.argsort(latency)
    latency, share = np.maximum(latency[order], 0.0), np.cumsum(weights[order]) / rows
    p50, p90, p99 = (float(latency[min(int(np.searchsorted(share, q)), len(share) - 1)]) for q in (0.5, 0.9, 0.99))
    return LatencySample(rows, p50, p90, p99, float(latency[-1]))


def whole_offsets(value: object) -> Offsets | None:
    """Offsets of a Kafka source as Spark reports them, or None for anything else.

    >>> whole_offsets({"t": {"0": 5}}), whole_offsets({"logOffset": 3}), whole_offsets(None)
    ({'t': {'0': 5}}, None, None)
    """
    if not isinstance(value, dict) or not value:
        return None
    for partitions in value.values():
        if not isinstance(partitions, dict) or not all(isinstance(offset, int) for offset in partitions.values()):
            return None
    return value
