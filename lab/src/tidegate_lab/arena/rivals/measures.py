"""What autoscalers measure: rates, lag, utilisation and batch times over the period since the last decision."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tidegate.domain import ApplicationSample, BatchSample, ExecutorPool, HostSample


@dataclass(frozen=True, slots=True)
class Measures:
    """Over `span_s` seconds up to `time_s`, for all applications of the pool together."""

    time_s: float
    span_s: float
    executors: int
    """Registered."""
    requested: int
    slots_per_executor: int
    arrived_rows: float
    """In the span."""
    done_rows: float
    busy_s: float
    """Slot-seconds of the batches committed in the span."""
    lag_rows: float
    """Rows that have arrived and are not committed now."""
    lag_growth: float
    """Rows by which the lag grew in the span."""
    utilisation: float | None
    """Busy share of the slots."""
    batches: tuple[BatchSample, ...]
    interval_s: float
    tasks_left: int
    """Unfinished tasks of the running batch."""
    partitions: int
    """Tasks of the widest stage, or 0 if no batch was seen."""
    active: frozenset[str]
    """Executors that ran tasks in the span."""
    ids: tuple[str, ...]
    ages_s: tuple[float, ...]
    """Time since each executor registered."""

    @property
    def arrival_rows_per_s(self) -> float:
        return self.arrived_rows / self.span_s

    @property
    def done_rows_per_s(self) -> float:
        return self.done_rows / self.span_s

    @property
    def row_s(self) -> float | None:
        """Slot-seconds per row: the inverse of DS2's true processing rate of one slot."""
        return self.busy_s / self.done_rows if self.done_rows > 0 and self.busy_s > 0 else None

    @property
    def executor_rows_per_s(self) -> float | None:
        """Rate of one executor if it were always busy."""
        return self.slots_per_executor / self.row_s if self.row_s else None


class Meter:
    """Aggregates the observations between two decisions."""

    def __init__(self) -> None:
        self._arrived: dict[str, int] = {}
        self._done: dict[str, int] = {}
        self._partitions = 0
        self._began_s: float | None = None
        self._lag_before = 0.0
        self._seen_s: float | None = None
        self._new_rows = 0
        self._batches: list[BatchSample] = []
        self._active: set[str] = set()
        self._busy_share_s = self._watched_s = 0.0

    def look(
        self, time_s: float, pool: ExecutorPool, samples: Sequence[ApplicationSample], hosts: Sequence[HostSample]
    ) -> None:
        self._pool, self._samples = pool, tuple(samples)
        before_s = self._seen_s
        self._seen_s = time_s
        for sample in samples:
            if sample.arrival is not None and sample.arrival.arrived_rows is not None:
                known = self._arrived.get(sample.name)
                self._new_rows += 0 if known is None else sample.arrival.arrived_rows - known
                self._arrived[sample.name] = sample.arrival.arrived_rows
            for batch in sample.batches:
                self._batches.append(batch)
                self._done[sample.name] = self._done.get(sample.name, 0) + batch.rows
                for operator in batch.operators:
                    self._partitions = max(self._partitions, operator.parallelism)
                    self._active.update(operator.executors)
        self._active.update(executor.id for executor in pool.executors if executor.active_tasks)
        if before_s is not None and time_s > before_s:
            for host in hosts:
                if host.cpu_busy is not None:
                    self._busy_share_s += host.cpu_busy * (time_s - before_s)
                    self._watched_s += time_s - before_s
        if self._began_s is None:
            self._began_s = time_s

    def take(self) -> Measures | None:
        """The measures since the last call; None if no time has passed."""
        began_s, now_s, pool = self._began_s, self._seen_s, self._pool
        if began_s is None or now_s is None or now_s <= began_s:
            return None
        lag = float(sum(self._arrived.values()) - sum(self._done.values()))
        measures = Measures(
            time_s=now_s,
            span_s=now_s - began_s,
            executors=pool.registered,
            requested=pool.requested,
            slots_per_executor=pool.slots_per_executor,
            arrived_rows=float(self._new_rows),
            done_rows=float(sum(batch.rows for batch in self._batches)),
            busy_s=sum(batch.busy_s or 0.0 for batch in self._batches),
            lag_rows=max(0.0, lag),
            lag_growth=lag - self._lag_before,
            utilisation=self._busy_share_s / self._watched_s if self._watched_s else None,
            batches=tuple(self._batches),
            interval_s=max((sample.interval_s for sample in self._samples), default=0.0),
            tasks_left=sum(sample.running_batch.tasks_left for sample in self._samples if sample.running_batch),
            partitions=self._partitions,
            active=frozenset(self._active),
            ids=tuple(executor.id for executor in pool.executors),
            ages_s=tuple(now_s - executor.since_s for executor in pool.executors),
        )
        self._lag_before = lag
        self._began_s = now_s
        self._new_rows, self._batches, self._active = 0, [], set()
        self._busy_share_s = self._watched_s = 0.0
        return measures
