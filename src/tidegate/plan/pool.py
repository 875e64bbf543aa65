"""The size of the executor pool: every size is rolled out along the forecast, and the cheapest is chosen (`outcomes`).

The pool grows at once. It shrinks only after the smaller size has been enough for a while, which is longer if it saves
less: growing late costs the objective, shrinking late only costs money. It never shrinks below what the bursts of the
last half hour would have needed (`hindsight`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import ceil

import numpy as np

from tidegate.domain import Prediction, Proposal, Reason, ScaleExecutors
from tidegate.evaluate.evaluation import ApplicationEvaluation, Evaluation
from tidegate.evaluate.quality import USABLE
from tidegate.evaluate.table import Flags
from tidegate.plan.demand import busy_slots, room_for
from tidegate.plan.hindsight import UNMEASURED_STARTUP_S, Hindsight, look_back
from tidegate.plan.outcomes import Outcomes, lasting_size, roll_out
from tidegate.plan.planner import Plan, Proposer
from tidegate.plan.requirements import missing_rows
from tidegate.plan.signature import alike, goals_of, signature_of
from tidegate.plan.watched import Watched
from tidegate.plan.wording import account_of, executors, in_hindsight, long_batch, nothing_to_plan

CALM_EVERY_S = 15.0
"""Time between two looks while no application leaves its band. Forecasts and queues then change slowly."""
LOOK_EVERY_S = 5.0
"""Time between two looks if there are very many applications, or while a smaller pool is being considered."""
_PRESSED_EVERY_S = 1.0
STARTUP_S = 8.0
"""How long an executor takes to register, until it has been measured."""
_LEAST_WATCH_S, _MOST_WATCH_S = 20.0, 600.0
"""How long a smaller size has to be enough before the pool shrinks to it."""
_GAP_S = 45.0
"""After a gap between two looks that is longer than this, the watch begins again."""
_HOUR_S, USUAL_CHANGES = 3600.0, 4
"""A normal number of pool changes per hour. Each change beyond it makes the next one more expensive."""
_LARGE_STEP = 0.25
"""A step of at least this share of the pool is a large one."""
_AHEAD_S = 300.0
"""How far ahead to look when growing a pool that has already changed the usual number of times."""
_HOPELESS = 0.05
"""Share of rows over the objective above which a pool counts as too small."""
_FEW = 64
"""Up to this many applications, those outside their band are examined every second."""
_MOST_ROLLED_OUT, _ROLLED_OUT_OF_MANY = 8, 3
"""Applications whose sizes are rolled out in one step."""


@dataclass(slots=True)
class PoolMemory:
    """Sizes recently wanted, the result of the last look, and how long executors take to register here."""

    watched: Watched = field(default_factory=Watched)
    looked_s: float = -1e9
    outcomes: Outcomes | None = None
    signature: list[float] = field(default_factory=list)
    """The measurements behind the last rollout."""
    goals: str = ""
    """What it was made for."""
    startup_s: float = STARTUP_S
    asked: tuple[float, int] | None = None
    """When a request for more executors than registered was first seen, and how many were registered then."""
    startups: int = 0
    """Number of start-ups measured."""
    requested: int | None = None
    changed: list[float] = field(default_factory=list)
    """When the requested number of executors changed, in the last hour."""
    grown_s: float = -1e9
    """When it last grew."""
    looked_back_s: float = -1e9
    hindsight: Hindsight = field(default_factory=Hindsight)
    """The size that recent bursts would have needed."""


class PoolSize(Proposer):
    """Chooses the number of executors that costs least, including the price of rows over the objective."""

    name = "pool"

    def __init__(self, memory: PoolMemory | None = None) -> None:
        self.memory: PoolMemory = memory or PoolMemory()
        self._rolled_out = 0
        self._warmup_s = 0.0

    def watch(self, evaluation: Evaluation) -> None:
        """Roll out the sizes when a look is due. The result depends only on observations."""
        memory, now_s, pool = self.memory, evaluation.time_s, evaluation.pool
        self._learn_startup(evaluation)
        self._count_changes(evaluation)
        self._rolled_out, self._warmup_s = 0, pool.warmup_s
        if not np.count_nonzero(evaluation.usable) or not pool.slots:
            memory.outcomes = None
            return
        pressed = _pressed(evaluation)
        # Among very many applications some always press, and none of them decides the size alone, so there is no hurry.
        few = len(evaluation.samples) <= _FEW
        pressed_every_s = _PRESSED_EVERY_S if few else LOOK_EVERY_S
        every_s = pressed_every_s if np.count_nonzero(pressed) else CALM_EVERY_S
        if memory.watched.wanted is not None and memory.watched.wanted < pool.requested:
            every_s = min(every_s, LOOK_EVERY_S)  # executors that are not needed are paid for until the next look
        if memory.outcomes is not None and now_s - memory.looked_s < every_s:
            return
        looked_into = _worth_a_look(evaluation, pressed)
        memory.looked_s = now_s
        if now_s - memory.looked_back_s >= CALM_EVERY_S:
            startup_s = memory.startup_s if memory.startups else UNMEASURED_STARTUP_S
            memory.hindsight = look_back(evaluation, looked_into, startup_s)
            memory.looked_back_s = now_s
        signature, goals = signature_of(evaluation, looked_into), goals_of(evaluation, looked_into)
        if memory.outcomes is None or goals != memory.goals or not alike(signature, memory.signature):
            memory.outcomes = roll_out(evaluation, looked_into, memory.startup_s)
            memory.signature, memory.goals = signature, goals
            self._rolled_out = len(looked_into)
        best = memory.outcomes.sizes[int(np.argmin(memory.outcomes.cost))]
        # The pool grows to the best size and shrinks to the comfortable one. Between the two it stays.
        wanted = max(best, min(memory.outcomes.comfortable, pool.requested))
        memory.watched.note(now_s, wanted, lasting_size(evaluation), _GAP_S)

    def propose(self, evaluation: Evaluation) -> Plan:
        outcomes, memory, pool = self.memory.outcomes, self.memory, evaluation.pool
        outside = _outside_bounds(evaluation)
        if outside is not None:
            return Plan((outside,), (outside.reason,), rolled_out=self._rolled_out)
        wanted = memory.watched.wanted
        if outcomes is None or wanted is None:
            return Plan(reasons=(nothing_to_plan(evaluation),))
        now = outcomes.sizes[outcomes.at(pool.requested)]
        places = [evaluation.places[name] for name in outcomes.late_share if name in evaluation.places]
        looked_into = [evaluation.of(place) for place in places if evaluation.usable[place]]
        if not looked_into:
            return Plan(reasons=(nothing_to_plan(evaluation),))
        size, reason = self._choose(evaluation, looked_into, now, wanted)
        predictions = tuple([_prediction(seen, evaluation, outcomes, size) for seen in looked_into])
        proposals = () if size == pool.requested else (Proposal(ScaleExecutors(size), reason),)
        needed = {seen.name: busy_slots(seen) for seen in looked_into}
        return Plan(proposals, (reason,), needed, predictions, self._rolled_out)

    def _choose(
        self,
        evaluation: Evaluation,
        usable: list[ApplicationEvaluation],
        now: int,
        wanted: int,
    ) -> tuple[int, Reason]:
        outcomes = self.memory.outcomes
        assert outcomes is not None
        least, keep = self.memory.hindsight.least, self.memory.hindsight.keep
        if least is not None and least.size > max(now, wanted):
            size = min(least.size, evaluation.executor_bounds[1])
            return size, Reason("grow-hindsight", f"{in_hindsight(least)}: growing from {now} to {executors(size)}")
        account = account_of(usable, outcomes, now, wanted, evaluation.pool.slots_per_executor)
        account += long_batch(usable, evaluation.time_s)
        if wanted > now:
            size = self._far_enough(evaluation, usable, wanted)
            more = f" ({wanted} are enough now, but the pool has changed {len(self.memory.changed)} times in an hour)"
            text = f"growing from {now} to {executors(size)}{more if size > wanted else ''}"
            return size, Reason("grow", f"{account}: {text}")
        if wanted == now:
            most = evaluation.executor_bounds[1]
            late = max(outcomes.late_share[seen.name][outcomes.at(now)] for seen in usable)
            if now == most and late > _HOPELESS:
                return now, Reason("hold-short", f"{account}; the maximum of {executors(most)} is reached")
            return now, Reason("hold-fits", account)
        blind = np.flatnonzero(evaluation.planned & (evaluation.codes != USABLE))
        if len(blind):
            text = f"{evaluation.samples[int(blind[0])].name} cannot be observed: not shrinking"
            return now, Reason("hold-blind", text)
        enough = self._enough(now, wanted)
        if enough == now:
            text = (
                f"{account}: {executors(wanted)} would be enough, but only for {self._enough_for_s(wanted):.0f} of the "
                f"required {self._watch_s(now, wanted):.0f} s so far"
            )
            return now, Reason("hold-watching", text)
        slots = enough * evaluation.pool.slots_per_executor
        limited = [seen.name for seen in usable if _limit_binds(seen, slots * room_for(seen.place, evaluation, slots))]
        if limited:
            return now, Reason("hold-limited", f"an admission limit holds back rows of {limited[0]}: not shrinking")
        if outcomes.peak > enough:
            enough = min(now, outcomes.peak)
            if enough == now:
                text = f"{account}: a peak that needs {executors(outcomes.peak)} is expected: not shrinking before it"
                return now, Reason("hold-peak", text)
        if keep is not None and keep.size > enough:
            enough = min(now, keep.size)
            if enough == now:
                return now, Reason("hold-hindsight", f"{account}; {in_hindsight(keep)}: not shrinking")
        watched = f"{executors(enough)} would have been enough for the last {self._watch_s(now, enough):.0f} s"
        text = f"{account}: {watched}, shrinking from {now} to {enough}"
        return enough, Reason("shrink", text)

    def _watch_s(self, now: int, size: int) -> float:
        """How long a smaller size must have been enough: longer if it saves less, so that all waits cost the same.

        Half of the pool is given up after three start-ups; one executor of eight is watched four times as long. Where
        executors register at once, their warm-up decides, because that is what a wrong shrink costs. A size that has
        repeatedly been too small is within the noise, so it is watched longer each time. If the pool has changed often,
        small steps wait until they add up to a large one.
        """
        memory, saved = self.memory, (now - size) / now
        base_s = max(_LEAST_WATCH_S, 4.5 * self._warmup_s, 3.0 * (memory.startup_s + self._warmup_s))
        restless = max(1.0, len(memory.changed) / USUAL_CHANGES) if saved < _LARGE_STEP else 1.0
        return min(base_s * max(1.0, 0.5 / saved) * restless * max(1, memory.watched.returns(size)), _MOST_WATCH_S)

    def _far_enough(self, evaluation: Evaluation, usable: list[ApplicationEvaluation], wanted: int) -> int:
        """The size to grow to, so that the next growth is not due at once.

        For a calm pool this is what is needed now. The more often the pool has changed recently, the further ahead it
        looks along the forecast.
        """
        span_s = _AHEAD_S * min(1.0, len(self.memory.changed) / USUAL_CHANGES)
        if span_s < _AHEAD_S / 2:
            return wanted
        rise = 1.0
        for seen in usable:
            if seen.path is not None and seen.workload is not None:
                steps = max(1, round(min(span_s, seen.path.horizon_s) / seen.path.step_s))
                expected = max(seen.workload.expected_rows_per_s, float(seen.path.mean[0]), 1e-9)
                rise = max(rise, float(seen.path.mean[:steps].max()) / expected)
        return max(wanted, min(ceil(wanted * rise - 0.5), evaluation.executor_bounds[1]))

    def _count_changes(self, evaluation: Evaluation) -> None:
        memory, now_s, requested = self.memory, evaluation.time_s, evaluation.pool.requested
        if memory.requested is not None and requested != memory.requested:
            memory.changed.append(now_s)
            if requested > memory.requested:
                memory.grown_s = now_s
        memory.requested = requested
        memory.changed = [time_s for time_s in memory.changed if now_s - _HOUR_S < time_s <= now_s]

    def _enough(self, now: int, wanted: int) -> int:
        """The smallest size that has been enough for as long as required, or the current size if there is none."""
        return next((size for size in range(wanted, now) if self._enough_for_s(size) >= self._watch_s(now, size)), now)

    def _enough_for_s(self, size: int) -> float:
        """Counted from the last growth at the earliest: executors bought in advance are not given back at once."""
        watched = self.memory.watched
        return min(watched.enough_for_s(size), watched.looked_s - self.memory.grown_s)

    def _learn_startup(self, evaluation: Evaluation) -> None:
        memory, pool, now_s = self.memory, evaluation.pool, evaluation.time_s
        if pool.requested <= pool.registered:
            if memory.asked is not None and pool.registered > memory.asked[1]:
                memory.startups += 1
                pace = max(0.3, 1 / memory.startups)  # the first measurement replaces the default
                memory.startup_s += pace * (now_s - memory.asked[0] - memory.startup_s)
            memory.asked = None
        elif memory.asked is None:
            memory.asked = (now_s, pool.registered)


def _pressed(evaluation: Evaluation) -> Flags:
    """Applications outside their band, for which every second counts."""
    loads = evaluation.loads
    usual = loads.arrival * (evaluation.status.interval_s + loads.last_batch_s)
    behind = loads.pending > 2.0 * usual + loads.arrival
    rising = loads.expected > 1.1 * loads.arrival
    slow = loads.p99_s > 0.7 * evaluation.promises.latency_s
    pressed = np.asarray(evaluation.usable & (behind | rising | slow))
    for place, _ in missing_rows(evaluation):
        pressed[place] = True
    return pressed


def _worth_a_look(evaluation: Evaluation, pressed: Flags) -> list[ApplicationEvaluation]:
    """All applications if there are few, otherwise the most pressing and the largest."""
    places = np.flatnonzero(evaluation.usable)
    most = _MOST_ROLLED_OUT if len(places) <= _FEW else _ROLLED_OUT_OF_MANY
    if len(places) > most:
        urgency = np.where(evaluation.usable, np.where(pressed, 1e9, 0.0) + evaluation.busy_slots, -1.0)
        places = np.sort(np.argpartition(urgency, -most)[-most:])
        evaluation.expected.prepare(places.tolist())
    return [evaluation.of(place) for place in places.tolist()]


def _limit_binds(seen: ApplicationEvaluation, slots: float) -> bool:
    """Whether rows are held back that more than these slots could process: there is a task for every slot."""
    limit, workload = seen.sample.admission_rows, seen.workload
    if limit is None or workload is None or workload.pending_rows <= 1.5 * limit:
        return False
    return workload.parallelism is None or workload.parallelism > slots


def _prediction(seen: ApplicationEvaluation, evaluation: Evaluation, outcomes: Outcomes, size: int) -> Prediction:
    at, name = outcomes.at(size), seen.name
    # Outcomes that an earlier version saved cover the whole horizon.
    late_share = outcomes.early_late_share.get(name, outcomes.late_share[name])
    return Prediction(
        application=name,
        due_s=evaluation.time_s + outcomes.judged_s.get(name, outcomes.horizon_s),
        p99_s=round(outcomes.p99_s[name][at], 3),
        late_share=round(late_share[at], 5),
        executors=size,
    )


def _outside_bounds(evaluation: Evaluation) -> Proposal | None:
    """Bounds apply whatever the load: after a schedule starts, a budget is spent, or the policy changes."""
    least, most = evaluation.executor_bounds
    now = evaluation.pool.requested
    if least <= now <= most or not evaluation.pool.scalable or not evaluation.samples:
        return None
    size = least if now < least else most
    if now < least == evaluation.real_time_executors:
        slots = sum(sample.held_slots or 0 for sample in evaluation.samples)
        text = f"real-time queries run {slots} tasks at once: going from {now} to {executors(least)}"
        return Proposal(ScaleExecutors(size), Reason("real-time", text))
    text = f"{executors(now)} requested, {least} to {most} allowed now: going to {size}"
    return Proposal(ScaleExecutors(size), Reason("bounds", text))
