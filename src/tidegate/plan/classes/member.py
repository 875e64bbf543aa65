"""Micro-batch applications as predictive control sees them: what a trigger would take, and what it may take.

A batch of one period holds the rows that arrived in it and, without a limit, all rows that waited before. Everything is
in columns over the applications with a known cost, so thousands of them take a millisecond.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import isfinite

import numpy as np

from tidegate.domain.cost import BatchCost
from tidegate.evaluate.evaluation import Evaluation
from tidegate.evaluate.expected import ALL_AT_ONCE
from tidegate.evaluate.table import Flags, Floats, Ints
from tidegate.model.bulkresponse import bulk_response
from tidegate.plan.classes.mpc import ClassArrays, Load
from tidegate.plan.proposersettings import PredictiveSettings

_LEAST_BUDGET = 0.1
"""Minimum share of an objective to plan with, even if the trigger interval leaves less."""
_REPORT_LAG_S = 2.0
_ALL = 0.6
"""Rows that keep this share of the tasks busy for a period count as all that the tasks can process, because limits on
bursts are rough.
"""


@dataclass(frozen=True)
class Members:
    """The applications that take part in a step, as columns."""

    evaluation: Evaluation
    places: Ints
    """Their indices in the columns of the evaluation."""
    expected_rows_per_s: Floats
    """Applications × κ steps of `step_s`: the forecast if it is trusted, otherwise the recent trend."""
    margin_rows_per_s: Floats
    """Distance from there to the forecast's upper edge."""
    rows_per_s: Floats
    """The highest rate expected in the next few control steps, but at least the current arrivals."""
    backlog_rows: Floats
    """Waiting rows beyond those that always wait for a trigger or are in a batch."""
    period_s: Floats
    row_s: Floats
    """Slot-seconds per row, including its part of the batch's fixed cost."""
    step_s: float
    """The longest period, for which one step plans."""
    at: Ints | slice
    """The places again, or a slice if they are all of them, so that every column is a view instead of a copy."""

    def __len__(self) -> int:
        return len(self.places)

    @cached_property
    def group(self) -> Ints:
        """Index of its class in `groups`."""
        return self.evaluation.promises.group[self.at]

    @property
    def groups(self) -> tuple[str, ...]:
        return self.evaluation.promises.groups

    @cached_property
    def weight(self) -> Floats:
        return self.evaluation.promises.weight[self.at]

    @property
    def level(self) -> Ints:
        """0 for the heaviest."""
        return self.evaluation.promises.level[self.at]

    @cached_property
    def floor(self) -> Floats:
        return self.evaluation.promises.floor[self.at]

    @cached_property
    def gated(self) -> Flags:
        """Whether a limit takes effect with the next trigger."""
        return self.evaluation.status.gated[self.at]

    @cached_property
    def limit(self) -> Floats:
        """Rows per trigger in force; infinite without a limit."""
        return self.evaluation.limits[self.at]

    @cached_property
    def wanted_rows(self) -> Floats:
        """All rows that a trigger without a limit would take."""
        return np.asarray(self.backlog_rows + self.rows_per_s * self.period_s)

    @cached_property
    def wanted_slots(self) -> Floats:
        """Slots that these rows would keep busy, at most one per task."""
        return np.asarray(np.minimum(self.wanted_rows * self.row_s / self.period_s, self.tasks))

    @cached_property
    def tasks(self) -> Floats:
        """Tasks of the busiest operator; infinite while unknown."""
        tasks = self.evaluation.loads.parallelism[self.at]
        return np.where(np.isnan(tasks), np.inf, tasks)

    @cached_property
    def surge_slots(self) -> Floats:
        """Slots that arrivals at the forecast's upper edge would keep busy."""
        return np.asarray((self.rows_per_s + self.margin_rows_per_s) * self.row_s)

    @cached_property
    def held(self) -> Flags:
        """Whether the limit leaves rows behind."""
        return np.asarray(self.limit < self.wanted_rows)

    @cached_property
    def held_for_slots(self) -> Flags:
        """The same, unless its own tasks could not process more."""
        return np.asarray(self.held & (self.limit * self.row_s < _ALL * self.tasks * self.period_s))

    @property
    def cost(self) -> tuple[Floats, Floats]:
        """Slot-seconds per batch and per row."""
        return self.evaluation.loads.batch_s[self.at], self.evaluation.loads.row_s[self.at]

    @property
    def latency_s(self) -> Floats:
        return self.evaluation.promises.latency_s[self.at]

    def restartable(self, which: Flags) -> list[bool]:
        """Of these: may the application be rescaled?"""
        samples = self.evaluation.samples
        return [samples[place].restartable for place in self.places[which].tolist()]

    @cached_property
    def late(self) -> Flags:
        return np.asarray(np.nan_to_num(self.evaluation.loads.p99_s[self.at]) > self.latency_s)

    @cached_property
    def budget_s(self) -> Floats:
        """What the objective leaves for a backlog, after up to a period of waiting and the batch's overhead."""
        spent_s = self.period_s + self.evaluation.loads.overhead_s[self.at]
        return np.asarray(np.maximum(self.latency_s - spent_s, _LEAST_BUDGET * self.latency_s))

    def name(self, at: int) -> str:
        return self.evaluation.samples[self.places.item(at)].name

    def find(self, name: str) -> int | None:
        """The index of the application with this name; None if it is not a member."""
        place = self.evaluation.places.get(name, -1)
        at = int(self.places.searchsorted(place))
        return at if at < len(self.places) and self.places[at] == place else None

    def title(self, at: int) -> str:
        """Name and class."""
        return f"{self.name(at)} ({self.groups[self.group.item(at)]})"


def members_of(evaluation: Evaluation, settings: PredictiveSettings) -> Members:
    """The applications with a known cost, with their current backlogs."""
    loads, interval_s = evaluation.loads, evaluation.policy.interval_s
    places = np.flatnonzero(evaluation.usable)
    at: Ints | slice = slice(None) if len(places) == len(evaluation.samples) else places
    overhead_s = loads.overhead_s[at]
    period_s = np.maximum(np.maximum(evaluation.status.interval_s[at], overhead_s), interval_s)
    step_s = float(period_s.max(initial=interval_s))
    expected, margin = _expect(evaluation, places, at, settings.horizon, step_s)
    ahead = max(1, round(settings.horizon * interval_s / step_s))
    # A forecast may make room for more, but no application is held below its current arrivals because of a forecast.
    rate = np.maximum(expected[:, :ahead].max(axis=1, initial=0.0), loads.expected[at])
    # Rows wait for their trigger, then in a batch, then for its report. Only rows beyond that are a backlog.
    usual_s = period_s + np.minimum(loads.last_batch_s[at], period_s) + _REPORT_LAG_S
    # A rate that has just risen has not filled these yet, and one that will fall leaves more behind than it brings.
    usual = np.minimum(loads.expected[at], expected[:, 0]) * usual_s
    behind = np.maximum(0.0, loads.pending[at] - usual)
    rows = np.maximum(rate * period_s, 1.0)
    row_s = np.maximum(loads.row_s[at] + loads.batch_s[at] / rows, 1e-9)
    return Members(evaluation, places, expected, margin, rate, behind, period_s, row_s, step_s, at)


def _expect(evaluation: Evaluation, places: Ints, at: Ints | slice, steps: int, step_s: float) -> tuple[Floats, Floats]:
    """Rates over the horizon, and the margin above them.

    With many applications, the forecasts of whole classes scale the recent trend of their members: individual
    variations cancel out over a class, common ones do not.
    """
    trend = evaluation.loads.expected[at]
    # Each step is contiguous, because planning goes step by step over all applications.
    path, margin = np.tile(trend, (steps, 1)).T, np.zeros(len(places))
    if len(evaluation.samples) <= ALL_AT_ONCE:
        found = evaluation.expected.ahead(places, steps, step_s)
        path[found.trusted] = found.mean[found.trusted]
        spread = np.maximum(found.upper - found.mean, 0.0)[:, 0]
        return path, np.where(found.trusted, spread, margin)
    classes = evaluation.expected.classes_ahead(steps, step_s)
    if classes is None or not classes.trusted.any():
        return path, margin
    group, count = evaluation.promises.group[at], len(evaluation.promises.groups)
    now = np.bincount(group, trend, count)[: len(classes.trusted)]
    known = classes.trusted & (now > 0)
    change, spread = np.ones((count, steps)), np.zeros(count)
    change[: len(known)][known] = classes.mean[known] / now[known, None]
    spread[: len(known)][known] = (np.maximum(classes.upper - classes.mean, 0.0)[known, 0]) / now[known]
    return (path.T * change.T[:, group]).T, trend * spread[group]


def load_of(members: Members) -> Load:
    """The input of the control step: κ steps ahead."""
    return Load(
        backlog_rows=members.backlog_rows,
        expected_rows_per_s=members.expected_rows_per_s,
        rows_per_s=members.evaluation.loads.arrival[members.at],
        row_s=members.row_s,
        group=slice(None),
        most_cpus=members.tasks,
    )


def classes_of(members: Members) -> ClassArrays:
    """Every application is its own class here: what its objective leaves for a backlog depends on its trigger."""
    return ClassArrays(
        latency_s=members.budget_s,
        weight=members.weight,
        floor=members.floor,
        level=members.level,
    )


def rows_limits(members: Members, granted: Floats) -> Floats:
    """Rows that the grant processes in one trigger; infinite if that is all of them."""
    full = granted >= members.wanted_slots * (1 - 1e-9)
    least = np.maximum(np.ceil(members.floor * members.rows_per_s * members.period_s), 1.0)
    rows = np.maximum(np.floor(granted * members.period_s / members.row_s), least)
    return np.where(full | ~members.gated, np.inf, rows)


def response_text(members: Members, at: int, slots_of: float) -> str:
    """Expected response with this many slots, in words."""
    loads, place = members.evaluation.loads, int(members.places[at])
    cost = BatchCost(float(loads.batch_s[place]), float(loads.row_s[place]), float(loads.overhead_s[place]))
    response = bulk_response(
        float(members.rows_per_s[at]),
        cost,
        max(slots_of, 1e-6),
        float(members.period_s[at]),
        float(members.backlog_rows[at]),
    )
    expected_s = response.quantile_s(float(members.evaluation.promises.percentile[place]))
    return f"response ≈ {expected_s:.0f} s" if isfinite(expected_s) else "its backlog grows"
