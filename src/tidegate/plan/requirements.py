"""What the QoS table and the QoS graphs of an application add to its latency objective in decisions.

Only what the model predicts counts: a row that bounds row latency from above (`QosRow.share`), and a graph of a
quantile of row latency (`QosGraph.share`). All other rows and graphs are monitored. An application without any of these
has no requirements, and predicting it costs no more than before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import isfinite

import numpy as np

from tidegate.domain import QosReading
from tidegate.domain.qostables import ROW_LATENCY, QosGraph, QosRow
from tidegate.evaluate.evaluation import ApplicationEvaluation, Evaluation
from tidegate.evaluate.table import Floats
from tidegate.model.microbatch import slots_for_latency
from tidegate.model.rollout import Candidate, LatencyBound, Outlook, Query, rollout
from tidegate.plan.demand import without_backlog

_MOST_BUDGET = 0.05
"""Largest error budget of a row. If half of the rows may exceed a bound, it is no use to spare half of that half."""
_LEAST_BOUND_S = 1e-6
"""A bound of 0 is allowed, although nothing meets it."""


@dataclass(frozen=True, slots=True)
class CountedRow:
    """A row of a QoS table that decisions take into account."""

    row: QosRow
    share: float
    past: float = 0.0
    """Share of the rows over its bound in its window, if it was measured by row."""
    missed: bool = False
    """Whether it is missed now."""

    @property
    def bound_s(self) -> float:
        return max(self.row.bound, _LEAST_BOUND_S)

    def strain(self, latency_s: float) -> float:
        """The latency at its share of the rows, relative to its bound."""
        return latency_s / self.bound_s

    @property
    def budget(self) -> float:
        """The last part of the share of rows that may exceed the bound: its error budget."""
        return min(1.0 - self.share, _MOST_BUDGET)

    def burn(self, over: Floats) -> Floats:
        """The share of the error budget that is spent if this share of the rows exceeds the bound.

        >>> median, tail = (CountedRow(QosRow(metric="latency_s", bound=1), share) for share in (0.5, 0.99))
        >>> median.burn(np.array([0.3, 0.475, 0.6])).round(2).tolist(), tail.burn(np.array([0.01])).round(2).tolist()
        ([0.0, 0.5, 3.0], [1.0])
        """
        free = 1.0 - self.share - self.budget
        return np.asarray(np.maximum(over - free, 0.0) / self.budget)

    def longest_s(self, interval_s: float, latency_s: float | None = None) -> float:
        """How long the oldest row of a batch may take if the row's share of the rows may take its bound.

        The oldest rows have waited for a whole interval. `latency_s` replaces the bound.
        """
        return (self.bound_s if latency_s is None else latency_s) + (1.0 - self.share) * interval_s

    def spared(self, spent: float) -> float:
        """The share of rows over the bound that spends this part of the error budget."""
        return 1.0 - self.share - self.budget + spent * self.budget


@dataclass(frozen=True, slots=True)
class Requirements:
    """The rows and graphs of an application that count."""

    rows: tuple[CountedRow, ...] = ()
    graphs: tuple[QosGraph, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.rows or self.graphs)

    def asked_of(self, query: Query) -> Query:
        """The query with everything that must be predicted: first what rows need, then what graphs need."""
        if not self:
            return query
        rows = [LatencyBound(one.bound_s, one.share) for one in self.rows]
        graphs = [LatencyBound(0.0, graph.share or 0.5) for graph in self.graphs]  # only the share is of interest
        return replace(query, bounds=(*rows, *graphs))

    def utility(self, found: Outlook) -> Floats:
        """Mean utility of the graphs, by candidate and path."""
        latencies_s = found.at_share_s[len(self.rows) :]
        return np.asarray(
            np.mean(
                [
                    np.interp(latency_s, *np.array(graph.points, dtype=np.float64).T)
                    for graph, latency_s in zip(self.graphs, latencies_s, strict=True)
                ],
                axis=0,
            )
        )

    def long_run_utility(self, query: Query, paths: Floats, candidates: Sequence[Candidate], step_s: float) -> Floats:
        """The same without backlog and pause. A start-up or a pause is over long before its rows leave a quantile."""
        settled = [replace(one, pause_s=0.0) for one in candidates]
        horizon_s = len(candidates[0].slots) * step_s
        return self.utility(rollout(self.asked_of(without_backlog(query)), paths, settled, horizon_s, step_s))


NO_REQUIREMENTS = Requirements()


def requirements_of(seen: ApplicationEvaluation, evaluation: Evaluation) -> Requirements:
    """The rows and graphs that count for the executors and restarts of this application.

    Rows that no number of executors can meet are left out: their bound is shorter than the interval and the fixed time
    of a batch allow. Otherwise the whole pool would be bought for very little.
    """
    needs = all_requirements_of(seen, evaluation)
    if not needs.rows:
        return needs
    return replace(needs, rows=tuple([row for row in needs.rows if _within_reach(row, seen)]))


def _within_reach(row: CountedRow, seen: ApplicationEvaluation) -> bool:
    workload, interval_s = seen.workload, seen.sample.interval_s
    assert workload is not None
    rate = max(workload.expected_rows_per_s, 1.0)  # the answer does not depend on it
    return isfinite(slots_for_latency(rate, workload.cost, interval_s, row.longest_s(interval_s)))


def all_requirements_of(seen: ApplicationEvaluation, evaluation: Evaluation) -> Requirements:
    """The rows and graphs of the policy that count for this application."""
    rule = evaluation.policy.applications.get(seen.name)
    if rule is None or not (rule.qos_table or rule.qos_graphs):
        return NO_REQUIREMENTS
    readings = {reading.objective: reading for reading in seen.detail.qos}
    rows = [_counted(row, readings.get(str(row))) for row in rule.qos_table if row.share is not None]
    return Requirements(tuple(rows), tuple([graph for graph in rule.qos_graphs if graph.share is not None]))


def _counted(row: QosRow, reading: QosReading | None) -> CountedRow:
    share, score = row.share, reading.score if reading is not None else None
    assert share is not None
    by_rows = row.metric == ROW_LATENCY and score is not None
    past = 1.0 - score if by_rows and score is not None else 0.0
    return CountedRow(row, share, past, missed=reading is not None and reading.met is False)


def missing_rows(evaluation: Evaluation) -> list[tuple[int, CountedRow]]:
    """The rows that count and are missed now, with the place of their application."""
    return [
        (place, row)
        for name, detail in evaluation.details.items()
        if detail.qos and (place := evaluation.places.get(name)) is not None and evaluation.usable[place]
        for row in all_requirements_of(evaluation.of(place), evaluation).rows
        if row.missed
    ]
