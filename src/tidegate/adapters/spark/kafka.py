"""Kafka queries as the brokers see them: rows that have arrived, the backlog by partition, and its age."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from pyspark.sql import SparkSession

from tidegate.adapters.spark.janino import new_inside
from tidegate.adapters.spark.kafkaarrivals import Offsets, whole_offsets
from tidegate.adapters.spark.kafkabacklog import KafkaBacklog
from tidegate.adapters.spark.limits import SourceLimits
from tidegate.adapters.spark.watcher import Look, Watcher
from tidegate.domain import ArrivalSample, LatencySample, PartitionLag

logger = logging.getLogger("tidegate")

_CLASSES = {"KafkaMicroBatchStream", "KafkaSource"}


class KafkaWatch:
    """Tracks the topics of every query that reads from Kafka, with one source or several."""

    def __init__(self, spark: SparkSession, watcher: Watcher, limits: SourceLimits, groups: dict[str, str]) -> None:
        self._gateway: Any = spark.sparkContext._gateway
        self._watcher = watcher
        self._limits = limits
        self._groups = groups
        self._java: Any = None
        self._backlogs: dict[str, KafkaBacklog] = {}
        """By run id."""
        self._without: set[str] = set()
        """Runs that do not read from Kafka."""

    def take_in(self, look: Look, names: dict[str, str]) -> None:
        """Track new runs, drop ended ones, and read the brokers' answers."""
        for run_id, state in look.limits.items():
            if run_id not in self._backlogs and run_id not in self._without and state.sources:
                self._follow(run_id, state.sources, self._groups.get(names.get(run_id, ""), ""))
        gone = self._backlogs.keys() - look.limits.keys()
        if gone and self._java is not None:
            self._java.keep(self._gateway.jvm.java.util.HashSet(_java_list(self._gateway, look.limits)))
        for run_id in gone:
            del self._backlogs[run_id]
        self._without &= look.limits.keys()
        for ends in look.ends:
            if ends.run_id in self._backlogs:
                source = self._backlogs[ends.run_id].sources[ends.source]
                source.curves.add(ends.time_s, ends.offsets, ends.looked_up)
                source.retention_s = ends.retention_s
        for text in look.unreachable.values():
            logger.warning("Kafka's end offsets could not be read (%s); lag is known only at the end of batches", text)
        for run_id, backlog in self._backlogs.items():
            backlog.plan(look.offsets.get(run_id, []))

    def arrival(self, run_id: str) -> ArrivalSample | None:
        """Arrivals and backlog, as last reported by the brokers."""
        backlog = self._backlogs.get(run_id)
        return None if backlog is None else backlog.arrival()

    def lags(self, run_id: str) -> tuple[tuple[PartitionLag, ...], int | None]:
        """The partitions with the largest backlog, and the total number of partitions."""
        backlog = self._backlogs.get(run_id)
        return ((), None) if backlog is None else backlog.lags()

    def latency(self, run_id: str, offsets: tuple[tuple[Any, Any], ...], committed_s: float) -> LatencySample | None:
        """Latencies of a batch's rows since their arrival at the brokers; None if unknown."""
        backlog = self._backlogs.get(run_id)
        if backlog is None or len(offsets) != backlog.all_sources:
            return None
        spans = {}
        for place in backlog.sources:
            before, after = map(whole_offsets, offsets[place])
            if before is None or after is None:
                return None
            spans[place] = before, after
        if self._java is not None and self._groups:
            for place, (_, after) in spans.items():
                self._java.committed(run_id, place, _java_map(self._gateway, _flat(after)))
        return backlog.latency(spans, committed_s)

    def close(self) -> None:
        if self._java is not None:
            self._java.keep(self._gateway.jvm.java.util.HashSet())

    def _follow(self, run_id: str, kinds: tuple[str, ...], group: str) -> None:
        places = [place for place, kind in enumerate(kinds) if kind in _CLASSES]
        sources = self._limits.sources(run_id) if places else []
        if len(sources) != len(kinds):
            self._without.add(run_id)
            return
        try:
            if self._java is None:
                loader = sources[places[0]].getClass().getClassLoader()
                self._java = new_inside(self._gateway, "KafkaEnds", loader=loader)
                self._watcher.include(self._java)
            self._java.follow(run_id, _java_map(self._gateway, {place: sources[place] for place in places}), group)
        except Exception as error:  # an unknown version of the connector
            text = next(iter(str(error).strip().splitlines()), type(error).__name__)
            logger.warning("Kafka's end offsets are not available: %s", text)
            self._without.add(run_id)
            return
        self._backlogs[run_id] = KafkaBacklog(places, len(sources))


def _java_list(gateway: Any, values: Any) -> Any:
    found = gateway.jvm.java.util.ArrayList()
    for value in values:
        found.add(value)
    return found


def _java_map(gateway: Any, values: Mapping[Any, Any]) -> Any:
    found = gateway.jvm.java.util.HashMap()
    for key, value in values.items():
        found.put(key, value)
    return found


def _flat(offsets: Offsets) -> dict[str, int]:
    """
    >>> _flat({"orders": {"0": 5, "1": 7}})
    {'orders-0': 5, 'orders-1': 7}
    """
    return {f"{topic}-{partition}": end for topic, parts in offsets.items() for partition, end in parts.items()}
