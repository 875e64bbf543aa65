"""What is observed at one instant. Unknown values are None; names contain units.

An observation covers the time since the previous one: the micro-batches that finished, with their rows, times and
operators. `estimated` names the values that were inferred and not measured.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.domain.fleet import FleetSample, Standing


@dataclass(frozen=True, slots=True)
class LatencySample:
    """Row latencies of one batch, from arrival to the commit of the batch."""

    rows: int
    p50_s: float
    p90_s: float
    p99_s: float
    max_s: float

    def __post_init__(self) -> None:
        if self.rows <= 0:
            raise ValueError("a latency sample needs at least one row; use None if there are no rows")
        if not self.p50_s <= self.p90_s <= self.p99_s <= self.max_s:
            raise ValueError("latency quantiles must not decrease")


@dataclass(frozen=True, slots=True)
class OperatorSample:
    """One operator in one batch: the part of a query between two exchanges, one Spark stage."""

    name: str
    parallelism: int
    rows_in: int | None
    busy_s: float
    """Slot-seconds of its tasks, both computing and waiting."""
    cpu_s: float | None
    communication_s: float | None
    """Slot-seconds spent fetching and writing shuffle data."""
    execute_latency_s: float | None
    """From the first task's launch to the last task's end."""
    rows_out: int | None = None
    bytes_in: int | None = None
    """Shuffle bytes fetched."""
    bytes_out: int | None = None
    """Shuffle bytes written."""
    fetch_wait_s: float | None = None
    """Slot-seconds spent waiting for shuffle data, part of `communication_s`."""
    longest_task_s: float | None = None
    slowest_task: int | None = None
    """Partition of the longest task; known only if that task stood out."""
    stateful: bool = False
    state_rows: int | None = None
    state_bytes: int | None = None
    state_commit_s: float | None = None
    executors: tuple[str, ...] = ()
    """Which executor ran each of its tasks, by partition."""
    failed_tasks: int | None = None
    """Failed attempts that were retried; None if not counted."""
    rows_transferred: int | None = None
    """Rows written to the shuffle for the next operator. Fewer than emitted if Spark aggregates them before."""

    @property
    def skew(self) -> float | None:
        """Longest task divided by the mean task: 1 is even."""
        if self.longest_task_s is None or not self.busy_s:
            return None
        return self.longest_task_s * self.parallelism / self.busy_s


@dataclass(frozen=True, slots=True)
class DriverTimes:
    """Time that a batch spent outside tasks."""

    planning_s: float = 0.0
    offsets_s: float = 0.0
    log_s: float = 0.0
    """Writing offsets and commits to the checkpoint."""
    sink_s: float = 0.0
    """In the sink, on the driver: `foreachBatch`, the commit of files."""


@dataclass(frozen=True, slots=True)
class PartitionLag:
    """Backlog of one source partition: rows that have arrived and are not in a batch yet."""

    partition: str
    """Topic and number, as in `orders-3`."""
    rows: int


@dataclass(frozen=True, slots=True)
class MemorySample:
    """Memory pressure during a batch."""

    gc_s: float
    """Slot-seconds in which tasks were stopped for garbage collection."""
    spilled_bytes: int
    """Bytes spilled to disk."""
    out_of_memory: int
    """Task attempts that ended because memory ran out."""
    peak_bytes: int | None = None
    """Largest execution memory of a task, for sorting, joining and aggregating."""


@dataclass(frozen=True, slots=True)
class BatchSample:
    """One committed micro-batch."""

    batch_id: int
    started_s: float
    duration_s: float
    rows: int
    busy_s: float | None
    """Slot-seconds of all its tasks; None if the stages could not be read."""
    overhead_s: float | None
    """Time in which no task could run: planning, offsets, logs and commits."""
    backlog_rows: int | None
    """Rows that had arrived by `started_s` and are not in a batch yet."""
    latency: LatencySample | None = None
    operators: tuple[OperatorSample, ...] = ()
    state_rows: int | None = None
    driver: DriverTimes | None = None
    warming: bool = False
    """Ran on cold processes (the first batch of a run), so its times do not reflect the load."""
    watermark_gap_s: float | None = None
    """Its start minus the event-time watermark."""
    lag: tuple[PartitionLag, ...] = ()
    """By partition, largest first; empty if the source's partitions do not count rows."""
    dropped_rows: int | None = None
    """Rows that stateful operators dropped because they were older than the watermark."""
    memory: MemorySample | None = None

    @property
    def committed_s(self) -> float:
        return self.started_s + self.duration_s


@dataclass(frozen=True, slots=True)
class ArrivalSample:
    """The latest report of a source, more recent than the last batch's progress report."""

    time_s: float
    arrived_rows: int | None
    """Total rows that had arrived by `time_s`; None if the report covers only some of the application's sources."""
    waiting_rows: int | None = None
    """Of these, rows not yet planned into a batch; None if the source does not report it."""
    oldest_s: float | None = None
    """When the oldest of the waiting rows arrived."""
    retention_s: float | None = None
    """The source may delete rows that are older than this."""
    expiring_s: float | None = None
    """When the row that may be deleted first arrived, if it is not the oldest: topics are kept for different times."""


@dataclass(frozen=True, slots=True)
class RunningBatch:
    """The progress of the running micro-batch."""

    started_s: float
    rows: int | None
    """Planned rows; None if the source's offsets do not count rows."""
    tasks_done: int
    tasks_left: int
    """Submitted but unfinished tasks, including running ones."""
    tasks_running: int | None = None
    busy_s: float | None = None
    """Slot-seconds of the finished tasks."""
    held_s: float | None = None
    """Slot-seconds of the running tasks so far."""
    rows_read: int | None = None
    """Rows that tasks have read so far."""
    replayed: bool = False
    """Planned before a restart: Spark repeats it unchanged, whatever the limit."""


@dataclass(frozen=True, slots=True)
class RebalanceReport:
    """The result of a restart with another parallelism or interval."""

    done: bool
    """False if it was rolled back."""
    pause_s: float | None
    """From the last commit before to the first one after."""
    state_rows: int | None = None
    """Rows of state that moved."""
    note: str = ""


@dataclass(frozen=True, slots=True)
class ApplicationSample:
    """One streaming query."""

    name: str
    batches: tuple[BatchSample, ...]
    """Committed since the last observation, oldest first."""
    last_progress_s: float | None
    """Time of the last progress report, including idle reports."""
    interval_s: float
    """The trigger interval; 0 means that the next batch starts as soon as the last is done."""
    running: bool = True
    in_batch: bool = True
    """False if it is known to be waiting for data or for its trigger."""
    bounded: bool = False
    """It processes the available data and ends (AvailableNow), so it has no latency objective."""
    held_slots: int | None = None
    """In real-time mode, the slots that it occupies permanently: one for each task of all its stages.

    None for micro-batches; 0 while its tasks are not known.
    """
    admission_rows: int | None = None
    """Maximum rows per trigger; None if there is no limit."""
    running_batch: RunningBatch | None = None
    """The running batch; None if it is waiting or the batch cannot be observed."""
    arrival: ArrivalSample | None = None
    lags: tuple[PartitionLag, ...] = ()
    """The partitions with the largest lag, worst first; empty if the source does not report partitions."""
    partitions: int | None = None
    """Number of source partitions; None if the source does not report it."""
    gated: bool = False
    """Its source accepts a new admission limit without a restart."""
    restartable: bool = False
    rebalancing: bool = False
    """A restart is in progress, so current figures do not reflect its load."""
    rebalance: RebalanceReport | None = None
    """The restart that ended since the last observation."""
    state_places: tuple[str, ...] = ()
    """The executor that ran each state partition, by partition; "" if none did, or if several ran a part of it.

    Empty for an application without state and before its first batch.
    """
    state_movable: bool = False
    """State partitions can be moved to a chosen executor."""
    error: str | None = None
    estimated: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class ExecutorSample:
    """One executor process. A slot runs one task at a time."""

    id: str
    host: str
    slots: int
    active_tasks: int
    since_s: float
    retiring: bool = False
    """Selected for removal: it ends once its state has moved away, or if its state is not moved."""


@dataclass(frozen=True, slots=True)
class ExecutorPool:
    """The executors that the applications of one Spark context share."""

    executors: tuple[ExecutorSample, ...]
    requested: int
    """The last requested number. The registered number may differ until the request is fulfilled."""
    slots_per_executor: int
    scalable: bool = True
    """False if the cluster manager or another program controls the size."""
    memory_bytes: int | None = None
    """Heap of an executor."""
    warmup_s: float = 10.0
    """How long an executor is cold after it has registered: its tasks are slow, and batches tell little."""

    def __post_init__(self) -> None:
        if self.slots_per_executor < 1:
            raise ValueError(f"an executor must have at least 1 slot, not {self.slots_per_executor}")

    @property
    def registered(self) -> int:
        return len(self.executors)

    @property
    def slots(self) -> int:
        return sum([executor.slots for executor in self.executors])


@dataclass(frozen=True, slots=True)
class HostSignal:
    """Readings of a probe. Unknown values are None."""

    source: str
    """The probe: resctrl, perf or pressure."""
    bandwidth_bytes_per_s: float | None = None
    cpu_pressure: float | None = None
    """Share of time in which at least one process waited for a CPU."""
    memory_pressure: float | None = None


@dataclass(frozen=True, slots=True)
class HostSample:
    """One machine."""

    name: str
    cpus: int
    cpu_busy: float | None
    """Busy share of all its CPUs since the last observation."""
    cpu_pressure: float | None = None
    """Share of the last ten seconds in which at least one process waited for a CPU (pressure stall information)."""
    memory_bytes: int | None = None
    memory_free_bytes: int | None = None
    signal: HostSignal | None = None
    """Reading of a memory probe, if executors run on this machine."""
    cpu_user: float | None = None
    """Part of `cpu_busy` outside the kernel. Known if executors run on this machine."""
    cpu_system: float | None = None
    """Part of `cpu_busy` inside the kernel."""


@dataclass(frozen=True, slots=True)
class Observation:
    """An immutable snapshot at `time_s` (seconds since the epoch, or simulated time)."""

    time_s: float
    applications: tuple[ApplicationSample, ...]
    pool: ExecutorPool
    hosts: tuple[HostSample, ...] = ()
    fleet: FleetSample | None = None
    """What the centre of a fleet or the manager of a region observes."""
    standing: Standing | None = None
    """For a host or a region, its relation to the centre. None outside a fleet."""
