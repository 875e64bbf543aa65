"""Kafka queries as the broker sees them: rows that have arrived, the backlog by partition, and its age."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import SparkSession

from tidegate.adapters.spark.janino import new_inside
from tidegate.adapters.spark.kafkaarrivals import ArrivalCurves, Offsets, whole_offsets
from tidegate.adapters.spark.limits import SourceLimits
from tidegate.adapters.spark.watcher import Look, Watcher
from tidegate.domain import ArrivalSample, LatencySample, PartitionLag

logger = logging.getLogger("tidegate")

_CLASSES = {"KafkaMicroBatchStream", "KafkaSource"}
_MOST_LAGS = 8
"""Maximum number of partitions in an observation. The sum includes the rest."""


@dataclass(slots=True)
class _Topics:
    """The topics of one run."""

    curves: ArrivalCurves = field(default_factory=ArrivalCurves)
    planned: Offsets | None = None
    """End of the newest batch, as far as it is known."""
    retention_s: float | None = None


class KafkaWatch:
    """Tracks the topics of every query that reads only from Kafka."""

    def __init__(self, spark: SparkSession, watcher: Watcher, limits: SourceLimits, groups: dict[str, str]) -> None:
        self._gateway: Any = spark.sparkContext._gateway
        self._watcher = watcher
        self._limits = limits
        self._groups = groups
        self._java: Any = None
        self._topics: dict[str, _Topics] = {}
        self._without: set[str] = set()
        """Runs that do not read only from Kafka, or whose broker does not answer."""

    def take_in(self, look: Look, names: dict[str, str]) -> None:
        """Track new runs, drop ended ones, and read the brokers' answers."""
        for run_id, state in look.limits.items():
            if run_id not in self._topics and run_id not in self._without and state.sources:
                self._follow(run_id, state.sources, self._groups.get(names.get(run_id, ""), ""))
        gone = self._topics.keys() - look.limits.keys()
        if gone and self._java is not None:
            self._java.keep(self._gateway.jvm.java.util.HashSet(_java_list(self._gateway, look.limits)))
        for run_id in gone:
            del self._topics[run_id]
        self._without &= look.limits.keys()
        for ends in look.ends:
            topics = self._topics.get(ends.run_id)
            if topics is not None:
                topics.curves.add(ends.time_s, ends.offsets, ends.looked_up)
                topics.retention_s = ends.retention_s
        for run_id, text in look.unreachable.items():
            logger.warning("Kafka's end offsets could not be read (%s); lag is known only at the end of batches", text)
            if run_id in self._topics and self._topics[run_id].curves.time_s is None:
                self._without.add(run_id)
        for run_id, topics in self._topics.items():
            planned = [whole_offsets(after) for _, after in look.offsets.get(run_id, [])]
            if len(planned) == 1 and planned[0] is not None:
                topics.planned = planned[0]

    def arrival(self, run_id: str) -> ArrivalSample | None:
        """Arrivals and backlog, as last reported by the broker."""
        topics = self._topics.get(run_id)
        time_s = topics.curves.time_s if topics is not None else None
        if topics is None or time_s is None:
            return None
        curves, planned = topics.curves, topics.planned
        return ArrivalSample(
            time_s=time_s,
            arrived_rows=curves.arrived,
            waiting_rows=None if planned is None else sum(curves.lags(planned).values()),
            oldest_s=None if planned is None else curves.oldest_s(planned),
            retention_s=topics.retention_s,
        )

    def lags(self, run_id: str) -> tuple[tuple[PartitionLag, ...], int | None]:
        """The partitions with the largest backlog, and the total number of partitions."""
        topics = self._topics.get(run_id)
        if topics is None or topics.planned is None or topics.curves.time_s is None:
            return (), None
        lags = topics.curves.lags(topics.planned)
        worst = sorted(lags.items(), key=lambda item: (-item[1], item[0]))[:_MOST_LAGS]
        return tuple(PartitionLag(partition, rows) for partition, rows in worst if rows), len(lags)

    def latency(self, run_id: str, offsets: tuple[tuple[Any, Any], ...], committed_s: float) -> LatencySample | None:
        """Latencies of a batch's rows since their arrival at the broker; None if unknown."""
        topics = self._topics.get(run_id)
        if topics is None or len(offsets) != 1:
            return None
        before, after = whole_offsets(offsets[0][0]), whole_offsets(offsets[0][1])
        if before is None or after is None:
            return None
        latency = topics.curves.latency(before, after, committed_s)
        topics.curves.forget_before(after)
        if self._java is not None and self._groups:
            flat = {f"{topic}-{partition}": end for topic, parts in after.items() for partition, end in parts.items()}
            self._java.committed(run_id, _java_map(self._gateway, flat))
        return latency

    def close(self) -> None:
        if self._java is not None:
            self._java.keep(self._gateway.jvm.java.util.HashSet())

    def _follow(self, run_id: str, kinds: tuple[str, ...], group: str) -> None:
        sources = self._limits.sources(run_id) if set(kinds) <= _CLASSES and len(kinds) == 1 else []
        if not sources:
            self._without.add(run_id)
            return
        try:
            if self._java is None:
                loader = sources[0].getClass().getClassLoader()
                self._java = new_inside(self._gateway, "KafkaEnds", loader=loader)
                self._watcher.include(self._java)
            self._java.follow(run_id, sources[0], group)
        except Exception as error:  # an unknown version of the connector
            text = next(iter(str(error).strip().splitlines()), type(error).__name__)
            logger.warning("Kafka's end offsets are not available: %s", text)
            self._without.add(run_id)
            return
        self._topics[run_id] = _Topics()


def _java_list(gateway: Any, values: Any) -> Any:
    found = gateway.jvm.java.util.ArrayList()
    for value in values:
        found.add(value)
    return found


def _java_map(gateway: Any, values: dict[str, int]) -> Any:
    found = gateway.jvm.java.util.HashMap()
    for key, value in values.items():
        found.put(key, value)
    return found
