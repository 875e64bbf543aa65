"""Watches the queries of a Spark Connect session from the client. The driver is in the server's process.

A client gets the progress reports of its queries, and nothing else: no executors, stages or Kafka brokers, and no way
to set limits. So Tidegate observes and recommends. Where a report lacks what the driver would know, it is estimated, so
that the recommended pool is rather too large:

- the number of executors and their slots are those of Spark's settings;
- every slot counts as busy while the tasks of a batch run;
- the trigger's interval is inferred from the batches that waited for it.
"""

from __future__ import annotations

import json
import logging
import re
import time
from dataclasses import dataclass, field
from typing import Any

from tidegate.adapters.spark.applications import one_per_name
from tidegate.adapters.spark.latency import counted_latency, sketched_latency
from tidegate.domain import (
    ActionReceipt,
    ApplicationSample,
    BatchSample,
    ExecutorPool,
    ExecutorSample,
    LatencySample,
    Observation,
    Outcome,
    Receipt,
    Targets,
)
from tidegate.domain.capability import Capability
from tidegate.domain.resolution import rounded
from tidegate.history.progress import Progress, read_progress
from tidegate.history.triggers import interval_s

logger = logging.getLogger("tidegate")

_NO_CONTROL = "the driver of a Spark Connect session is in another process; attach there to change this"
_MOST_BATCHES = 50
"""Batches from which the trigger's interval is inferred."""
_LOCAL = re.compile(r"local\[(\d+)")
ESTIMATED = frozenset({"busy_s", "interval_s"})


@dataclass(slots=True)
class _Run:
    """One run of a query."""

    name: str
    last_batch: int = -1
    first_batch: int | None = None
    last_progress_s: float | None = None
    batches: list[BatchSample] = field(default_factory=list)
    """The newest ones."""


class ConnectCluster:
    """The server's Spark, as far as a client sees it."""

    def __init__(self, spark: Any) -> None:
        self._spark = spark
        self._pool = _pool_of(spark)
        self._runs: dict[str, _Run] = {}
        self._warned = False
        self.rebalancing = False
        self.restartable: dict[str, Any] = {}
        """No query can be started through the gate."""

    def observe(self) -> Observation:
        active = {str(query.runId): query for query in self._spark.streams.active}
        samples = tuple(self._sample(run_id, query) for run_id, query in active.items())
        ended = tuple(
            ApplicationSample(run.name, (), run.last_progress_s, interval_s(run.batches), running=False)
            for run_id, run in self._runs.items()
            if run_id not in active
        )
        self._runs = {run_id: run for run_id, run in self._runs.items() if run_id in active}
        return rounded(Observation(time.time(), one_per_name((*ended, *samples)), self._pool))

    def converge(self, targets: Targets) -> Receipt:
        """Refuse everything."""
        return Receipt(tuple(ActionReceipt(action, Outcome.REFUSED, _NO_CONTROL) for action in targets.actions()))

    def release(self) -> None:
        """Nothing was changed."""

    def close(self) -> None:
        """Nothing is held."""

    def capabilities(self) -> tuple[Capability, ...]:
        """What a client can do."""
        seen = f"{self._pool.registered} executors of {self._pool.slots_per_executor} slots, according to the settings"
        return (
            Capability("observe", True, f"by progress reports; {seen}"),
            *(Capability(name, False, _NO_CONTROL) for name in ("executors", "admission", "state", "pools")),
        )

    def _sample(self, run_id: str, query: Any) -> ApplicationSample:
        run = self._runs.setdefault(run_id, _Run(query.name or f"query-{str(query.id)[:8]}"))
        new = [self._batch(run, progress) for progress in self._reports(query) if self._is_new(run, progress)]
        run.batches = [*run.batches, *new][-_MOST_BATCHES:]
        return ApplicationSample(
            name=run.name,
            batches=tuple(new),
            last_progress_s=run.last_progress_s,
            interval_s=interval_s(run.batches),
            in_batch=bool(query.status["isTriggerActive"]),
            estimated=ESTIMATED if all(one.latency for one in new if one.rows) else ESTIMATED | {"latency"},
        )

    def _reports(self, query: Any) -> list[Progress]:
        """The newest progress reports, oldest first. The same ones come again at every look."""
        found = []
        for report in query.recentProgress:
            try:
                found.append(read_progress(json.loads(report.json if hasattr(report, "json") else json.dumps(report))))
            except ValueError as error:
                if not self._warned:
                    self._warned = True
                    logger.warning("a progress report was skipped: %s", error)
        return found

    def _is_new(self, run: _Run, progress: Progress) -> bool:
        run.last_progress_s = max(progress.committed_s, run.last_progress_s or 0.0)
        if not progress.committed or progress.batch_id <= run.last_batch:
            return False
        run.first_batch = progress.batch_id if run.first_batch is None else run.first_batch
        run.last_batch = progress.batch_id
        return True

    def _batch(self, run: _Run, progress: Progress) -> BatchSample:
        tasks_s = progress.add_batch_s
        return BatchSample(
            batch_id=progress.batch_id,
            started_s=progress.started_s,
            duration_s=progress.duration_s,
            rows=progress.rows,
            busy_s=None if tasks_s is None else tasks_s * self._pool.slots,
            overhead_s=None if tasks_s is None else max(0.0, progress.duration_s - tasks_s),
            backlog_rows=progress.backlog_rows,
            latency=_latency(progress),
            state_rows=progress.state.rows if progress.state else None,
            driver=progress.driver,
            warming=progress.batch_id == run.first_batch,
            watermark_gap_s=progress.metrics.get("watermark_delay_s"),
            lag=progress.lag,
            dropped_rows=progress.dropped_rows,
        )


def _latency(progress: Progress) -> LatencySample | None:
    if progress.latency_sketch:
        return sketched_latency(progress.latency_sketch, progress.committed_s)
    return counted_latency(progress.latency_counts, progress.committed_s) if progress.latency_counts else None


def _pool_of(spark: Any) -> ExecutorPool:
    """Executors as Spark's settings say: one with all slots for a local master, one of one slot if they say nothing."""
    local = _LOCAL.search(spark.conf.get("spark.master", ""))
    count = 1 if local else int(spark.conf.get("spark.executor.instances", "1"))
    slots = int(local[1]) if local else int(spark.conf.get("spark.executor.cores", "1"))
    executors = tuple(ExecutorSample(str(number), "server", slots, 0, 0.0) for number in range(count))
    return ExecutorPool(executors, requested=count, slots_per_executor=slots)
