"""What each pool size would lead to: every size is rolled out along the forecast, and gets a cost.

    J(n) = Σ over applications  W · (burn of the error budget)² · 4  +  executor-seconds  +  a little for the change

in executor-seconds, over a horizon of a few start-ups, averaged over the forecast's lower edge, mean and upper edge.
`burn` is the share of the error budget that the current window will have spent. W is the cost of the largest pool over
the horizon, so half a budget is worth any pool and a tenth of it is worth none. This uses the objective's slack: rows
that queue and still meet the objective cost nothing.

A row of a QoS table tightens the objective: the dearer of the two counts. Utility that is lost according to QoS graphs
is added, and a whole utility costs W (`requirements`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import accumulate
from math import ceil
from operator import attrgetter

import numpy as np

from tidegate.evaluate.evaluation import ApplicationEvaluation, Evaluation
from tidegate.evaluate.table import Flags, Floats
from tidegate.model.rollout import Candidate, Outlook, rollout
from tidegate.plan.demand import busy_slots, path_of, query_of, room_for
from tidegate.plan.price import price_of_lateness, price_of_row, price_of_utility
from tidegate.plan.requirements import CountedRow, requirements_of

_STEP_S = 2.0
_LEAST_HORIZON_S, _MOST_HORIZON_S = 60.0, 300.0
_WEIGHTS = np.array([1 / 6, 2 / 3, 1 / 6])
"""Weights of the forecast's lower edge, mean and upper edge: three-point Gauss-Hermite quadrature. Its outer points lie
at √3 standard deviations, close to the edges of a 90 % interval.
"""
_WARMUP_SPEED = 0.5
"""Of an executor that is cold."""
_LONGEST_QUEUE_S = 1800.0
"""A queue that takes longer to clear counts as one that takes this long."""
_CHURN_S = 5.0
"""Executor-seconds that a change costs by itself, because of cold caches and moved state."""
_FULL = 0.95
"""Utilisation that a pool can sustain; used to compute what a coming peak needs."""
_LONGEST_BATCH = 1 / 3
"""Share of the objective that a batch may take."""
_COMFORT = 0.8
"""Share of the objective that latencies may reach, at the forecast's upper edge, in a pool to shrink to. A size that
only just holds the objective would soon be given up again.
"""
_MOST_OF_IT = 0.25
"""Part of a tight bound's margin that a pool to shrink to may use up."""
_MOST_SIZES = 24
_UNCERTAIN = 0.2
"""Beyond saturation, predictions are off by up to this share."""
_NO_HELP = 0.01
"""Share of the error budget. If a growth makes a smaller difference to an application, it is not made for it."""
_JUDGED_S, _JUDGED_BATCHES = 10.0, 3
"""A prediction covers the start of new executors, and then this long or as many batches, whichever is longer. A pool
that changes often would void predictions for the whole horizon before they fall due.
"""


@dataclass(slots=True)
class RowOutcome:
    """What a row of a QoS table would come to: one value per size."""

    application: str
    row: str
    over_share: list[float]
    """Expected share of rows over its bound."""
    price: list[float]
    """Its price, in costs of the largest pool."""


@dataclass(slots=True)
class Outcomes:
    """The outcome of each size: one value per size."""

    sizes: list[int]
    cost: list[float]
    late_share: dict[str, list[float]]
    """By application: expected share of rows over the objective."""
    p99_s: dict[str, list[float]]
    """Of the rows that wait now or arrive within `judged_s`. Only predictions use it."""
    horizon_s: float
    peak: int = 0
    """Executors needed for the highest expected load."""
    comfortable: int = 0
    """The smallest size that holds the objective with a margin, as far as slots decide that."""
    early_late_share: dict[str, list[float]] = field(default_factory=dict)
    """Share of the same rows over the objective."""
    judged_s: dict[str, float] = field(default_factory=dict)
    """By application: how far ahead predictions look."""
    rows: list[RowOutcome] = field(default_factory=list)
    utility: dict[str, list[float]] = field(default_factory=dict)
    """By application with QoS graphs: their expected mean utility."""
    worthwhile: int = 0
    """The size that the QoS graphs alone justify; 0 without any."""

    def at(self, size: int) -> int:
        """Index of this size or of the closest one. If there are very many sizes, only some are rolled out."""
        if size in self.sizes:
            return self.sizes.index(size)
        return min(range(len(self.sizes)), key=lambda place: abs(self.sizes[place] - size))

    def helped_by(self, now: int, target: int, budgets: Mapping[str, float]) -> set[str]:
        """The applications that need the growth: at the target size fewer of their rows are over an objective or bound.

        `budgets` are the shares of rows that may be over. There may be no such application: then the growth is for what
        comes after the horizon.

        >>> late = {"orders": [0.4, 0.0], "reports": [0.2, 0.2]}
        >>> Outcomes([1, 2], [9.0, 1.0], late, {}, 60.0).helped_by(1, 2, {"orders": 0.01, "reports": 0.01})
        {'orders'}
        """
        before, after = self.at(now), self.at(target)
        over = [*self.late_share.items(), *((row.application, row.over_share) for row in self.rows)]
        return {name for name, share in over if share[after] < share[before] - _NO_HELP * budgets.get(name, 1.0)}


def roll_out(evaluation: Evaluation, usable: list[ApplicationEvaluation], startup_s: float) -> Outcomes:
    """Predict every size for these applications, where executors take `startup_s` to register."""
    pool, lead_s = evaluation.pool, startup_s + evaluation.pool.warmup_s
    horizon_s = _horizon_s(usable, lead_s)
    steps = round(horizon_s / _STEP_S)
    sizes = _sizes(evaluation, usable)
    paths = _slot_paths(evaluation, sizes, steps, startup_s)
    worth = evaluation.policy.executors.max * horizon_s
    held = np.array([path.sum() * _STEP_S for _, path in paths]) / pool.slots_per_executor
    churn = np.array([_CHURN_S * (size != pool.requested) for size in sizes])
    cost = held + churn
    late: dict[str, list[float]] = {}
    early_late: dict[str, list[float]] = {}
    p99_s: dict[str, list[float]] = {}
    judged_s = {seen.name: _judged_s(seen, lead_s, horizon_s) for seen in usable}
    comfortable = np.ones(len(sizes), dtype=np.bool_)
    rows: list[RowOutcome] = []
    utility: dict[str, list[float]] = {}
    lost = held + churn
    for seen in usable:
        needs = requirements_of(seen, evaluation)
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
        query = needs.asked_of(query_of(seen, evaluation.time_s))
        found = rollout(query, arrivals, candidates, horizon_s, _STEP_S, early_s=judged_s[seen.name])
        late_rows = found.late_rows + _late_afterwards(found, arrivals[:, -1], seen.objective.latency_s)
        price = price_of_lateness(seen, evaluation, late_rows, found.rows)
        own_slots = np.array([one.share * size for one, size in zip(candidates, sizes, strict=True)])
        roomy = np.flatnonzero(own_slots * pool.slots_per_executor >= _tasks(seen))
        for number, row in enumerate(needs.rows):
            over_rows = found.over_share[number] * found.rows
            over_rows = over_rows + _late_afterwards(found, arrivals[:, -1], row.bound_s)
            of_row = price_of_row(row, seen, evaluation, over_rows, found.rows)
            price = np.maximum(price, of_row)
            over_share = (found.over_share[number] @ _WEIGHTS).tolist()
            rows.append(RowOutcome(seen.name, str(row.row), over_share, (of_row @ _WEIGHTS).tolist()))
            comfortable &= _comfortable(row, found.at_share_s[number][:, -1])
        price[roomy] = _alike(price[roomy])
        cost = cost + worth * price @ _WEIGHTS
        if needs.graphs:
            settled = [
                replace(one, slots=np.full(steps, float(size * pool.slots_per_executor)), held=None)
                for size, one in zip(sizes, candidates, strict=True)
            ]
            gained = needs.long_run_utility(query, arrivals, settled, _STEP_S)
            loss = worth * price_of_utility(gained, seen, evaluation) @ _WEIGHTS
            cost, lost = cost + loss, lost + loss
            utility[seen.name] = (gained @ _WEIGHTS).tolist()
        late[seen.name] = (found.late_share @ _WEIGHTS).tolist()
        early_late[seen.name] = (found.early_late_share @ _WEIGHTS).tolist()
        p99_s[seen.name] = (found.early_p99_s @ _WEIGHTS).tolist()
        upper_s = found.percentile_s[:, -1]
        room = upper_s <= _COMFORT * seen.objective.latency_s
        if not room.any():
            room[roomy] = upper_s[roomy] <= (1 + _UNCERTAIN) * upper_s.min()
        comfortable &= room
    least = next((size for size, room in zip(sizes, comfortable, strict=True) if room), sizes[-1])
    peak = _peak_size(evaluation, usable)
    worthwhile = sizes[int(np.argmin(lost))] if utility else 0
    return Outcomes(
        list(sizes), cost.tolist(), late, p99_s, horizon_s, peak, least, early_late, judged_s, rows, utility, worthwhile
    )


def _tasks(seen: ApplicationEvaluation) -> float:
    """Tasks of its busiest operator. More slots for it than these hardly help."""
    return (seen.workload.parallelism if seen.workload is not None else None) or np.inf


def _alike(price: Floats) -> Floats:
    """The prices of sizes with a slot for every task: that of the smallest, unless another is clearly better.

    Executors that do not relieve a bottleneck are not bought for a difference that the model cannot tell from nothing.

    >>> _alike(np.array([[10.0, 4.0], [9.0, 4.0], [7.0, 3.0]])).tolist()
    [[10.0, 4.0], [10.0, 4.0], [7.0, 3.0]]
    """
    return np.where(price >= (1 - _UNCERTAIN) * price[:1], price[:1], price)


def _comfortable(row: CountedRow, latency_s: Floats) -> Flags:
    """Sizes that hold the row with a margin or, if its bound is tight, with most of the margin that is possible.

    A row that no size can hold keeps no executors.
    """
    least_s, comfort_s = float(latency_s.min()), _COMFORT * row.bound_s
    if least_s > row.bound_s:
        return np.ones(len(latency_s), dtype=np.bool_)
    tight_s = least_s + _MOST_OF_IT * (row.bound_s - least_s)
    return np.asarray(latency_s <= (comfort_s if least_s <= comfort_s else tight_s))


def _sizes(evaluation: Evaluation, usable: list[ApplicationEvaluation]) -> tuple[int, ...]:
    """All sizes if there are few, otherwise those near the current one and those that the load needs."""
    pool = evaluation.pool
    least, most = evaluation.executor_bounds
    if most - least < _MOST_SIZES:
        return tuple(range(least, most + 1))
    now = pool.requested
    total = float(evaluation.busy_slots.sum())
    asked = [ceil(total / share / pool.slots_per_executor) for share in (1.0, 0.85, 0.6)]
    near = (*range(now - 4, now + 7), ceil(1.5 * now), 2 * now, *asked, _peak_size(evaluation, usable))
    return tuple(sorted({min(max(size, least), most) for size in near}))


def _slot_paths(
    evaluation: Evaluation, sizes: tuple[int, ...], steps: int, startup_s: float
) -> list[tuple[Floats, Floats]]:
    """Usable and paid slots of each size, including executors that are starting or warming up."""
    pool, now_s = evaluation.pool, evaluation.time_s
    ends_s = np.arange(1, steps + 1, dtype=np.float64) * _STEP_S
    speed = partial(_speed, ends_s, warmup_s=pool.warmup_s)
    there = [speed(one.since_s - now_s) for one in sorted(pool.executors, key=attrgetter("since_s"))]
    oldest = list(accumulate(there, initial=np.zeros(steps)))
    """Combined speed of the oldest executors, by their number. The oldest are kept longest."""
    on_their_way, new = speed(startup_s / 2), speed(startup_s)
    found = []
    for size in sizes:
        staying = min(max(size, 0), len(there))
        coming = max(0, min(size, pool.requested) - staying)
        usable = oldest[staying] + coming * on_their_way + max(0, size - staying - coming) * new
        paid = np.full(steps, float(size * pool.slots_per_executor))
        found.append((usable * pool.slots_per_executor, paid))
    return found


def _horizon_s(usable: list[ApplicationEvaluation], lead_s: float) -> float:
    longest_s = max(seen.objective.latency_s for seen in usable)
    wished_s = max(3 * lead_s, 2 * longest_s, _LEAST_HORIZON_S)
    return _STEP_S * ceil(min(wished_s, _MOST_HORIZON_S) / _STEP_S)


def _judged_s(seen: ApplicationEvaluation, lead_s: float, horizon_s: float) -> float:
    """How far ahead a prediction looks: until what was changed must have shown."""
    last_batch_s = seen.workload.batch_s if seen.workload is not None else 0.0
    batches_s = _JUDGED_BATCHES * max(seen.sample.interval_s, last_batch_s)
    return min(lead_s + max(_JUDGED_S, batches_s), horizon_s)


def _peak_size(evaluation: Evaluation, usable: list[ApplicationEvaluation]) -> int:
    """Executors needed to sustain the highest load within the forecasts' horizon.

    A busy pool runs longer batches, and their fixed cost is spread over more rows. Rows take two batches at most, so a
    third of the objective is as long as a batch may get.
    """
    slots = float(evaluation.busy_slots.sum())
    for seen in usable:
        workload, path = seen.workload, seen.path
        assert workload is not None
        rate = workload.expected_rows_per_s
        if path is not None and path.trusted:
            rate = max(rate, float(path.mean.max()))
        longest_s = max(seen.sample.interval_s, _LONGEST_BATCH * seen.objective.latency_s)
        slots += rate * workload.cost.row_s + workload.cost.batch_s / longest_s - busy_slots(seen)
    slots = max(slots, 0.0) / _FULL
    least, most = evaluation.executor_bounds
    return min(max(ceil(slots / evaluation.pool.slots_per_executor - 1e-6), least), most)


def lasting_size(evaluation: Evaluation) -> int:
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


def _speed(ends_s: Floats, registers_s: float, warmup_s: float) -> Floats:
    """Speed of one executor at each step: zero before it registers, half while it warms up."""
    warm = np.where(ends_s <= registers_s + warmup_s, _WARMUP_SPEED, 1.0)
    return np.where(ends_s <= registers_s, 0.0, warm).astype(np.float64)
