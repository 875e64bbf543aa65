"""What arrived at and waits in all Kafka sources of a query. Joins and unions have several, with their own brokers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tidegate.adapters.spark.kafkaarrivals import ArrivalCurves, Offsets, latency_of, whole_offsets
from tidegate.domain import ArrivalSample, LatencySample, PartitionLag

_MOST_LAGS = 8
"""Maximum number of partitions in an observation. The sum includes the rest."""


@dataclass(slots=True)
class KafkaSource:
    """One source of a run."""

    curves: ArrivalCurves = field(default_factory=ArrivalCurves)
    planned: Offsets | None = None
    """End of the newest batch, as far as it is known."""
    retention_s: dict[str, float] = field(default_factory=dict)
    """By topic, where it is known and limited."""


class KafkaBacklog:
    """All sources of one run, in the order in which Spark reports them."""

    def __init__(self, sources: int) -> None:
        self.sources = tuple(KafkaSource() for _ in range(sources))

    def plan(self, offsets: Sequence[tuple[Any, Any]]) -> None:
        """The committed offsets of each source, and those at which the newest batch ends."""
        if len(offsets) == len(self.sources):
            for source, (_, after) in zip(self.sources, offsets, strict=True):
                source.planned = whole_offsets(after) or source.planned

    def arrival(self) -> ArrivalSample | None:
        """Arrivals and backlog of all sources together; None until every broker has answered."""
        times = [source.curves.time_s for source in self.sources if source.curves.time_s is not None]
        if not times or len(times) < len(self.sources):
            return None
        time_s, lags = min(times), self._lags()
        oldest = [
            (since_s, source.retention_s.get(topic))
            for source in self.sources
            for topic, since_s in source.curves.oldest_s(source.planned or {}).items()
        ]
        oldest_s = min((since_s for since_s, _ in oldest), default=None)
        # With different retention times, the oldest row is not always the first to be deleted.
        kept = [(since_s, kept_s) for since_s, kept_s in oldest if kept_s is not None]
        expiring_s, retention_s = min(
            kept, key=lambda one: (one[0] - time_s) / max(one[1], 1e-3), default=(None, self._shortest_s())
        )
        return ArrivalSample(
            time_s=time_s,
            arrived_rows=sum(source.curves.arrived for source in self.sources),
            waiting_rows=None if lags is None else sum(lags.values()),
            oldest_s=None if lags is None else oldest_s,
            retention_s=retention_s,
            expiring_s=None if expiring_s == oldest_s else expiring_s,
        )

    def lags(self) -> tuple[tuple[PartitionLag, ...], int | None]:
        """The partitions with the largest backlog, and the total number of partitions."""
        lags = self._lags()
        if lags is None or any(source.curves.time_s is None for source in self.sources):
            return (), None
        worst = sorted(lags.items(), key=lambda item: (-item[1], item[0]))[:_MOST_LAGS]
        return tuple(PartitionLag(partition, rows) for partition, rows in worst if rows), len(lags)

    def latency(self, spans: Sequence[tuple[Offsets, Offsets]], committed_s: float) -> LatencySample | None:
        """Latencies of a batch's rows since their arrival; None unless rows of every source can be dated."""
        times, weights = [], []
        for source, (before, after) in zip(self.sources, spans, strict=True):
            dated_s, stands_for = source.curves.dated(before, after)
            source.curves.forget_before(after)
            if not len(dated_s) and before != after:
                return None
            times.append(dated_s)
            weights.append(stands_for)
        return latency_of(np.concatenate(times), np.concatenate(weights), committed_s)

    def _lags(self) -> Counter[str] | None:
        """Backlog by partition. Two sources may read one topic: their backlogs add up, as both have to be read."""
        total: Counter[str] = Counter()
        for source in self.sources:
            if source.planned is None:
                return None
            total.update(source.curves.lags(source.planned))
        return total

    def _shortest_s(self) -> float | None:
        return min((kept_s for source in self.sources for kept_s in source.retention_s.values()), default=None)
