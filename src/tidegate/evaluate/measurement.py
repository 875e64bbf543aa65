"""Measurement plans: what each host measures, and how the values are read from its observations.

The central side states what (metrics), where (hosts) and when (interval). All metrics of an operator are one item, so
it is measured once per interval however many rows and graphs use it. Beyond the core set that planners need, only
metrics used by a table or graph are measured.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from tidegate.domain import BatchSample, OperatorSample
from tidegate.domain.policy import Policy
from tidegate.domain.qostables import ROW_LATENCY
from tidegate.domain.rules import ApplicationRule

EVERY_OPERATOR = "*"
_CORE = ("rows", "busy_s", "overhead_s", "backlog_rows", ROW_LATENCY)
_CORE_OF_OPERATORS = (
    "parallelism",
    "rows_in",
    "rows_out",
    "busy_s",
    "cpu_s",
    "communication_s",
    "execute_latency_s",
)


@dataclass(frozen=True, slots=True)
class MeasuredItem:
    """One application or operator, and all metrics measured of it."""

    application: str
    operator: str | None
    """`*`: every operator without its own item."""
    hosts: tuple[str, ...]
    core: tuple[str, ...]
    """Metrics that planners need."""
    asked: tuple[str, ...]
    """Metrics that tables and graphs use."""

    @property
    def metrics(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self.core + self.asked))


@dataclass(frozen=True, slots=True)
class MeasurementPlan:
    """What is measured, once every `interval_s`."""

    interval_s: float
    items: tuple[MeasuredItem, ...]

    def __post_init__(self) -> None:
        named = [(item.application, item.operator) for item in self.items]
        if len(set(named)) < len(named):
            raise ValueError("a plan measures everything once per interval: an item is there twice")

    def for_host(self, host: str) -> MeasurementPlan:
        """The part of the plan that is sent to this host."""
        return replace(self, items=tuple(item for item in self.items if host in item.hosts))

    def of(self, application: str) -> tuple[MeasuredItem, ...]:
        return tuple(item for item in self.items if item.application == application)

    def asked_of(self, application: str) -> tuple[tuple[str | None, str], ...]:
        """Metrics of an application beyond the core: operator and metric."""
        return tuple((item.operator, metric) for item in self.of(application) for metric in item.asked)


def plan_measurements(policy: Policy, placement: Mapping[str, Collection[str]]) -> MeasurementPlan:
    """The plan for a policy and the placement of the applications (application → hosts).

    >>> rows = [{"metric": "execute_latency_s", "operator": "count", "bound": 1}]
    >>> policy = Policy.model_validate({"applications": {"words": {"qos_table": rows}}})
    >>> plan = plan_measurements(policy, {"words": ["a", "b"], "clicks": ["b"]})
    >>> [(item.operator, item.asked) for item in plan.for_host("a").items]
    [(None, ()), ('count', ('execute_latency_s',)), ('*', ())]
    """
    items: list[MeasuredItem] = []
    for name, hosts in placement.items():
        where = tuple(sorted(hosts))
        asked = _asked(policy.applications.get(name))
        items.append(MeasuredItem(name, None, where, _CORE, asked.pop(None, ())))
        items += [
            MeasuredItem(name, operator, where, _CORE_OF_OPERATORS, metrics) for operator, metrics in asked.items()
        ]
        items.append(MeasuredItem(name, EVERY_OPERATOR, where, _CORE_OF_OPERATORS, ()))
    return MeasurementPlan(policy.interval_s, tuple(items))


def _asked(rule: ApplicationRule | None) -> dict[str | None, tuple[str, ...]]:
    """Metrics used by tables and graphs, by operator, without duplicates."""
    found: dict[str | None, dict[str, None]] = {}
    for wanted in (*rule.qos_table, *rule.qos_graphs) if rule else ():
        found.setdefault(wanted.operator, {})[wanted.metric] = None
    return {operator: tuple(metrics) for operator, metrics in found.items()}


@dataclass(slots=True)
class Before:
    """What is kept of the previous batch, for rates."""

    started_s: float
    committed_s: float
    backlog_rows: int


Readings = dict[tuple[str | None, str], float]
"""(operator, metric) → value, of one batch. Unknown values are left out."""


def read_batch(batch: BatchSample, before: Before | None, asked: Collection[tuple[str | None, str]]) -> Readings:
    """The value of each requested metric, read once."""
    operators = {operator.name: operator for operator in batch.operators}
    found: Readings = {}
    for operator, metric in asked:
        if operator is None:
            value = _of_application(metric, batch, before)
        else:
            value = _of_operator(metric, operators[operator]) if operator in operators else None
        if value is not None:
            found[operator, metric] = float(value)
    return found


def _of_application(metric: str, batch: BatchSample, before: Before | None) -> float | None:
    if metric == ROW_LATENCY:
        return batch.latency.p99_s if batch.latency else None
    if metric.startswith("latency_"):
        return getattr(batch.latency, metric.removeprefix("latency_")) if batch.latency else None
    if metric == "batch_duration_s":
        return batch.duration_s
    if metric == "throughput_rows_per_s":
        if before is None or batch.committed_s <= before.committed_s:
            return None
        return batch.rows / (batch.committed_s - before.committed_s)
    if metric == "input_rows_per_s":
        if before is None or batch.started_s <= before.started_s:
            return None
        arrived = batch.rows + (batch.backlog_rows or 0) - before.backlog_rows
        return max(0.0, arrived / (batch.started_s - before.started_s))
    value: float | None = getattr(batch, metric)
    return value


def _of_operator(metric: str, operator: OperatorSample) -> float | None:
    if metric == "service_s_per_row":
        return operator.busy_s / operator.rows_in if operator.rows_in else None
    if metric == "selectivity":
        return operator.rows_out / operator.rows_in if operator.rows_in and operator.rows_out is not None else None
    value: float | None = getattr(operator, metric)
    return value
