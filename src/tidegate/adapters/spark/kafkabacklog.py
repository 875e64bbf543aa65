"""What arrived at and waits in all Kafka sources of a query. Joins and unions have several, with their own brokers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
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
    """The Kafka sources of one run, by their place in its progress reports."""

    def __init__(self, places: Sequence[int], all_sources: int) -> None:
        """If the run has other sources too, its rows cannot be counted, and only the age of those in Kafka is known."""
        self.sources = {place: KafkaSource() for place in places}
        self.all_sources = all_sources

    @property
    def whole(self) -> bool:
        return len(self.sources) == self.all_sources

    def plan(self, offsets: Sequence[tuple[Any, Any]]) -> None:
        """The committed offsets of each source, and those at which the newest batch ends."""
        if len(offsets) == self.all_sources:
            for place, source in self.sources.items():
                source.planned = whole_offsets(offsets[place][1]) or source.planned

    def arrival(self) -> ArrivalSample | None:
        """Arrivals and backlog of all sources together; None until every broker has answered."""
        times = [source.curves.time_s for source in self.sources.values() if source.curves.time_s is not None]
        if not times or len(times) < len(self.sources):
            return None
        time_s, lags = min(times), self._lags()
        oldest = [
            (since_s, source.retention_s.get(topic))
            for source in self.sources.values()
            for topic, since_s in source.curves.oldest_s(source.planned or {}).items()
        ]
        oldest_s = min((since_s for since_s, _ in oldest), default=None)
        # With different retention times, the oldest row is not always the first to be deleted.
        kept = [(since_s, kept_s) for since_s, kept_s in oldest if kept_s is not None]
        expiring_s, retention_s = min(
            kept,
            key=lambda one: (one[0] - time_s) / max(one[1], 1e-3),
            # Rows without a retention time never expire. If none wait, the shortest time applies to the next ones.
            default=(None, None if oldest else self._shortest_s()),
        )
        return ArrivalSample(
            time_s=time_s,
            arrived_rows=sum(source.curves.arrived for source in self.sources.values()) if self.whole else None,
            waiting_rows=sum(lags.values()) if lags is not None and self.whole else None,
            oldest_s=None if lags is None else oldest_s,
            retention_s=retention_s,
            expiring_s=None if expiring_s == oldest_s else expiring_s,
        )

    def lags(self) -> tuple[tuple[PartitionLag, ...], int | None]:
        """The partitions with the largest backlog, and the total number of partitions."""
        lags = self._lags()
        if lags is None or not self.whole or any(source.curves.time_s is None for source in self.sources.values()):
            return (), None
        worst = sorted(lags.items(), key=lambda item: (-item[1], item[0]))[:_MOST_LAGS]
        return tuple(PartitionLag(partition, rows) for partition, rows in worst if rows), len(lags)

    def latency(self, spans: Mapping[int, tuple[Offsets, Offsets]], committed_s: float) -> LatencySample | None:
        """Latencies of a batch's rows since their arrival; None unless rows of every source can be dated."""
        times, weights, all_dated = [], [], self.whole
        for place, source in self.sources.items():
            before, after = spans[place]
            dated_s, stands_for = source.curves.dated(before, after)
            source.curves.forget_before(after)
            all_dated &= bool(len(dated_s)) or before == after
            times.append(dated_s)
            weights.append(stands_for)
        if not all_dated:
            return None
        return latency_of(np.concatenate(times), np.concatenate(weights), committed_s)

    def _lags(self) -> Counter[str] | None:
        """Backlog by partition. Two sources may read one topic: their backlogs add up, as both have to be read."""
        total: Counter[str] = Counter()
        for source in self.sources.values():
            if source.planned is None:
                return None
            total.update(source.curves.lags(source.planned))
        return total

    def _shortest_s(self) -> float | None:
        return min((kept_s for source in self.sources.values() for kept_s in source.retention_s.values()), default=None)
