"""The pool over a run on Spark: registered and requested executors, their cost, and the run in a few hundred points."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import numpy.typing as npt
from pyspark.sql import SparkSession

from tidegate_lab.arena.play import BUCKETS, Change, Timeline

Floats = npt.NDArray[np.float64]
_TARGET = "executors.numberTargetExecutors"


@dataclass
class PoolCourse:
    """Looks at the pool, in seconds since the load began. An executor counts from its request to its release.

    >>> course = PoolCourse(end_s=10.0)
    >>> course.add(0.0, registered=1, requested=1)
    >>> course.add(2.0, registered=1, requested=2)  # starting
    >>> course.add(6.0, registered=2, requested=2)
    >>> course.add(8.0, registered=2, requested=1)  # to be retired
    >>> course.add(9.0, registered=1, requested=1)
    >>> course.executor_seconds, course.sizes, [change.executors for change in course.changes]
    (17.0, ((0.0, 1), (6.0, 2), (9.0, 1)), [2, 1])
    """

    end_s: float = 0.0
    looks: list[tuple[float, int, int]] = field(default_factory=list)
    """Time, registered, requested."""

    def add(self, time_s: float, registered: int, requested: int) -> None:
        """The first look stands for the beginning of the load too."""
        self.looks.append((time_s if self.looks else 0.0, registered, requested))

    @property
    def executor_seconds(self) -> float:
        return sum(max(there, asked) * (until_s - at_s) for (at_s, there, asked), until_s in self._spans())

    @property
    def sizes(self) -> tuple[tuple[float, int], ...]:
        """Registered executors, from these times on."""
        found: list[tuple[float, int]] = []
        for at_s, there, _ in self.looks:
            if not found or found[-1][1] != there:
                found.append((at_s, there))
        return tuple(found)

    @property
    def changes(self) -> tuple[Change, ...]:
        """Changes of the number that costs. A wish that is withdrawn while the executors stay changes nothing."""
        held = [(at_s, max(there, asked)) for at_s, there, asked in self.looks]
        return tuple(
            Change(at_s, now, f"{'grown' if now > before else 'shrunk'} from {before} to {now}")
            for (_, before), (at_s, now) in pairwise(held)
            if now != before
        )

    def timeline(self, arrivals_s: Floats, latencies_s: Floats, committed: int) -> Timeline:
        """`committed`: rows that were done by the end, in the order of arrival."""
        edges = np.linspace(0.0, self.end_s, BUCKETS + 1)
        since = np.array([at_s for at_s, _, _ in self.looks])
        there = np.array([count for _, count, _ in self.looks], dtype=np.float64)
        middles = (edges[:-1] + edges[1:]) / 2
        executors = there[np.maximum(0, np.searchsorted(since, middles, side="right") - 1)]
        worst = np.zeros(BUCKETS)
        done_s = (arrivals_s + latencies_s)[:committed]
        at = np.clip(np.searchsorted(edges, done_s) - 1, 0, BUCKETS - 1)
        np.maximum.at(worst, at, latencies_s[:committed])
        rates = np.histogram(arrivals_s, edges)[0] / (self.end_s / BUCKETS)
        return Timeline(
            time_s=middles.round(1).tolist(),
            rows_per_s=rates.round(1).tolist(),
            executors=executors.tolist(),
            latency_s=worst.round(2).tolist(),
        )

    def _spans(self) -> list[tuple[tuple[float, int, int], float]]:
        ends_s = [at_s for at_s, _, _ in self.looks[1:]] + [self.end_s]
        return list(zip(self.looks, ends_s, strict=True))


def dynamic_target(spark: SparkSession) -> int | None:
    """The number of executors that Spark's dynamic allocation wants now; None if it is off."""
    manager = spark.sparkContext._jsc.sc().executorAllocationManager()
    if not manager.isDefined():
        return None
    gauges = manager.get().executorAllocationManagerSource().metricRegistry().getGauges()
    return int(gauges.get(_TARGET).getValue())
