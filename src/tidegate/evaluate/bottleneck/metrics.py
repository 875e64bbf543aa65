"""Metrics of an application and its operators over an interval, aggregated from its batches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

from tidegate.domain import ApplicationSample, BatchSample, DriverTimes, OperatorSample
from tidegate.evaluate.bottleneck.links import Links, learn_links


@dataclass(frozen=True, slots=True)
class OperatorMetrics:
    """One operator over an interval. Times, rows and bytes are those of a mean batch."""

    name: str
    parallelism: int
    rows_in: float | None
    rows_out: float | None
    busy_s: float
    """Slot-seconds that its tasks held."""
    cpu_s: float | None
    execute_latency_s: float
    """From the launch of its first task to the end of its last."""
    process_latency_s: float | None
    """From a row's arrival until this operator has finished its batch, estimated from the stages that follow."""
    capacity: float
    """Rows executed × service time ÷ (window × tasks): up to 0.2 is normal, near 1 overloaded."""
    communication_s: float
    """Slot-seconds of fetching and writing shuffle data."""
    fetch_wait_s: float
    bytes_in: float | None
    bytes_out: float | None
    skew: float | None
    """Longest task relative to the mean: 1 is even."""
    slowest_task: int | None
    """The partition that was slowest most often."""
    stateful: bool
    state_rows: int | None
    state_bytes: int | None
    state_commit_s: float | None
    in_bytes_per_s: float | None = None
    """Learned bandwidth per task of the incoming link; None if it never took time."""
    out_bytes_per_s: float | None = None
    failed_tasks: float = 0.0
    """Failed attempts."""
    rows_transferred: float | None = None
    """Rows written to the shuffle for the next operator."""

    @property
    def service_s_per_row(self) -> float | None:
        """Slot-seconds per row."""
        return self.busy_s / self.rows_in if self.rows_in else None

    @property
    def cpu_s_per_row(self) -> float | None:
        return self.cpu_s / self.rows_in if self.rows_in and self.cpu_s is not None else None

    @property
    def selectivity(self) -> float | None:
        return self.rows_out / self.rows_in if self.rows_in and self.rows_out is not None else None


@dataclass(frozen=True, slots=True)
class ApplicationMetrics:
    """An application over an interval."""

    name: str
    interval_s: float
    """Its trigger interval."""
    window_s: float
    batches: int
    rows: float
    """Rows acknowledged in a mean batch."""
    batch_s: float
    execute_latency_s: float
    """From the start of the first task of a batch to the end of its last."""
    process_latency_s: float | None
    """Median over rows from arrival to acknowledgement, for the mean batch."""
    process_latency_p99_s: float | None
    driver: DriverTimes
    """Unexplained time outside tasks counts as planning."""
    backlog_rows: int | None
    operators: tuple[OperatorMetrics, ...]

    @property
    def rows_per_s(self) -> float:
        return self.rows * self.batches / self.window_s

    def most_rows_per_s(self, slots: int) -> float:
        """Rate that its operators, one after another, could sustain with these slots to themselves (B6)."""
        working_s = sum(operator.busy_s / max(1, min(operator.parallelism, slots)) for operator in self.operators)
        return self.rows / working_s if working_s > 0 else inf

    @property
    def failed_tasks(self) -> float:
        """Failed attempts in a mean batch."""
        return sum(operator.failed_tasks for operator in self.operators)

    @property
    def state_rows(self) -> int:
        return sum(operator.state_rows or 0 for operator in self.operators)


def aggregate(
    sample: ApplicationSample, batches: Sequence[BatchSample], links: Links | None = None
) -> ApplicationMetrics | None:
    """Metrics over the warm batches with rows and known stages that ran the same operators; None without any.

    `links` holds bandwidths learned from more than these batches. By default they are learned from these.
    """
    usable = [batch for batch in batches if batch.rows and batch.operators and not batch.warming]
    if not usable:
        return None
    names = [operator.name for operator in usable[-1].operators]
    usable = [batch for batch in usable if [operator.name for operator in batch.operators] == names]
    durations_s = [batch.duration_s for batch in usable]
    window_s = max(usable[-1].committed_s - usable[0].started_s, sum(durations_s), 1e-9)
    if links is None:
        links = Links()
        for batch in usable:
            learn_links(links, batch)
    latencies = [batch.latency for batch in usable if batch.latency is not None]
    median_s = _mean([latency.p50_s for latency in latencies])
    stages = [[batch.operators[place] for batch in usable] for place in range(len(names))]
    driver = _driver(usable)
    operators: list[OperatorMetrics] = []
    after_s = driver.sink_s
    for samples in reversed(stages):
        process_s = max(0.0, median_s - after_s) if median_s is not None else None
        operators.insert(0, _operator(samples, window_s, process_s, links))
        after_s += operators[0].execute_latency_s
    return ApplicationMetrics(
        name=sample.name,
        interval_s=sample.interval_s,
        window_s=window_s,
        batches=len(usable),
        rows=_mean_of([batch.rows for batch in usable]),
        batch_s=_mean_of(durations_s),
        execute_latency_s=_mean_of([_executing_s(batch) for batch in usable]),
        process_latency_s=median_s,
        process_latency_p99_s=_mean([latency.p99_s for latency in latencies]),
        driver=driver,
        backlog_rows=usable[-1].backlog_rows,
        operators=tuple(operators),
    )


def held_slots(batches: Sequence[BatchSample]) -> float:
    """Slots that the tasks of these batches held on average over their time."""
    if not batches:
        return 0.0
    return sum(batch.busy_s or 0.0 for batch in batches) / max(batches[-1].committed_s - batches[0].started_s, 1e-9)


def _executing_s(batch: BatchSample) -> float:
    if batch.overhead_s is not None:
        return max(0.0, batch.duration_s - batch.overhead_s)
    return min(batch.duration_s, sum(stage.execute_latency_s or 0.0 for stage in batch.operators))


def _driver(batches: Sequence[BatchSample]) -> DriverTimes:
    outside_s = _mean_of([batch.duration_s - _executing_s(batch) for batch in batches])
    known = [batch.driver for batch in batches if batch.driver is not None]
    if not known:
        return DriverTimes(planning_s=outside_s)
    offsets_s, log_s, sink_s = (
        sum(values) / len(known)
        for values in zip(*((times.offsets_s, times.log_s, times.sink_s) for times in known), strict=True)
    )
    return DriverTimes(max(0.0, outside_s - offsets_s - log_s - sink_s), offsets_s, log_s, sink_s)


def _operator(
    samples: Sequence[OperatorSample], window_s: float, process_s: float | None, links: Links
) -> OperatorMetrics:
    latest = samples[-1]
    tasks = Counter([stage.parallelism for stage in samples]).most_common(1)[0][0]
    busy_s = _mean_of([stage.busy_s for stage in samples])
    skews = [stage.skew for stage in samples]
    slowest = Counter([stage.slowest_task for stage in samples if stage.slowest_task is not None])
    commits_s = [stage.state_commit_s for stage in samples]
    return OperatorMetrics(
        name=latest.name,
        parallelism=tasks,
        rows_in=_mean([stage.rows_in for stage in samples]),
        rows_out=_mean([stage.rows_out for stage in samples]),
        busy_s=busy_s,
        cpu_s=_mean([stage.cpu_s for stage in samples]),
        execute_latency_s=_mean_of(
            [
                stage.busy_s / stage.parallelism if stage.execute_latency_s is None else stage.execute_latency_s
                for stage in samples
            ]
        ),
        process_latency_s=process_s,
        capacity=busy_s * len(samples) / (window_s * tasks),
        communication_s=min(busy_s, _mean_of([stage.communication_s or 0.0 for stage in samples])),
        fetch_wait_s=_mean_of([stage.fetch_wait_s or 0.0 for stage in samples]),
        bytes_in=_mean([stage.bytes_in for stage in samples]),
        bytes_out=_mean([stage.bytes_out for stage in samples]),
        skew=_mean(skews),
        slowest_task=slowest.most_common(1)[0][0] if slowest else None,
        stateful=latest.stateful,
        state_rows=latest.state_rows,
        state_bytes=latest.state_bytes,
        state_commit_s=_mean(commits_s),
        in_bytes_per_s=links.incoming.get(latest.name),
        out_bytes_per_s=links.outgoing.get(latest.name),
        failed_tasks=_mean_of([stage.failed_tasks or 0 for stage in samples]),
        rows_transferred=_mean([stage.rows_transferred for stage in samples]),
    )


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _mean_of(values: Sequence[float]) -> float:
    return sum(values) / len(values)
