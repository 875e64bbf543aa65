"""The cost per row of every operator, learned while the job runs, and the rate that it can sustain (paper B, B6).

Also its bottleneck time (Me-Stream, equations 1–3). Profiles are running means over warm batches, by operator. A new
parallelism resets them, because the cost of a row depends on how many tasks share its work.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from tidegate.domain import BatchSample, OperatorSample
from tidegate.evaluate.bottleneck.links import Links, learn_links
from tidegate.evaluate.bottleneck.times import communication_time_s

_PACE = 0.1


@dataclass(frozen=True, slots=True)
class OperatorProfile:
    """One operator as it runs now."""

    name: str
    parallelism: int
    service_s_per_row: float
    """Slot-seconds per row."""
    cpu_s_per_row: float | None
    network_bytes_per_row: float | None
    memory_bytes: float | None
    """Size of its state; None if it has none."""
    sustainable_rows_per_s: float
    """Rate that its tasks can sustain if each has its own slot."""
    compute_s: float
    """T_calc of a mean batch."""
    communication_s: float
    """T_comm of a mean batch."""
    skew: float | None
    busy_s: float = 0.0
    """Slot-seconds of a mean batch."""
    failed_tasks: float | None = None
    """Failed attempts in a mean batch; None if not counted."""

    @property
    def bottleneck_s(self) -> float:
        """T = max(T_calc, T_comm)."""
        return max(self.compute_s, self.communication_s)

    @property
    def kind(self) -> str:
        return "communication" if self.communication_s > self.compute_s else "compute"


@dataclass(slots=True)
class OperatorMemory:
    """Running means of one operator. The rates are per row, the rest per batch."""

    parallelism: int
    batches: int = 0
    service: float = 0.0
    cpu: float | None = None
    network: float | None = None
    memory: float | None = None
    busy: float = 0.0
    communication: float = 0.0
    """Slot-seconds of waiting. This is T_comm if bytes are not counted."""
    bytes_in: float | None = None
    bytes_out: float | None = None
    skew: float | None = None
    failed: float | None = None


@dataclass(slots=True)
class ProfileMemory:
    """The operators of one application, in the order of the plan."""

    operators: dict[str, OperatorMemory] = field(default_factory=dict)
    links: Links = field(default_factory=Links)


def learn(memory: ProfileMemory, batch: BatchSample) -> None:
    """Learn from a warm batch with rows. Others say nothing about the cost of a row."""
    if batch.warming or not batch.rows or not batch.operators:
        return
    names = {operator.name for operator in batch.operators}
    if names != memory.operators.keys():
        memory.operators = {operator.name: OperatorMemory(operator.parallelism) for operator in batch.operators}
    for operator in batch.operators:
        known = memory.operators[operator.name]
        if known.parallelism != operator.parallelism:
            known = memory.operators[operator.name] = OperatorMemory(operator.parallelism)
        _learn_operator(known, operator)
    learn_links(memory.links, batch)


def profiles_of(batches: Iterable[BatchSample], slots: int) -> tuple[OperatorProfile, ...]:
    """Every operator of these batches on a pool of `slots`."""
    memory = ProfileMemory()
    for batch in batches:
        learn(memory, batch)
    return profiles(memory, slots)


def profiles(memory: ProfileMemory, slots: int) -> tuple[OperatorProfile, ...]:
    """Every operator on a pool of `slots`."""
    return tuple(
        _profile(name, known, memory.links, slots) for name, known in memory.operators.items() if known.batches
    )


def worst(found: tuple[OperatorProfile, ...]) -> OperatorProfile | None:
    """The operator with the largest bottleneck time. It is served first."""
    return max(found, key=lambda profile: profile.bottleneck_s, default=None)


def _learn_operator(known: OperatorMemory, operator: OperatorSample) -> None:
    known.batches += 1
    pace = max(_PACE, 1 / known.batches)
    rows = max(operator.rows_in or 0, 1)
    known.service += pace * (operator.busy_s / rows - known.service)
    known.busy += pace * (operator.busy_s - known.busy)
    known.communication += pace * (min(operator.communication_s or 0.0, operator.busy_s) - known.communication)
    known.cpu = _towards(known.cpu, operator.cpu_s, 1 / rows, pace)
    moved = None if operator.bytes_in is None and operator.bytes_out is None else _moved(operator)
    known.network = _towards(known.network, moved, 1 / rows, pace)
    known.bytes_in = _towards(known.bytes_in, operator.bytes_in, 1.0, pace)
    known.bytes_out = _towards(known.bytes_out, operator.bytes_out, 1.0, pace)
    known.memory = _towards(known.memory, operator.state_bytes, 1.0, pace)
    known.skew = _towards(known.skew, operator.skew, 1.0, pace)
    known.failed = _towards(known.failed, operator.failed_tasks, 1.0, pace)


def _moved(operator: OperatorSample) -> float:
    return float((operator.bytes_in or 0) + (operator.bytes_out or 0))


def _towards(mean: float | None, value: float | None, scale: float, pace: float) -> float | None:
    if value is None:
        return mean
    return value * scale if mean is None else mean + pace * (value * scale - mean)


def _communication_s(name: str, known: OperatorMemory, links: Links, power: int) -> float:
    """T_comm: bytes over the learned bandwidth of the links, or the waiting time if bytes are not counted."""
    if not known.bytes_in and not known.bytes_out:
        return known.communication / power
    rates = (rate and rate * power for rate in (links.incoming.get(name), links.outgoing.get(name)))
    return communication_time_s(known.bytes_in or 0.0, next(rates), known.bytes_out or 0.0, next(rates))


def _profile(name: str, known: OperatorMemory, links: Links, slots: int) -> OperatorProfile:
    power = max(1, min(known.parallelism, slots))
    return OperatorProfile(
        name=name,
        parallelism=known.parallelism,
        service_s_per_row=known.service,
        cpu_s_per_row=known.cpu,
        network_bytes_per_row=known.network,
        memory_bytes=known.memory,
        sustainable_rows_per_s=power / known.service if known.service > 0 else float("inf"),
        compute_s=(known.busy - known.communication) / power,
        communication_s=_communication_s(name, known, links, power),
        skew=known.skew,
        busy_s=known.busy,
        failed_tasks=known.failed,
    )
