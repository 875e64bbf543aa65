"""A recorded run: batches, arrivals and the pool over time, and how well the objective was met."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import median

import numpy as np
import numpy.typing as npt

from tidegate.domain import ApplicationSample, BatchSample, InvalidInput
from tidegate.evaluate.lateness import late_share

Floats = npt.NDArray[np.float64]


@dataclass
class RecordedQuery:
    """One application of the recording."""

    name: str
    interval_s: float
    batches: list[BatchSample] = field(default_factory=list)
    arrivals: list[tuple[float, float]] = field(default_factory=list)
    """Times, and the total rows that had arrived by then."""

    def take(self, sample: ApplicationSample) -> None:
        self.interval_s = sample.interval_s
        for batch in sample.batches:
            self.batches.append(batch)
        if sample.arrival is not None and sample.arrival.arrived_rows is not None:
            self.arrivals.append((sample.arrival.time_s, float(sample.arrival.arrived_rows)))

    def arrived_by(self, times_s: Floats) -> Floats:
        """Return the rows that arrived since the recording began, from the source's reports or from batches and
        backlogs."""
        known = sorted(set(self.arrivals)) or self._from_batches()
        if len(known) < 2:
            raise InvalidInput(f"{self.name}: the recording does not say when rows arrived; record a longer run")
        at_s, rows = np.array(known).T
        rows = np.maximum.accumulate(rows)
        return np.asarray(np.interp(times_s, at_s, rows - rows[0]))

    def _from_batches(self) -> list[tuple[float, float]]:
        done, known = 0.0, []
        for batch in self.batches:
            done += batch.rows
            known.append((batch.started_s, done + (batch.backlog_rows or 0)))
        return known


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """How a run went for one application. None stands for what was not recorded."""

    executor_seconds: float
    batch_p50_s: float | None
    """Median duration of the batches that had rows."""
    late: float | None
    """Share of the rows over the objective."""
    p99_s: float | None


@dataclass(frozen=True)
class Recording:
    """A run, from its first observation to its last."""

    start_s: float
    end_s: float
    queries: Mapping[str, RecordedQuery]
    requested: tuple[tuple[float, int], ...]
    """Requested pool sizes and the times from which they applied; empty if requests were not recorded."""
    registered: tuple[tuple[float, int], ...]
    slots_per_executor: int
    notes: tuple[str, ...] = ()
    """What the record does not contain, and what could not be read of it."""

    @property
    def duration_s(self) -> float:
        return self.end_s - self.start_s

    @property
    def executor_seconds(self) -> float:
        edges = [*(time_s for time_s, _ in self.registered), self.end_s]
        return sum(count * (edges[at + 1] - edges[at]) for at, (_, count) in enumerate(self.registered))

    def slots_at(self, time_s: float) -> int:
        """Slots of the executors registered at this time."""
        before = [count for at_s, count in self.registered if at_s <= time_s]
        return max(1, (before or [self.registered[0][1]])[-1]) * self.slots_per_executor

    def outcome(self, name: str, objective_s: float) -> RunOutcome:
        """Return what was measured. Batches without latencies do not count for the latency."""
        batches = [batch for batch in self.queries[name].batches if batch.rows]
        seen = [batch.latency for batch in batches if batch.latency is not None]
        rows = sum(latency.rows for latency in seen)
        late = sum(latency.rows * late_share(latency, objective_s) for latency in seen)
        quantiles = np.array([(one.rows, one.p50_s, one.p90_s, one.p99_s, one.max_s) for one in seen])
        return RunOutcome(
            executor_seconds=float(self.executor_seconds),
            batch_p50_s=median(batch.duration_s for batch in batches) if batches else None,
            late=float(late / rows) if rows else None,
            p99_s=_quantile(quantiles) if rows else None,
        )


def _quantile(latency: Floats, share: float = 0.99) -> float:
    """Return the quantile over all rows, from the quantiles of the batches."""
    shares = np.array([0.5, 0.4, 0.09, 0.01])
    values, weights = latency[:, 1:5].ravel(), (latency[:, :1] * shares).ravel()
    order = np.argsort(values)
    reached = np.cumsum(weights[order])
    return float(values[order][int(np.searchsorted(reached, share * reached[-1]))])
