"""Predicts a micro-batch query under each candidate configuration, over a horizon, for each forecast path.

All candidates and paths advance together, batch by batch:

    S_k = max(C_(k−1), next trigger after S_(k−1))      a batch starts after the last one and at its trigger
    F_k = min(A(S_k), F_(k−1) + admission)              it takes the rows that have arrived, oldest first
    C_k: ∫ from S_k + o to C_k of n(t) dt = a + s·(F_k − F_(k−1))          and commits all of them together

where A counts the rows that have arrived, n is the effective slots (`slotpath`), and o, a, s are the query's cost. A
row that arrives at t in batch k has the latency C_k − t, so rows held back by an admission limit keep ageing. Batches
that hardly change are processed several at a time (`batchwalk`). Rows that arrive after the horizon do not count;
earlier ones are followed to their commit.

Batch times vary around the prediction (`variability`), which makes the share of rows over the objective smooth.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from tidegate.model.agespread import quantiles, rows_over
from tidegate.model.batchwalk import BatchWalk, Columns, steady_level, steady_slope, walk
from tidegate.model.curves import Curves, Floats
from tidegate.model.dominance import never_better_with_more_load, never_worse_with_more_slots
from tidegate.model.slotpath import effective_slots
from tidegate.model.variability import batch_deviation_s, overrun_s

_MOST_DRIVER_LOAD = 0.95
_STEADY_PATH = 0.02
"""Arrivals that differ by less count as equal when several batches are predicted at once."""
_STEADY_SLOTS = 0.01
_STRETCHES = 32
"""Steps of a walk are split into this many pieces, because long batches hold rows of very uneven ages."""


def _no_rows() -> Floats:
    return np.zeros(0)


@dataclass(frozen=True, slots=True)
class LatencyBound:
    """A latency beside the objective's, and a share of the rows, both of interest to the caller."""

    latency_s: float
    share: float

    def __post_init__(self) -> None:
        if self.latency_s < 0 or not 0 < self.share < 1:
            raise ValueError("a latency bound is 0 or more, and its share of the rows lies between 0 and 1")


@dataclass(frozen=True, slots=True)
class Query:
    """One application as the model sees it now (time 0)."""

    batch_s: float
    """Fixed slot-seconds of a batch."""
    row_s: float
    """Slot-seconds per row."""
    overhead_s: float
    """Seconds of a batch in which no task runs."""
    interval_s: float
    """Time between two triggers; 0 if the next batch starts when the last is done."""
    objective_s: float
    percentile: float = 0.99
    trigger_in_s: float = 0.0
    """Time until the next trigger. Later ones follow at whole intervals."""
    waiting_ages_s: Floats = field(default_factory=_no_rows)
    """Edges of the age profile of waiting and running rows, oldest first: one more than `waiting_rows`."""
    waiting_rows: Floats = field(default_factory=_no_rows)
    batch_left_s: float = 0.0
    """Time until the running batch commits; 0 if there is none."""
    batch_rows: float = 0.0
    """Rows in it: the oldest of the waiting rows."""
    tasks: tuple[int, ...] = ()
    """Tasks of each operator; empty for as many as there are slots."""
    work_share: tuple[float, ...] = ()
    in_waves: bool = True
    residual: float = 1.0
    """Learned correction: measured batch time over the predicted one."""
    cv_service: float = 0.1
    """Coefficient of variation of a batch's time."""
    cv_arrival: float = 1.0
    """Coefficient of variation of the time between two rows; 1 for Poisson arrivals."""
    driver_load: float = 0.0
    """Share of the driver's time used by other queries. It stretches the overhead."""
    bounds: tuple[LatencyBound, ...] = ()
    """Further bounds to predict, such as those of a QoS table."""

    def __post_init__(self) -> None:
        if min(self.batch_s, self.row_s, self.overhead_s, self.interval_s, self.batch_left_s, self.batch_rows) < 0:
            raise ValueError("costs, intervals and the batch under way are 0 or more")
        if not self.objective_s > 0 or not self.residual > 0 or not 0 < self.percentile < 1:
            raise ValueError("objective and residual are above 0, and the percentile lies between 0 and 1")
        if len(self.waiting_ages_s) != (len(self.waiting_rows) + 1 if len(self.waiting_rows) else 0):
            raise ValueError("an age profile has one edge more than it has groups of rows")
        if len(self.tasks) != len(self.work_share):
            raise ValueError("every operator has a number of tasks and a share of the work")


@dataclass(frozen=True, slots=True)
class Candidate:
    """One configuration; None keeps the query's current value."""

    slots: Floats
    """Usable slots at each step of the model, from `ramp`."""
    admission_rows: float | None = None
    """Maximum rows per batch; None for no limit."""
    interval_s: float | None = None
    share: float = 1.0
    """Share of the slots."""
    tasks: tuple[int, ...] | None = None
    pause_s: float = 0.0
    """No batch starts for this long after the running one, because of a restart."""
    held: Floats | None = None
    """Slots paid for at each step; None for the usable ones."""

    def __post_init__(self) -> None:
        if self.admission_rows is not None and not self.admission_rows > 0:
            raise ValueError(f"an admission limit is above 0, not {self.admission_rows}")
        if not 0 <= self.share <= 1 or self.pause_s < 0:
            raise ValueError("a share lies between 0 and 1, and a pause is 0 or more seconds")


@dataclass(frozen=True, slots=True)
class Outlook:
    """Predictions by candidate (rows) and path (columns).

    They cover the rows that wait now or arrive within the horizon, each followed to its commit.
    """

    late_share: Floats
    rows: Floats
    mean_s: Floats
    p50_s: Floats
    p99_s: Floats
    percentile_s: Floats
    """Latency at the objective's percentile."""
    early_late_share: Floats
    early_p99_s: Floats
    """The same for the rows that wait now or arrive within `early_s`."""
    backlog_end_rows: Floats
    """Rows whose work is still to be done at the end of the horizon."""
    oldest_end_s: Floats
    """Age of the oldest of them at that time."""
    slot_seconds: Floats
    """Slot-seconds paid for within the horizon."""
    utilisation: Floats
    """Work that arrives within the horizon, relative to the capacity of the effective slots."""
    driver_busy: Floats
    sustained_rows_per_s: Floats
    """Rate that the configuration can sustain in the long run, in its state at the end of the horizon."""
    over_share: tuple[Floats, ...] = ()
    """For each of the query's further bounds, the share of rows above its latency."""
    at_share_s: tuple[Floats, ...] = ()
    """For each of them, the latency at its share of the rows."""

    @property
    def late_rows(self) -> Floats:
        return self.late_share * self.rows


def rollout(
    query: Query,
    paths: Floats,
    candidates: Sequence[Candidate],
    horizon_s: float,
    step_s: float,
    early_s: float | None = None,
) -> Outlook:
    """Predict every candidate against every path of arrival rates (rows per second at each step).

    `early_s` is when the early rows end, by default the horizon.

    >>> query = Query(batch_s=0.0, row_s=0.01, overhead_s=0.5, interval_s=5.0, objective_s=9.0, cv_service=0.0)
    >>> candidates = [Candidate(np.full(60, slots)) for slots in (2.0, 1.0)]
    >>> seen = rollout(query, np.full(60, 100.0), candidates, horizon_s=60.0, step_s=1.0)
    >>> seen.p99_s[0].round(1).tolist(), seen.late_share.round(2).tolist()  # T = 3.0; with one slot, ρ = 1
    ([8.0], [[0.0], [0.78]])
    """
    paths = np.atleast_2d(np.asarray(paths, dtype=np.float64))
    steps = _steps(paths, candidates, horizon_s, step_s)
    scenarios, count = len(paths), len(candidates)
    edges_s = np.arange(steps + 1, dtype=np.float64) * step_s
    own = np.repeat(np.arange(count), scenarios)
    path = np.tile(np.arange(scenarios), count)
    slots = np.array([candidate.slots for candidate in candidates], dtype=np.float64)
    slots *= np.array([[candidate.share] for candidate in candidates])
    effective = _effective(query, candidates, slots)
    rates = np.concatenate((paths, effective / query.residual))
    curves = Curves.from_rates(edges_s, rates, *_waiting(query, scenarios, count))
    arrived = curves.select(path)
    interval_s = np.array([query.interval_s if c.interval_s is None else c.interval_s for c in candidates])[own]
    admission = np.array([np.inf if c.admission_rows is None else c.admission_rows for c in candidates])[own]
    pause_s = np.array([candidate.pause_s for candidate in candidates])[own]
    overhead_s = query.overhead_s / (1 - min(query.driver_load, _MOST_DRIVER_LOAD)) * query.residual
    world = Columns(
        arrived=arrived,
        power=curves.select(scenarios + own),
        both=curves.select(np.stack((path, scenarios + own))),
        steady_until_s=np.minimum(
            steady_slope(edges_s, paths, _STEADY_PATH)[path], steady_level(edges_s, effective, _STEADY_SLOTS)[own]
        ),
        step_s=step_s,
        batch_s=query.batch_s,
        row_s=query.row_s,
        overhead_s=overhead_s,
        interval_s=interval_s,
        admission_rows=admission,
        first_trigger_s=query.trigger_in_s,
    )
    walked = walk(world, query.batch_left_s, query.batch_rows, pause_s, horizon_s)
    rows, low_s, high_s, deviation_s = _ages(query, walked, arrived, interval_s)
    total = rows.sum(axis=0)
    some = np.maximum(total, 1e-12)
    shape = (count, scenarios)
    late = rows_over(query.objective_s, rows, low_s, high_s, deviation_s) / some
    mean = np.einsum("kn,kn->n", rows, (low_s + high_s) / 2) / some
    shares = (0.5, 0.99) if query.percentile == 0.99 else (0.5, 0.99, query.percentile)
    found = quantiles((*shares, *[bound.share for bound in query.bounds]), rows, low_s, high_s, deviation_s)
    over = [rows_over(bound.latency_s, rows, low_s, high_s, deviation_s) / some for bound in query.bounds]
    alike = [(c.admission_rows, c.interval_s, c.tasks, c.pause_s) for c in candidates]
    early_late, early_p99 = late, found[1]
    if early_s is not None and early_s < horizon_s:
        early = _arrived_by(arrived.at(np.full(count * scenarios, early_s)), walked, len(rows) // len(walked.start_s))
        early_late = rows_over(query.objective_s, early, low_s, high_s, deviation_s)
        early_late /= np.maximum(early.sum(axis=0), 1e-12)
        (early_p99,) = quantiles((0.99,), early, low_s, high_s, deviation_s)
    measures = np.stack((early_late, early_p99, late, mean, *found, *over)).reshape(-1, *shape)
    measures = never_worse_with_more_slots(measures, slots, alike)
    measures = never_better_with_more_load(measures, paths)
    further = len(measures) - 2 * len(query.bounds)
    backlog, oldest_s = _left_over(walked, arrived, total, horizon_s)
    batches = np.einsum("kn,kn->n", walked.count, walked.start_s < horizon_s)
    held = np.array([c.slots if c.held is None else c.held for c in candidates])
    capacity = np.maximum((effective.sum(axis=1) * step_s)[own] / query.residual, 1e-12)
    work = total * query.row_s + batches * query.batch_s
    # With a queue, batches are large and follow each other, so their fixed cost is that of one batch per trigger.
    period_s = np.maximum(interval_s, overhead_s + 1.0)
    sustained = np.maximum(effective[own, -1] / query.residual - query.batch_s / period_s, 0.0)
    sustained /= max(query.row_s, 1e-12)
    return Outlook(
        late_share=measures[2],
        rows=total.reshape(shape),
        mean_s=measures[3],
        p50_s=measures[4],
        p99_s=measures[5],
        percentile_s=measures[further - 1],
        early_late_share=measures[0],
        early_p99_s=measures[1],
        backlog_end_rows=backlog.reshape(shape),
        oldest_end_s=oldest_s.reshape(shape),
        slot_seconds=np.repeat(held.sum(axis=1) * step_s, scenarios).reshape(shape),
        utilisation=(work / capacity).reshape(shape),
        driver_busy=np.minimum(1.0, query.driver_load + batches * query.overhead_s / horizon_s).reshape(shape),
        sustained_rows_per_s=sustained.reshape(shape),
        over_share=tuple(measures[further + len(query.bounds) :]),
        at_share_s=tuple(measures[further : further + len(query.bounds)]),
    )


def _steps(paths: Floats, candidates: Sequence[Candidate], horizon_s: float, step_s: float) -> int:
    if not candidates:
        raise ValueError("a rollout needs at least one candidate")
    steps = round(horizon_s / step_s)
    if steps < 1 or abs(steps * step_s - horizon_s) > 1e-6 * horizon_s:
        raise ValueError(f"a horizon of {horizon_s} s is not a whole number of steps of {step_s} s")
    if paths.shape[1] != steps or any(len(candidate.slots) != steps for candidate in candidates):
        raise ValueError(f"paths and slots need {steps} steps: {horizon_s} s in steps of {step_s} s")
    return steps


def _effective(query: Query, candidates: Sequence[Candidate], slots: Floats) -> Floats:
    """Effective slots by candidate and step. Candidates with the same tasks share a table."""
    effective = np.empty_like(slots)
    by_tasks: dict[tuple[int, ...], list[int]] = {}
    for place, candidate in enumerate(candidates):
        by_tasks.setdefault(query.tasks if candidate.tasks is None else candidate.tasks, []).append(place)
    if len(by_tasks) == 1:
        return effective_slots(slots, next(iter(by_tasks)), query.work_share, query.in_waves)
    for tasks, places in by_tasks.items():
        effective[places] = effective_slots(slots[places], tasks, query.work_share, query.in_waves)
    return effective


def _waiting(query: Query, scenarios: int, count: int) -> tuple[Floats, Floats]:
    """Times and cumulative counts of waiting and running rows, for each path. Candidates have no work before now."""
    if not len(query.waiting_rows):
        return np.zeros(1), np.zeros((scenarios + count, 1))
    times_s = np.append(-query.waiting_ages_s, 0.0)
    counts = np.zeros((scenarios + count, len(times_s)))
    counts[:scenarios, 1:-1] = np.cumsum(query.waiting_rows)
    counts[:scenarios, -1] = counts[:scenarios, -2]
    return times_s, counts


def _ages(
    query: Query, walked: BatchWalk, arrived: Curves, interval_s: Floats
) -> tuple[Floats, Floats, Floats, Floats]:
    """Stretches of rows: their number, smallest and largest age, and the standard deviation of the age."""
    pieces = max(2, _STRETCHES // len(walked.start_s))
    taken, lasts_s = walked.end_row - walked.first_row, walked.last_commit_s - walked.commit_s
    parts = (np.arange(pieces + 1, dtype=np.float64) / pieces)[:, None, None]
    corner_s = walked.commit_s + parts * lasts_s - arrived.when(walked.first_row + parts * taken)
    batch_s = walked.commit_s - walked.start_s
    corner_s = np.maximum(corner_s, batch_s)  # no row arrives after its batch has started
    high_s = np.maximum(corner_s[:-1], corner_s[1:])
    low_s = np.minimum(corner_s[:-1], corner_s[1:])
    deviation_s = batch_deviation_s(batch_s, walked.busy_s, walked.batch_rows, query.cv_service, query.cv_arrival)
    extra_s = overrun_s(batch_s, deviation_s, interval_s)
    spread_s = np.sqrt(deviation_s**2 + extra_s**2)
    flat = (pieces * len(taken), -1)
    return (
        np.broadcast_to(taken / pieces, low_s.shape).reshape(flat),
        (low_s + extra_s).reshape(flat),
        (high_s + extra_s).reshape(flat),
        np.broadcast_to(spread_s, low_s.shape).reshape(flat),
    )


def _arrived_by(last_row: Floats, walked: BatchWalk, pieces: int) -> Floats:
    """The rows of every stretch of `_ages` up to this one."""
    taken = walked.end_row - walked.first_row
    parts = (np.arange(pieces, dtype=np.float64) / pieces)[:, None, None]
    found: Floats = np.clip(last_row - (walked.first_row + parts * taken), 0.0, taken / pieces)
    return found.reshape(pieces * len(taken), -1)


def _left_over(walked: BatchWalk, arrived: Curves, total: Floats, horizon_s: float) -> tuple[Floats, Floats]:
    """Rows left at the end of the horizon, and the age of the oldest. A running batch counts by its remainder."""
    span_s = np.maximum(walked.last_commit_s - walked.start_s, 1e-9)
    done = np.clip((horizon_s - walked.start_s) / span_s, 0.0, 1.0)
    finished = np.einsum("kn,kn->n", done, walked.end_row - walked.first_row)
    backlog = np.maximum(total - finished, 0.0)
    oldest_s = np.maximum(horizon_s - arrived.when(np.minimum(finished, total)), 0.0)
    return backlog, np.where(backlog > 0, oldest_s, 0.0)
