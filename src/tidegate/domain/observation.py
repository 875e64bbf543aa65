"""What is seen of the world at one instant. Unknown is None; units are in the names.

An observation holds what has happened since the one before it: the micro-batches that finished, with their rows,
times and operators. `estimated` names the numbers that were inferred rather than measured.
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
            raise ValueError("a latency sample describes at least one row; no rows is None")
        if not self.p50_s <= self.p90_s <= self.p99_s <= self.max_s:
            raise ValueError("latency quantiles must not fall")


@dataclass(frozen=True, slots=True)
class OperatorSample:
    """One operator in one batch: the part of a query between two exchanges, one Spark stage."""

    name: str
    parallelism: int
    rows_in: int | None
    busy_s: float
    """Slot-seconds its tasks held: compute and waiting alike."""
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
    """Partition of the longest task; known where it stood out."""
    stateful: bool = False
    state_rows: int | None = None
    state_bytes: int | None = None
    state_commit_s: float | None = None
    executors: tuple[str, ...] = ()
    """Which executor ran each of its tasks, by partition."""
    failed_tasks: int | None = None
    """Attempts that failed and were made again; None where nobody counted."""

    @property
    def skew(self) -> float | None:
        """The longest task against the mean: 1 is even."""
        if self.longest_task_s is None or not self.busy_s:
            return None
        return self.longest_task_s * self.parallelism / self.busy_s


@dataclass(frozen=True, slots=True)
class DriverTimes:
    """Where a batch spent its time outside of tasks."""

    planning_s: float = 0.0
    offsets_s: float = 0.0
    log_s: float = 0.0
    """Writing offsets and commits to the checkpoint."""
    sink_s: float = 0.0
    """In the sink, on the driver: `foreachBatch`, the commit of files."""


@dataclass(frozen=True, slots=True)
class PartitionLag:
    """Rows of one partition of a source that have arrived and are in no batch yet."""

    partition: str
    """Topic and number, as in `orders-3`."""
    rows: int


@dataclass(frozen=True, slots=True)
class MemorySample:
    """How tight memory was while a batch ran."""

    gc_s: float
    """Slot-seconds in which tasks stood still for the garbage collector."""
    spilled_bytes: int
    """Written to disk because it did not fit."""
    out_of_memory: int
    """Attempts of tasks that ended because memory ran out."""


@dataclass(frozen=True, slots=True)
class BatchSample:
    """One micro-batch that has been committed."""

    batch_id: int
    started_s: float
    duration_s: float
    rows: int
    busy_s: float | None
    """Slot-seconds of all its tasks; None where the stages could not be read."""
    overhead_s: float | None
    """Time in which no task could run: planning, offsets, logs and commits."""
    backlog_rows: int | None
    """Rows that had arrived by `started_s` and are in no batch yet."""
    latency: LatencySample | None = None
    operators: tuple[OperatorSample, ...] = ()
    state_rows: int | None = None
    driver: DriverTimes | None = None
    warming: bool = False
    """Ran on cold processes (the first batch of a run): its times are not the load's."""
    watermark_gap_s: float | None = None
    """Its start minus the event-time watermark."""
    lag: tuple[PartitionLag, ...] = ()
    """By partition, the largest first; empty where the source has no partitions that count rows."""
    dropped_rows: int | None = None
    """Rows that a stateful operator dropped because they were older than the watermark."""
    memory: MemorySample | None = None

    @property
    def committed_s(self) -> float:
        return self.started_s + self.duration_s


@dataclass(frozen=True, slots=True)
class ArrivalSample:
    """What a source knew when it was last asked: news that is younger than the last batch's report."""

    time_s: float
    arrived_rows: int
    """Rows that had ever arrived by `time_s`."""
    waiting_rows: int | None = None
    """Of these, rows that no batch has been planned for; None where the source does not tell."""
    oldest_s: float | None = None
    """When the oldest of the waiting rows arrived."""
    retention_s: float | None = None
    """The source may delete rows that are older than this."""


@dataclass(frozen=True, slots=True)
class RunningBatch:
    """The micro-batch that is under way, as far as it has got."""

    started_s: float
    rows: int | None
    """Rows that it was planned for; None where the source's offsets do not count rows."""
    tasks_done: int
    tasks_left: int
    """Announced and not done, the running ones included."""
    tasks_running: int | None = None
    busy_s: float | None = None
    """Slot-seconds of the tasks that are done."""
    held_s: float | None = None
    """Slot-seconds that the running tasks have held so far."""
    rows_read: int | None = None
    """Rows that tasks have read so far."""
    replayed: bool = False
    """Was planned before a restart: Spark repeats it as it was, whatever limit is set."""


@dataclass(frozen=True, slots=True)
class RebalanceReport:
    """How a restart with another parallelism, or another interval, went."""

    done: bool
    """False where it was rolled back."""
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
    """When it last said anything, idle reports included."""
    interval_s: float
    """The trigger interval; 0 means that the next batch starts when the last is done."""
    running: bool = True
    in_batch: bool = True
    """False where it is known to wait, for data or for its trigger."""
    bounded: bool = False
    """Ends by itself (AvailableNow): it has a finish, not a latency objective."""
    held_slots: int | None = None
    """In real-time mode the slots that it holds for as long as it runs, one for each task of all its stages.

    None for micro-batches; 0 as long as its tasks are not known.
    """
    admission_rows: int | None = None
    """Rows a trigger may take; None where there is no limit."""
    running_batch: RunningBatch | None = None
    """What it is working on; None where it waits, or where a running batch cannot be seen."""
    arrival: ArrivalSample | None = None
    lags: tuple[PartitionLag, ...] = ()
    """The partitions that are furthest behind, the worst first; none where the source does not tell them apart."""
    partitions: int | None = None
    """Partitions that the source has; None where it does not tell."""
    gated: bool = False
    """Its source takes a new admission limit without a restart."""
    restartable: bool = False
    rebalancing: bool = False
    """A restart is under way: what is seen of it now says nothing about its load."""
    rebalance: RebalanceReport | None = None
    """The restart that ended since the last observation."""
    state_places: tuple[str, ...] = ()
    """The executor that ran each state partition, by partition; "" where none did, or several with a part of it each.

    Empty for an application without state, and before its first batch.
    """
    state_movable: bool = False
    """A state partition can be told which executor to go to."""
    error: str | None = None
    estimated: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class ExecutorSample:
    """One executor process; its slots are the tasks it runs at once."""

    id: str
    host: str
    slots: int
    active_tasks: int
    since_s: float
    retiring: bool = False
    """Chosen to go: it ends as soon as its state has moved away, or when nobody moves it."""


@dataclass(frozen=True, slots=True)
class ExecutorPool:
    """The executors that the applications of one Spark context share."""

    executors: tuple[ExecutorSample, ...]
    requested: int
    """How many were last asked for; more or fewer may be registered while the request is on its way."""
    slots_per_executor: int
    scalable: bool = True
    """False where the cluster manager, or somebody else, rules the size."""
    memory_bytes: int | None = None
    """Heap of an executor."""

    def __post_init__(self) -> None:
        if self.slots_per_executor < 1:
            raise ValueError(f"an executor has at least one slot, not {self.slots_per_executor}")

    @property
    def registered(self) -> int:
        return len(self.executors)

    @property
    def slots(self) -> int:
        return sum([executor.slots for executor in self.executors])


@dataclass(frozen=True, slots=True)
class HostSignal:
    """What a probe has read; unknown is None."""

    source: str
    """Who read it: resctrl, perf or pressure."""
    bandwidth_bytes_per_s: float | None = None
    cpu_pressure: float | None = None
    """Share of time in which some process waited for a CPU."""
    memory_pressure: float | None = None


@dataclass(frozen=True, slots=True)
class HostSample:
    """One machine."""

    name: str
    cpus: int
    cpu_busy: float | None
    """Busy share of all its CPUs since the last observation."""
    cpu_pressure: float | None = None
    """Share of the last ten seconds in which some process waited for a CPU (pressure stall information)."""
    memory_bytes: int | None = None
    memory_free_bytes: int | None = None
    signal: HostSignal | None = None
    """What a probe of its memory says, where the work is done on it."""


@dataclass(frozen=True, slots=True)
class Observation:
    """One immutable picture of everything at `time_s` (seconds since the epoch, or of simulated time)."""

    time_s: float
    applications: tuple[ApplicationSample, ...]
    pool: ExecutorPool
    hosts: tuple[HostSample, ...] = ()
    fleet: FleetSample | None = None
    """What the centre of a fleet, or the manager of a region, sees."""
    standing: Standing | None = None
    """Of a host or a region: how it stands with the centre. None where there is nobody to ask."""
