"""QoS tables and QoS graphs: requirements beyond the latency objective, per application and per operator."""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise
from typing import Annotated, Literal, get_args

from pydantic import Field, model_validator

from tidegate.domain.objective import Objective
from tidegate.domain.python310 import Self
from tidegate.domain.section import PositiveSeconds, Section, Share

ApplicationMetric = Literal[
    "latency_s",
    "latency_p50_s",
    "latency_p90_s",
    "latency_p99_s",
    "latency_max_s",
    "batch_duration_s",
    "overhead_s",
    "busy_s",
    "backlog_rows",
    "state_rows",
    "input_rows_per_s",
    "throughput_rows_per_s",
]
OperatorMetric = Literal[
    "execute_latency_s",
    "busy_s",
    "cpu_s",
    "communication_s",
    "fetch_wait_s",
    "service_s_per_row",
    "rows_in",
    "rows_out",
    "selectivity",
    "skew",
    "state_rows",
    "state_bytes",
    "state_commit_s",
]
_OF_APPLICATIONS: frozenset[str] = frozenset(get_args(ApplicationMetric))
_OF_OPERATORS: frozenset[str] = frozenset(get_args(OperatorMetric))
ROW_LATENCY = "latency_s"
"""The only metric with a value per row. All others have one value per batch."""
_SHARE_OF: dict[str, float] = {"latency_p50_s": 0.5, "latency_p90_s": 0.9, "latency_p99_s": 0.99}
"""Quantiles of row latency: the share of rows that they stand for. The largest latency of a batch is not predicted."""


def measured_name(operator: str | None, metric: str) -> str:
    """Return operator and metric as one name.

    >>> measured_name("count", "busy_s"), measured_name(None, "backlog_rows")
    ('count.busy_s', 'backlog_rows')
    """
    return metric if operator is None else f"{operator}.{metric}"


class _Measured(Section):
    """A metric measured over a window."""

    metric: Literal[ApplicationMetric, OperatorMetric] = Field(description="The metric.")
    operator: str | None = Field(None, description="The operator; default: the whole application.")
    window_s: PositiveSeconds = Field(60.0, description="Length of the sliding window, in seconds.")

    @model_validator(mode="after")
    def _measurable(self) -> Self:
        if self.operator is None and self.metric not in _OF_APPLICATIONS:
            raise ValueError(f"{self.metric} is a metric of operators: name one (operator: NAME)")
        if self.operator is not None and self.metric not in _OF_OPERATORS:
            raise ValueError(f"operators have no {self.metric}; they have {', '.join(sorted(_OF_OPERATORS))}")
        return self

    @property
    def measured(self) -> str:
        return measured_name(self.operator, self.metric)


class QosRow(_Measured):
    """A row of a QoS table: a share of the samples must be within the bound.

    >>> str(QosRow(metric="execute_latency_s", operator="count", bound=0.5, percentile=0.9))
    'count.execute_latency_s at most 0.5 for 90 % of 60 s'
    """

    bound: Annotated[float, Field(ge=0)] = Field(description="The largest or smallest value allowed.")
    side: Literal["at most", "at least"] = Field("at most", description="Whether the bound is a maximum or a minimum.")
    percentile: Share = Field(
        0.99, description="The share of samples that must be within the bound: rows for latency_s, otherwise batches."
    )

    def __str__(self) -> str:
        return f"{self.measured} {self.side} {self.bound:g} for {self.percentile * 100:g} % of {self.window_s:g} s"

    @property
    def key(self) -> str:
        """What tells it from other rows and graphs of an application."""
        return f"row {self.measured} {self.side} {self.bound:g} {self.percentile:g} {self.window_s:g}"

    @property
    def share(self) -> float | None:
        """The share of rows that decisions try to keep within the bound; None if the row is only monitored.

        >>> QosRow(metric="latency_s", bound=2, percentile=0.9).share, QosRow(metric="latency_p50_s", bound=2).share
        (0.9, 0.5)
        >>> QosRow(metric="backlog_rows", bound=500).share is None
        True
        """
        if self.side != "at most":
            return None
        return self.percentile if self.metric == ROW_LATENCY else _SHARE_OF.get(self.metric)


class QosGraph(_Measured):
    """A QoS graph: utility as a piecewise-linear function of a metric, constant beyond the first and last point.

    >>> graph = QosGraph(metric="latency_p99_s", points=((1, 1.0), (5, 0.5), (10, 0.0)))
    >>> [graph.utility(latency_s) for latency_s in (0.2, 3.0, 5.0, 60.0)]
    [1.0, 0.75, 0.5, 0.0]
    """

    points: Annotated[tuple[tuple[float, Annotated[float, Field(ge=0, le=1)]], ...], Field(min_length=1)] = Field(
        description="Pairs of value and utility (0 to 1), in order of increasing value."
    )
    least: Share | None = Field(None, description="The required mean utility, which is monitored; default: none.")

    @model_validator(mode="after")
    def _drawable(self) -> Self:
        if self.metric == ROW_LATENCY:
            raise ValueError("a graph needs one value per batch: use latency_p50_s, _p90_s, _p99_s or latency_max_s")
        for (before, _), (after, _) in pairwise(self.points):
            if not before < after:
                raise ValueError(f"the values of a graph's points must increase: {after:g} comes after {before:g}")
        return self

    def __str__(self) -> str:
        held = "" if self.least is None else f" at least {self.least:g}"
        return f"utility of {self.measured}{held} over {self.window_s:g} s"

    def utility(self, value: float) -> float:
        """Return the utility of one value of the metric."""
        if value <= self.points[0][0]:
            return self.points[0][1]
        for (low, before), (high, after) in pairwise(self.points):
            if value <= high:
                return before + (after - before) * (value - low) / (high - low)
        return self.points[-1][1]

    @property
    def key(self) -> str:
        """What tells it from other rows and graphs of an application."""
        return f"graph {self.measured} {self.points} {self.window_s:g}"

    @property
    def share(self) -> float | None:
        """The share of rows whose latency the graph values in decisions; None if the graph is only monitored."""
        return _SHARE_OF.get(self.metric)


@lru_cache(maxsize=256)
def row_of(objective: Objective) -> QosRow:
    """Return the latency objective as a row of a QoS table."""
    return QosRow(metric=ROW_LATENCY, bound=objective.latency_s, percentile=objective.percentile)
