"""The tuning adapter: when an objective is missed and no action is left, it says what would make it feasible.

The user can add resources, relax the objective or reduce the load. Each number comes from the micro-batch model with
the learned costs. No action is left if the planner wants nothing more, or only what the bounds forbid, and the last
change has had time to take effect. A row of a QoS table that counts in decisions (`requirements`) is an objective too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from math import ceil, floor, inf, isfinite, log10
from typing import Any

from tidegate.domain import Action, Advice, ExecutorPool, Held, Objective, Reason, SetAdmission
from tidegate.domain.codec import from_tree
from tidegate.evaluate.evaluation import Evaluation
from tidegate.evaluate.workload import Workload
from tidegate.model.microbatch import slots_for_latency, slots_for_rate, slots_in_waves
from tidegate.plan.requirements import CountedRow, missing_rows

_FINAL_GUARDS = {"scalable", "bounds", "knobs", "budget"}
"""Guards that will not change their answer. The others only delay an action."""
_LONGEST_LATENCY_S = 86_400.0
_SLACK = 1e-6
_HALVINGS = 40
_PATIENCE_S = 30.0
"""Time for the last change to take effect."""
_COMFORTABLE = 0.75
"""Utilisation at which the other applications have enough room."""
_BATCH_SHARE = 0.4
_LEAST_ROWS = 5
_MOST_ADVISED = 8
_MEASURED_SHARE = 0.99
"""The quantile of row latency that is known."""
_HOT = 1.5
"""A partition is hot if it holds more than this multiple of its fair share of the waiting rows."""
_MARGIN = 0.95
"""Share of the slots to plan with: costs and arrivals vary, and near saturation latency rises steeply."""


@dataclass(slots=True)
class TuningMemory:
    """Since when an application has missed its objective with no action left."""

    stuck_s: dict[str, float] = field(default_factory=dict)
    """By application or, for a row of its QoS table, by application and row."""


class Tuning:
    """Advises on applications that have missed their objective for long enough with no action left."""

    name = "tuning"

    def __init__(self, parts: dict[str, Any]) -> None:
        """`parts` holds memories by name. A saved one is restored, otherwise a new one is added."""
        saved = parts.get(self.name)
        self.memory = from_tree(TuningMemory, saved) if isinstance(saved, dict) else saved or TuningMemory()
        parts[self.name] = self.memory
        self._outlooks: dict[str, LongRun] = {}

    def watch(self, evaluation: Evaluation, actions: Collection[Action], held: Collection[Held]) -> None:
        """Track applications that are stuck: over the objective, with no action left, and not just catching up."""
        places = evaluation.budgets.missed(_LEAST_ROWS, among=evaluation.usable)[:_MOST_ADVISED]
        rows = missing_rows(evaluation)[:_MOST_ADVISED]
        if not places and not rows:
            self._outlooks, self.memory.stuck_s = {}, {}
            return
        self._outlooks = {evaluation.samples[place].name: _outlook(place, evaluation) for place in places}
        for place, row in rows:
            self._outlooks[f"{evaluation.samples[place].name}: {row.row}"] = _outlook(place, evaluation, row)
        left = not _nothing_left(evaluation, actions, held)
        self.memory.stuck_s = {
            name: self.memory.stuck_s.get(name, evaluation.time_s)
            for name, outlook in self._outlooks.items()
            if not left and not outlook.catches_up
        }

    def advice(self, evaluation: Evaluation) -> tuple[Advice, ...]:
        """What would make the objectives feasible for applications that have been stuck for long enough."""
        stuck = tuple(
            advice
            for name, since_s in self.memory.stuck_s.items()
            if evaluation.time_s - since_s >= _PATIENCE_S
            for advice in _options(self._outlooks[name], evaluation.pool)
        )
        return stuck + hot_partitions(evaluation) + real_time_slots(evaluation)


def hot_partitions(evaluation: Evaluation) -> tuple[Advice, ...]:
    """Partitions that hold most of the rows waiting longer than the objective. More slots do not help them."""
    found = []
    for place in evaluation.telling:
        sample = evaluation.samples[place]
        if not sample.lags or not sample.partitions or sample.partitions < 2 or sample.arrival is None:
            continue
        waiting, oldest_s, worst = sample.arrival.waiting_rows or 0, sample.arrival.oldest_s, sample.lags[0]
        late = oldest_s is not None and evaluation.time_s - oldest_s > evaluation.promises.latency_s[place]
        if late and worst.rows > _HOT * waiting / sample.partitions and worst.rows > waiting / 2:
            text = (
                f"{sample.name}: partition {worst.partition} holds {worst.rows} of the {waiting} rows that wait in "
                f"{sample.partitions} partitions; spread its keys, or set minPartitions so that several tasks read it"
            )
            found.append(Advice(sample.name, Reason("hot-partition", text)))
    return tuple(found[:_MOST_ADVISED])


def real_time_slots(evaluation: Evaluation) -> tuple[Advice, ...]:
    """Real-time queries that need more slots than are allowed. They wait for slots and do not run."""
    wanted, most = evaluation.real_time_executors, evaluation.executor_bounds[1]
    there = most if evaluation.pool.scalable else evaluation.pool.registered
    if wanted <= there:
        return ()
    return tuple(
        Advice(
            sample.name,
            Reason(
                "real-time-slots",
                f"{sample.name} runs {sample.held_slots} tasks at once in real-time mode, and {there} executors of "
                f"{evaluation.pool.slots_per_executor} slots are allowed: allow {wanted} (executors.max), or read "
                "fewer partitions",
            ),
            executors=wanted,
        )
        for sample in evaluation.samples
        if sample.held_slots
    )


@dataclass(frozen=True, slots=True)
class LongRun:
    """One application in the long run: its load without backlog and trend, and the slots that it could have."""

    name: str
    workload: Workload
    pending_rows: float
    interval_s: float
    objective: Objective
    batch_share: float | None
    """Batches of gated sources take at most this share of the objective."""
    slots: float
    """Slots that the policy allows it."""
    slots_now: float
    others: float
    """Slots that other applications need."""
    partitions: int | None = None
    """Partitions of its topics. No more tasks read from them unless the query requests it."""
    row: CountedRow | None = None
    """The row of its QoS table that is meant, if it is not the latency objective."""

    @property
    def goal(self) -> str:
        """The objective in words."""
        return f"{self.objective.latency_s:g} s" if self.row is None else f"its QoS table's {self.row.row}"

    @property
    def catches_up(self) -> bool:
        """Does it miss the objective only because of a backlog that the slots will clear?"""
        in_time = self.workload.expected_rows_per_s * self.objective.latency_s
        return self.needed(self.objective.latency_s) <= self.slots and self.pending_rows > in_time

    def needed(self, latency_s: float, rows_per_s: float | None = None) -> float:
        """Slots needed for an objective according to the model. They fall with the objective and rise with the load."""
        rate, cost = self.workload.expected_rows_per_s if rows_per_s is None else rows_per_s, self.workload.cost
        if self.row is not None:
            latency_s = self.row.longest_s(self.interval_s, latency_s)
        needed = slots_for_latency(rate, cost, self.interval_s, latency_s)
        if self.batch_share is not None:
            bounded_s = max(self.interval_s, self.batch_share * latency_s)
            needed = max(needed, slots_for_rate(rate, cost, bounded_s, utilisation=1.0))
        return needed / _MARGIN

    def account(self, needed: float) -> str:
        """The slots that are needed, as a sum: what the rows keep busy, and the room for everything else."""
        rate, row_s = self.workload.expected_rows_per_s, self.workload.cost.row_s
        rows, total = round(rate * row_s, 1), round(needed, 1)
        text = f"{total:.1f} slots to meet {self.goal} ({_load(self)} = {rows:.1f}"
        room = f", plus {total - rows:.1f} so that batches end in time" if total > rows else ""
        return f"{text}{room})"

    def least_latency_s(self) -> float | None:
        """The smallest feasible objective, rounded up, or None if the load always exceeds the slots."""
        latency_s = _least(lambda latency_s: self.needed(latency_s) <= self.slots, _LONGEST_LATENCY_S)
        return _round_up(latency_s) if isfinite(latency_s) else None

    def largest_rate(self) -> int:
        """The largest load, in rows per second, at which the objective is feasible; 0 if there is none."""
        most = self.workload.expected_rows_per_s
        return floor(min(most, _least(lambda rate: self.needed(self.objective.latency_s, rate) > self.slots, most)))


def _outlook(place: int, evaluation: Evaluation, row: CountedRow | None = None) -> LongRun:
    seen = evaluation.of(place)
    assert seen.workload is not None
    total = most_slots(evaluation)
    others = float(evaluation.busy_slots.sum() - evaluation.busy_slots[place]) / _COMFORTABLE
    steady = replace(seen.workload, pending_rows=0.0, expected_rows_per_s=seen.workload.arrival_rows_per_s)
    return LongRun(
        name=seen.name,
        workload=steady,
        pending_rows=seen.workload.pending_rows,
        interval_s=seen.sample.interval_s,
        objective=seen.objective if row is None else Objective(row.bound_s, row.share),
        batch_share=_BATCH_SHARE if seen.sample.gated else None,
        slots=usable_slots(max(total - others, total / int(evaluation.usable.sum())), seen.workload.parallelism),
        slots_now=usable_slots(max(evaluation.pool.slots - others, 0.0), seen.workload.parallelism),
        others=others,
        partitions=seen.sample.partitions,
        row=row,
    )


def _nothing_left(evaluation: Evaluation, actions: Collection[Action], held: Collection[Held]) -> bool:
    """Is the pool as requested, and does no pending or delayed action remain that could help?"""
    tried = any(not isinstance(action, SetAdmission) for action in actions)
    waits = any(one.guard not in _FINAL_GUARDS for one in held)
    arriving = evaluation.pool.registered < evaluation.pool.requested
    restarting = bool(evaluation.status.rebalancing.any())
    return not (tried or waits or arriving or restarting)


def _options(outlook: LongRun, pool: ExecutorPool) -> tuple[Advice, ...]:
    needed = outlook.needed(outlook.objective.latency_s)
    if needed <= outlook.slots_now:
        return _against_the_model(outlook)
    if needed <= outlook.slots:  # allowed, but not running
        more = _add(outlook, needed, pool)
        return (more,) if more is not None else ()
    options = (_add(outlook, needed, pool), _relax(outlook), _send_less(outlook))
    return tuple(option for option in options if option is not None)


def _add(outlook: LongRun, needed: float, pool: ExecutorPool) -> Advice | None:
    if not isfinite(needed):
        return None
    tasks = outlook.workload.parallelism
    widened = None if tasks is None or needed <= tasks else ceil(needed - _SLACK)
    own = slots_in_waves(needed, tasks) if tasks is not None and widened is None else needed
    executors = ceil((own + outlook.others) / pool.slots_per_executor - _SLACK)
    hosts = ceil(executors / per_host) if (per_host := executors_per_host(pool)) else None
    text = f"{outlook.name} needs {outlook.account(needed)}: use {executors} executors"
    text += f" on {hosts} host{'s' if hosts != 1 else ''}" if hosts is not None else ""
    text += f", and {widened} tasks in the busiest operator instead of {tasks}" if widened is not None else ""
    if widened is not None and tasks == outlook.partitions:
        text += f" (there are {tasks} partitions: set minPartitions, or add an exchange after the source)"
    return Advice(outlook.name, Reason("add-executors", text), executors=executors, hosts=hosts, parallelism=widened)


def _relax(outlook: LongRun) -> Advice | None:
    latency_s = outlook.least_latency_s()
    if latency_s is None:
        return None
    text = f"{outlook.name}: {outlook.slots:.1f} slots can meet {latency_s:g} s for {_load(outlook)}"
    text += f", but not {outlook.goal}"
    return Advice(outlook.name, Reason("relax-objective", text), latency_s=latency_s)


def _send_less(outlook: LongRun) -> Advice:
    name, goal, rate = outlook.name, outlook.goal, outlook.largest_rate()
    if not rate:
        overhead_s = outlook.workload.cost.overhead_s
        text = f"{name}: no load is small enough for {goal}: even an empty batch takes {overhead_s:.2f} s"
        return Advice(name, Reason("batch-overhead", text))
    text = f"{name}: {outlook.slots:.1f} slots can meet {goal} up to {rate} rows/s"
    return Advice(name, Reason("send-less", text), rows_per_s=float(rate))


def _against_the_model(outlook: LongRun) -> tuple[Advice, ...]:
    """Missed although the model says there are enough slots. Only the measured latency can be reported."""
    seen_s = outlook.workload.latency_p99_s
    if seen_s is None or seen_s <= outlook.objective.latency_s:
        return ()
    if outlook.objective.percentile < _MEASURED_SHARE:
        return ()  # a tail beyond a bound for fewer rows is as it should be, and says nothing of the bound
    held_s = _round_up(seen_s)
    text = f"{outlook.name}: more slots would not help; 99 % of its rows are done within {held_s:g} s now"
    return (Advice(outlook.name, Reason("relax-objective", text), latency_s=held_s),)


def most_slots(evaluation: Evaluation) -> float:
    """Slots that the controller may use."""
    pool = evaluation.pool
    return float(evaluation.policy.executors.max * pool.slots_per_executor if pool.scalable else pool.slots)


def usable_slots(slots: float, tasks: int | None) -> float:
    """Slots that equal tasks can keep busy: `tasks / ⌈tasks / n⌉`.

    >>> [usable_slots(slots, tasks=8) for slots in (3, 4, 5, 9)]
    [2.6666666666666665, 4.0, 4.0, 8.0]
    """
    return slots if tasks is None or slots <= 0 else tasks / ceil(tasks / slots - _SLACK)


def executors_per_host(pool: ExecutorPool) -> int | None:
    """Executors on the fullest host, as far as visible."""
    return max(Counter(executor.host for executor in pool.executors).values(), default=None)


def _least(holds: Callable[[float], bool], most: float) -> float:
    """The smallest number from which `holds` is true, by bisection; infinity if it is false even at `most`."""
    if not holds(most):
        return inf
    low, high = 0.0, most
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def _load(outlook: LongRun) -> str:
    workload = outlook.workload
    return f"{workload.expected_rows_per_s:.0f} rows/s at {workload.cost.row_s * 1e3:.2f} ms"


def _round_up(value: float) -> float:
    """Round up to two digits: more would suggest a precision that the model does not have.

    >>> [_round_up(value) for value in (0.123, 4.51, 37.2)]
    [0.13, 4.6, 38.0]
    """
    unit = 10.0 ** (floor(log10(value)) - 1)
    return round(ceil(value / unit - _SLACK) * unit, 6)
