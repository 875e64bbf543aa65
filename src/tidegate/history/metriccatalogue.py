"""The metrics catalogue: the meaning of every column of a recorded history, and the page docs/metrics.md.

A column that describes the whole application has the metric's name (`latency_p99_s`). A column of one operator has the
operator's name in front (`split.busy_s`).
"""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.domain.python310 import StrEnum


class Level(StrEnum):
    """What a metric describes: the data, the query, its scheduling, the cluster, the service, one operator."""

    DATA = "data"
    TOPOLOGY = "topology"
    SCHEDULER = "scheduler"
    CLUSTER = "cluster"
    QOS = "QoS"
    COMPONENT = "component"


class Kind(StrEnum):
    """Gauge: a value at an instant. Meter: an amount per batch or per second. Histogram: a quantile of many values."""

    GAUGE = "gauge"
    METER = "meter"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Metric:
    """One entry of the catalogue."""

    name: str
    level: Level
    unit: str
    kind: Kind
    source: str
    meaning: str
    per_operator: bool = False
    live: bool = True
    """False if only event logs and files of progress reports have it."""


_PROGRESS, _STAGES, _OFFSETS = "progress report", "stages", "progress report (offsets)"
_EVENTS, _SKETCH, _POOL = "event log (tasks)", "KLL sketch of event time", "executor pool"
_STAT = "/proc/stat"


def _operator(name: str, level: Level, unit: str, kind: Kind, source: str, meaning: str) -> Metric:
    return Metric(name, level, unit, kind, source, meaning, per_operator=True)


def _logged(name: str, level: Level, unit: str, kind: Kind, source: str, meaning: str) -> Metric:
    return Metric(name, level, unit, kind, source, meaning, live=False)


METRICS: tuple[Metric, ...] = (
    # data
    Metric(
        "input_rows_per_s", Level.DATA, "rows/s", Kind.METER, _OFFSETS, "rows that arrived between two batch starts"
    ),
    Metric(
        "arrival_rows_per_s", Level.DATA, "rows/s", Kind.METER, "source gate", "rows that arrived since the batch began"
    ),
    Metric("data_delay_s", Level.DATA, "s", Kind.GAUGE, _SKETCH, "wait of the median row before its batch began"),
    Metric("watermark_delay_s", Level.DATA, "s", Kind.GAUGE, _PROGRESS, "batch start minus the event-time watermark"),
    Metric(
        "late_rows", Level.DATA, "rows", Kind.METER, _PROGRESS, "rows dropped because they were behind the watermark"
    ),
    # topology
    Metric("rows", Level.TOPOLOGY, "rows", Kind.METER, _OFFSETS, "rows in the batch (the window's size)"),
    _logged("output_rows", Level.TOPOLOGY, "rows", Kind.METER, _PROGRESS, "rows written to the sink"),
    Metric("trigger_interval_s", Level.TOPOLOGY, "s", Kind.GAUGE, _PROGRESS, "trigger interval (the window's step)"),
    Metric("admission_rows", Level.TOPOLOGY, "rows", Kind.GAUGE, "source gate", "maximum rows per trigger"),
    Metric("state_rows", Level.TOPOLOGY, "rows", Kind.GAUGE, _PROGRESS, "rows in the state stores"),
    Metric("state_memory_bytes", Level.TOPOLOGY, "bytes", Kind.GAUGE, _PROGRESS, "memory of the state stores"),
    Metric("state_commit_s", Level.TOPOLOGY, "s", Kind.METER, _PROGRESS, "time to commit state, summed over all tasks"),
    _operator("selectivity", Level.TOPOLOGY, "1", Kind.GAUGE, "operator counters", "rows out ÷ rows in"),
    # scheduler
    Metric("uptime_s", Level.SCHEDULER, "s", Kind.GAUGE, _PROGRESS, "time since the first observed batch"),
    Metric("warming", Level.SCHEDULER, "0 or 1", Kind.GAUGE, _PROGRESS, "the first batch of a run, on cold processes"),
    Metric("overhead_s", Level.SCHEDULER, "s", Kind.METER, _STAGES, "time of the batch in which no task could run"),
    Metric("planning_s", Level.SCHEDULER, "s", Kind.METER, _PROGRESS, "query planning"),
    _logged("latest_offset_s", Level.SCHEDULER, "s", Kind.METER, _PROGRESS, "asking for the latest offsets"),
    _logged("wal_commit_s", Level.SCHEDULER, "s", Kind.METER, _PROGRESS, "writing the offset log"),
    _logged("commit_offsets_s", Level.SCHEDULER, "s", Kind.METER, _PROGRESS, "writing the commit log"),
    # cluster
    Metric("executors", Level.CLUSTER, "executors", Kind.GAUGE, _POOL, "registered"),
    Metric("executors_requested", Level.CLUSTER, "executors", Kind.GAUGE, _POOL, "requested from the cluster manager"),
    Metric("slots", Level.CLUSTER, "slots", Kind.GAUGE, _POOL, "tasks that can run at the same time"),
    Metric("host_cpu_busy", Level.CLUSTER, "1", Kind.GAUGE, _STAT, "busy share of the CPUs of the busiest host"),
    Metric("host_cpu_user", Level.CLUSTER, "1", Kind.GAUGE, _STAT, "part of it outside the kernel"),
    Metric("host_cpu_system", Level.CLUSTER, "1", Kind.GAUGE, _STAT, "part of it inside the kernel"),
    Metric("host_cpu_pressure", Level.CLUSTER, "1", Kind.GAUGE, "/proc/pressure", "share of time waiting for a CPU"),
    Metric("host_memory_free_bytes", Level.CLUSTER, "bytes", Kind.GAUGE, "/proc/meminfo", "free, on the fullest host"),
    # QoS
    Metric("throughput_rows_per_s", Level.QOS, "rows/s", Kind.METER, _PROGRESS, "rows committed between two commits"),
    Metric("latency_p50_s", Level.QOS, "s", Kind.HISTOGRAM, _SKETCH, "complete latency, arrival to commit: median"),
    Metric("latency_p90_s", Level.QOS, "s", Kind.HISTOGRAM, _SKETCH, "complete latency: 90th percentile"),
    Metric("latency_p99_s", Level.QOS, "s", Kind.HISTOGRAM, _SKETCH, "complete latency: 99th percentile"),
    Metric("latency_max_s", Level.QOS, "s", Kind.HISTOGRAM, _SKETCH, "complete latency: the slowest row"),
    Metric("batch_duration_s", Level.QOS, "s", Kind.GAUGE, _PROGRESS, "system latency: trigger to commit"),
    Metric("processing_s", Level.QOS, "s", Kind.GAUGE, _PROGRESS, "processing latency: running the batch (addBatch)"),
    Metric("execution_s", Level.QOS, "s", Kind.GAUGE, _STAGES, "execution latency: tasks running, over all stages"),
    Metric("backlog_rows", Level.QOS, "rows", Kind.GAUGE, _OFFSETS, "arrived and not in a batch yet"),
    Metric("busy_s", Level.QOS, "slot-s", Kind.METER, _STAGES, "slot-seconds of all tasks"),
    Metric("cpu_s", Level.QOS, "CPU-s", Kind.METER, _STAGES, "CPU seconds of all tasks"),
    Metric("peak_memory_bytes", Level.QOS, "bytes", Kind.GAUGE, _STAGES, "largest execution memory of a task"),
    Metric("utilisation", Level.QOS, "1", Kind.GAUGE, _STAGES, "busy share of the slots between two batch starts"),
    # component
    _logged("tasks", Level.COMPONENT, "tasks", Kind.METER, _EVENTS, "tasks that ended"),
    Metric("tasks_failed", Level.COMPONENT, "tasks", Kind.METER, _STAGES, "failed tasks (event logs: or killed)"),
    Metric("tasks_out_of_memory", Level.COMPONENT, "tasks", Kind.METER, _STAGES, "of these, for lack of memory"),
    Metric("communication_s", Level.COMPONENT, "slot-s", Kind.METER, _STAGES, "fetching and writing shuffle data"),
    Metric("fetch_wait_s", Level.COMPONENT, "slot-s", Kind.METER, _STAGES, "waiting for shuffle data"),
    Metric("gc_s", Level.COMPONENT, "s", Kind.METER, _STAGES, "garbage collection during tasks"),
    _logged("deserialise_s", Level.COMPONENT, "slot-s", Kind.METER, _EVENTS, "deserialising tasks on executors"),
    _logged("input_bytes", Level.COMPONENT, "bytes", Kind.METER, _EVENTS, "read from the source"),
    Metric("shuffle_read_bytes", Level.COMPONENT, "bytes", Kind.METER, _STAGES, "shuffle data read"),
    Metric("shuffle_write_bytes", Level.COMPONENT, "bytes", Kind.METER, _STAGES, "shuffle data written"),
    Metric("spill_bytes", Level.COMPONENT, "bytes", Kind.METER, _STAGES, "spilled to disk"),
    _logged("task_skew", Level.COMPONENT, "1", Kind.GAUGE, _EVENTS, "slowest ÷ median task, in the worst stage"),
    _operator("is_source", Level.COMPONENT, "0 or 1", Kind.GAUGE, _STAGES, "its type: reads a source"),
    _operator("is_stateful", Level.COMPONENT, "0 or 1", Kind.GAUGE, _STAGES, "its type: keeps state"),
    _operator("is_sink", Level.COMPONENT, "0 or 1", Kind.GAUGE, _STAGES, "its type: writes to the sink"),
    _operator("parallelism", Level.COMPONENT, "tasks", Kind.GAUGE, _STAGES, "tasks of the operator"),
    _operator("executors", Level.COMPONENT, "executors", Kind.GAUGE, _STAGES, "executors that ran its tasks"),
    _operator("tasks_failed", Level.COMPONENT, "tasks", Kind.METER, _STAGES, "failed tasks (event logs: or killed)"),
    _operator("rows_in", Level.COMPONENT, "rows", Kind.METER, _STAGES, "rows executed"),
    _operator("rows_out", Level.COMPONENT, "rows", Kind.METER, _STAGES, "rows emitted"),
    _operator("busy_s", Level.COMPONENT, "slot-s", Kind.METER, _STAGES, "slot-seconds of its tasks"),
    _operator("cpu_s", Level.COMPONENT, "CPU-s", Kind.METER, _STAGES, "CPU seconds of its tasks"),
    _operator("communication_s", Level.COMPONENT, "slot-s", Kind.METER, _STAGES, "fetching and writing shuffle data"),
    _operator("execute_latency_s", Level.COMPONENT, "s", Kind.GAUGE, _STAGES, "first task's launch to last task's end"),
    _operator("capacity", Level.COMPONENT, "1", Kind.GAUGE, _STAGES, "busy ÷ (time between batches × tasks at once)"),
    _operator("congested", Level.COMPONENT, "0 or 1", Kind.GAUGE, _STAGES, "capacity of 0.8 or more"),
)

_BY_NAME = {(metric.name, metric.per_operator): metric for metric in METRICS}


def metric_of(column: str) -> Metric | None:
    """Return the catalogue entry of a column, or None if it is not in the catalogue.

    >>> metric_of("split.busy_s").per_operator, metric_of("busy_s").level.value, metric_of("colour") is None
    (True, 'QoS', True)
    """
    operator, _, name = column.rpartition(".")
    return _BY_NAME.get((name, bool(operator)))


def operator_column(operator: str, metric: str) -> str:
    """Return the column name of an operator's metric."""
    return f"{operator}.{metric}"


def catalogue_page() -> str:
    """Return the catalogue as a documentation page (Markdown)."""
    lines = [
        "# Metrics",
        "",
        "<!-- written by `python -m tidegate.history`; edit src/tidegate/history/metriccatalogue.py instead -->",
        "",
        "Tidegate records these metrics for each application, one row per micro-batch. A column has the metric's",
        "name; the columns of an operator have its name in front (`split.busy_s`). A value that was not measured is",
        "missing, never zero. Gauges are values at an instant, meters are amounts per batch or second, and histograms",
        "are quantiles over a batch's rows. Metrics with a star are known from event logs and files of progress",
        "reports only; a live history does not contain them.",
        "",
        "The history is Parquet, `application=NAME/day=YYYY-MM-DD/part-N.parquet`, with `time_s` (commit of the batch,",
        "seconds since the epoch), `batch_id` and the metrics as columns. `pandas.read_parquet(folder)`, DuckDB and",
        "Spark (`mergeSchema`) can read it directly.",
        "",
        "An operator's type consists of three columns, because it may be several things: the last operator of a word",
        "count keeps state and writes to the sink. One that is none of the three is a stateless step in between. Spark",
        "reports the CPU time of a task as one figure. User and system time are therefore known by host only, and only",
        "if executors run on the driver's machine (`local[…]` and `local-cluster[…]`). State is reported by query.",
    ]
    for level in Level:
        lines += ["", f"## {level.value[0].upper()}{level.value[1:]} level", ""]
        lines += ["| metric | unit | kind | source | meaning |", "|---|---|---|---|---|"]
        for metric in METRICS:
            if metric.level is level:
                shown = f"*operator*.`{metric.name}`" if metric.per_operator else f"`{metric.name}`"
                shown += "" if metric.live else " \\*"
                lines.append(f"| {shown} | {metric.unit} | {metric.kind} | {metric.source} | {metric.meaning} |")
    return "\n".join(lines) + "\n"
