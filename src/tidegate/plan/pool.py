"""The size of the executor pool: every size is rolled out along the forecast, and the cheapest is chosen.

    J(n) = Σ over applications  W · (burn of the error budget)² · 4  +  executor-seconds  +  a little for the change

in executor-seconds, over a horizon of a few start-ups, averaged over the forecast's lower edge, mean and upper edge.
`burn` is the share of the error budget that the current window will have spent. W is the cost of the largest pool over
the horizon, so half a budget is worth any pool and a tenth of it is worth none. This uses the objective's slack: rows
that queue and still meet the objective cost nothing. The pool grows at once. It shrinks only after the smaller size has
been enough for a while, which is longer if it saves less: growing late costs the objective, shrinking late only costs
money. It never shrinks below what the bursts of the last half hour would have needed (`hindsight`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import accumulate
from math import ceil

import numpy as np

from tidegate.domain import Prediction, Proposal, Reason, ScaleExecutors
from tidegate.evaluate.evaluation import ApplicationEvaluation, Evaluation
from tidegate.evaluate.quality import USABLE
from tidegate.evaluate.table import Flags, Floats
from tidegate.model.rollout import Candidate, Outlook, rollout
from tidegate.plan.demand import busy_slots, path_of, query_of, room_for
from tidegate.plan.hindsight import UNMEASURED_STARTUP_S, Hindsight, look_back
from tidegate.plan.outcomes import Outcomes
from tidegate.plan.planner import Plan, Proposer
from tidegate.plan.price import price_of_lateness
from tidegate.plan.signature import alike, signature_of
from tidegate.plan.watched import Watched
from tidegate.plan.wording import account_of, executors, in_hindsight, long_batch, nothing_to_plan

CALM_EVERY_S = 15.0
"""Time between two looks while no application leaves its band. Forecasts and queues then change slowly."""
LOOK_EVERY_S = 5.0
"""Time between two looks if there are very many applications."""
_PRESSED_EVERY_S = 1.0
_STEP_S = 2.0
_LEAST_HORIZON_S, _MOST_HORIZON_S = 60.0, 300.0
_WEIGHTS = np.array([1 / 6, 2 / 3, 1 / 6])
"""Weights of the forecast's lower edge, mean and upper edge: three-point Gauss-Hermite quadrature. Its outer points lie
at √3 standard deviations, close to the edges of a 90 % interval.
"""
STARTUP_S, WARMUP_S, _WARMUP_SPEED = 8.0, 10.0, 0.5
"""Defaults until they have been measured."""
_LEAST_WATCH_S, _MOST_WATCH_S = 45.0, 1200.0
"""How long a smaller size has to be enough before the pool shrinks to it."""
_HOUR_S, USUAL_CHANGES = 3600.0, 4
"""A normal number of pool changes per hour. Each change beyond it makes the next one more expensive."""
_LARGE_STEP = 0.25
"""A step of at least this share of the pool is a large one."""
_AHEAD_S = 300.0
"""How far ahead to look when growing a pool that has already changed the usual number of times."""
_LONGEST_QUEUE_S = 1800.0
"""A queue that takes longer to clear counts as one that takes this long."""
_CHURN_S = 5.0
"""Executor-seconds that a change costs by itself, because of cold caches and moved state."""
_HOPELESS = 0.05
"""Share of rows over the objective above which a pool counts as too small."""
_FULL = 0.85
"""Utilisation that a pool can sustain; used to compute what a coming peak needs."""
_COMFORT = 0.8
"""Share of the objective that latencies may reach, at the forecast's upper edge, in a pool to shrink to. A size that
only just holds the objective would soon be given up again.
"""
_MOST_SIZES = 24
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
    """The inputs of the last rollout."""
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

    def watch(self, evaluation: Evaluation) -> None:
        """Roll out the sizes when a look is due. The result depends only on observations."""
        memory, now_s, pool = self.memory, evaluation.time_s, evaluation.pool
        self._learn_startup(evaluation)
        self._count_changes(evaluation)
        self._rolled_out = 0
        if not np.count_nonzero(evaluation.usable) or not pool.slots:
            memory.outcomes = None
            return
        pressed = _pressed(evaluation)
        # Among very many applications some always press, and none of them decides the size alone, so there is no hurry.
        few = len(evaluation.samples) <= _FEW
        pressed_every_s = _PRESSED_EVERY_S if few else LOOK_EVERY_S
        every_s = pressed_every_s if np.count_nonzero(pressed) else CALM_EVERY_S
        if memory.outcomes is not None and now_s - memory.looked_s < every_s:
            return
        looked_into = _worth_a_look(evaluation, pressed)
        memory.looked_s = now_s
        if now_s - memory.looked_back_s >= CALM_EVERY_S:
            startup_s = memory.startup_s if memory.startups else UNMEASURED_STARTUP_S
            memory.hindsight = look_back(evaluation, looked_into, startup_s, WARMUP_S)
            memory.looked_back_s = now_s
        signature = signature_of(evaluation, looked_into, WARMUP_S)
        if memory.outcomes is None or not alike(signature, memory.signature):
            memory.outcomes, memory.signature = self._roll_out(evaluation, looked_into), signature
            self._rolled_out = len(looked_into)
        best = memory.outcomes.sizes[int(np.argmin(memory.outcomes.cost))]
        # The pool grows to the best size and shrinks to the comfortable one. Between the two it stays.
        wanted = max(best, min(memory.outcomes.comfortable, pool.requested))
        memory.watched.note(now_s, wanted, _lasting_size(evaluation), _LEAST_WATCH_S)

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
        limited = [seen.name for seen in usable if _limit_binds(seen)]
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

        Half of the pool is given up after three start-ups; one executor of eight is watched four times as long. A size
        that has repeatedly been too small is within the noise, so it is watched longer each time. If the pool has
        changed often, small steps wait until they add up to a large one.
        """
        memory, saved = self.memory, (now - size) / now
        base_s = max(_LEAST_WATCH_S, 3.0 * (memory.startup_s + WARMUP_S))
        restless = max(1.0, len(memory.changed) / USUAL_CHANGES) if saved < _LARGE_STEP else 1.0
        return min(base_s * max(1.0, 0.5 / saved) * restless**2 * max(1, memory.watched.returns(size)), _MOST_WATCH_S)

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

    def _roll_out(self, evaluation: Evaluation, usable: list[ApplicationEvaluation]) -> Outcomes:
        pool, horizon_s = evaluation.pool, self._horizon_s(usable)
        steps, lead_s = round(horizon_s / _STEP_S), self.memory.startup_s + WARMUP_S
        sizes = self._sizes(evaluation, usable)
        paths = self._slot_paths(evaluation, sizes, steps)
        worth = evaluation.policy.executors.max * horizon_s
        held = np.array([path.sum() * _STEP_S for _, path in paths]) / pool.slots_per_executor
        churn = np.array([_CHURN_S * (size != pool.requested) for size in sizes])
        cost = held + churn
        late: dict[str, list[float]] = {}
        p99_s: dict[str, list[float]] = {}
        comfortable = np.ones(len(sizes), dtype=np.bool_)
        for seen in usable:
            candidates = [
                Candidate(
                    slots,
                    None if seen.sample.gated else seen.sample.admission_rows,  # a gate's limit follows the pool
                    share=room_for(seen.place, evaluation, size * pool.slots_per_executor),
                    held=paid,
                )
                for size, (slots, paid) in zip(sizes, paths, strict=True)
            ]
            arrivals = path_of(seen, steps, _STEP_S, lead_s)
            found = rollout(query_of(seen, evaluation.time_s), arrivals, candidates, horizon_s, _STEP_S)
            late_rows = found.late_rows + _late_afterwards(found, arrivals[:, -1], seen.objective.latency_s)
            cost = cost + worth * price_of_lateness(seen, evaluation, late_rows, found.rows) @ _WEIGHTS
            late[seen.name] = (found.late_share @ _WEIGHTS).tolist()
            p99_s[seen.name] = (found.p99_s @ _WEIGHTS).tolist()
            comfortable &= found.percentile_s[:, -1] <= _COMFORT * seen.objective.latency_s
        least = next((size for size, room in zip(sizes, comfortable, strict=True) if room), sizes[-1])
        peak = self._peak_size(evaluation, usable)
        return Outcomes(list(sizes), cost.tolist(), late, p99_s, horizon_s, peak, least)

    def _sizes(self, evaluation: Evaluation, usable: list[ApplicationEvaluation]) -> tuple[int, ...]:
        """All sizes if there are few, otherwise those near the current one and those that the load needs."""
        pool = evaluation.pool
        least, most = evaluation.executor_bounds
        if most - least < _MOST_SIZES:
            return tuple(range(least, most + 1))
        now = pool.requested
        total = float(evaluation.busy_slots.sum())
        asked = [ceil(total / share / pool.slots_per_executor) for share in (1.0, 0.85, 0.6)]
        near = (*range(now - 4, now + 7), ceil(1.5 * now), 2 * now, *asked, self._peak_size(evaluation, usable))
        return tuple(sorted({min(max(size, least), most) for size in near}))

    def _slot_paths(self, evaluation: Evaluation, sizes: tuple[int, ...], steps: int) -> list[tuple[Floats, Floats]]:
        """Usable and paid slots of each size, including executors that are starting or warming up."""
        pool, now_s, startup_s = evaluation.pool, evaluation.time_s, self.memory.startup_s
        ends_s = np.arange(1, steps + 1, dtype=np.float64) * _STEP_S
        there = [_speed(ends_s, since_s - now_s) for since_s in sorted([one.since_s for one in pool.executors])]
        oldest = list(accumulate(there, initial=np.zeros(steps)))
        """Combined speed of the oldest executors, by their number. The oldest are kept longest."""
        on_their_way, new = _speed(ends_s, startup_s / 2), _speed(ends_s, startup_s)
        found = []
        for size in sizes:
            staying = min(max(size, 0), len(there))
            coming = max(0, min(size, pool.requested) - staying)
            usable = oldest[staying] + coming * on_their_way + max(0, size - staying - coming) * new
            paid = np.full(steps, float(size * pool.slots_per_executor))
            found.append((usable * pool.slots_per_executor, paid))
        return found

    def _horizon_s(self, usable: list[ApplicationEvaluation]) -> float:
        longest_s = max(seen.objective.latency_s for seen in usable)
        wished_s = max(3 * (self.memory.startup_s + WARMUP_S), 2 * longest_s, _LEAST_HORIZON_S)
        return _STEP_S * ceil(min(wished_s, _MOST_HORIZON_S) / _STEP_S)

    def _peak_size(self, evaluation: Evaluation, usable: list[ApplicationEvaluation]) -> int:
        """Executors needed to sustain the highest load within the forecasts' horizon."""
        slots = float(evaluation.busy_slots.sum())
        for seen in usable:
            if seen.path is not None and seen.path.trusted:
                slots += max(0.0, busy_slots(seen, float(seen.path.mean.max())) - busy_slots(seen))
        slots /= _FULL
        least, most = evaluation.executor_bounds
        return min(max(ceil(slots / evaluation.pool.slots_per_executor - 1e-6), least), most)

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


def _lasting_size(evaluation: Evaluation) -> int:
    """Executors that the load needs without the backlog. Anything beyond that is needed only for a while."""
    return ceil(float(evaluation.busy_slots.sum()) / _FULL / evaluation.pool.slots_per_executor - 1e-6)


def _late_afterwards(found: Outlook, arrivals: Floats, objective_s: float) -> Floats:
    """Rows that arrive after the horizon and are over the objective because an old queue must be cleared first."""
    old = np.clip(found.oldest_end_s / objective_s - 0.5, 0.0, 1.0)
    spare = found.sustained_rows_per_s - arrivals
    clearing_s = np.minimum(found.backlog_end_rows / np.maximum(spare, 1e-9), _LONGEST_QUEUE_S)
    # A queue that never clears keeps growing, so the size with the slowest growth is still the best.
    growth = 1.0 + np.maximum(-spare, 0.0) / np.maximum(arrivals, 1e-9)
    return np.asarray(old * (found.backlog_end_rows + arrivals * clearing_s * growth))


def _speed(ends_s: Floats, registers_s: float) -> Floats:
    """Speed of one executor at each step: zero before it registers, half while it warms up."""
    return np.where(ends_s <= registers_s, 0.0, np.where(ends_s <= registers_s + WARMUP_S, _WARMUP_SPEED, 1.0)).astype(
        np.float64
    )


def _pressed(evaluation: Evaluation) -> Flags:
    """Applications outside their band, for which every second counts."""
    loads = evaluation.loads
    usual = loads.arrival * (evaluation.status.interval_s + loads.last_batch_s)
    behind = loads.pending > 2.0 * usual + loads.arrival
    rising = loads.expected > 1.1 * loads.arrival
    slow = loads.p99_s > 0.7 * evaluation.promises.latency_s
    return np.asarray(evaluation.usable & (behind | rising | slow))


def _worth_a_look(evaluation: Evaluation, pressed: Flags) -> list[ApplicationEvaluation]:
    """All applications if there are few, otherwise the most pressing and the largest."""
    places = np.flatnonzero(evaluation.usable)
    most = _MOST_ROLLED_OUT if len(places) <= _FEW else _ROLLED_OUT_OF_MANY
    if len(places) > most:
        urgency = np.where(evaluation.usable, np.where(pressed, 1e9, 0.0) + evaluation.busy_slots, -1.0)
        places = np.sort(np.argpartition(urgency, -most)[-most:])
        evaluation.expected.prepare(places.tolist())
    return [evaluation.of(place) for place in places.tolist()]


def _limit_binds(seen: ApplicationEvaluation) -> bool:
    limit, workload = seen.sample.admission_rows, seen.workload
    return limit is not None and workload is not None and workload.pending_rows > 1.5 * limit


def _prediction(seen: ApplicationEvaluation, evaluation: Evaluation, outcomes: Outcomes, size: int) -> Prediction:
    at = outcomes.at(size)
    return Prediction(
        application=seen.name,
        due_s=evaluation.time_s + outcomes.horizon_s,
        p99_s=round(outcomes.p99_s[seen.name][at], 3),
        late_share=round(outcomes.late_share[seen.name][at], 5),
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
