"""The data of each panel, one type per panel. Unknown values are None; units are in the names."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tidegate.control.journal.entry import Note

Column = list[float | None]


@dataclass(frozen=True, slots=True)
class ApplicationNow:
    """The latest state of one application."""

    application: str
    running: bool
    class_name: str | None
    objective_s: float | None
    percentile: float | None
    latency_p50_s: float | None
    latency_p90_s: float | None
    latency_p99_s: float | None
    predicted_p99_s: float | None
    budget_left: float | None
    backlog_rows: float | None
    backlog_s: float | None
    """How long the backlog took to arrive: the age of its oldest row."""
    catch_up_s: float | None
    """Time until the backlog is gone; None if the load leaves no spare capacity."""
    arrival_rows_per_s: float | None
    expected_rows_per_s: float | None
    capacity_rows_per_s: float | None
    watermark_gap_s: float | None
    admission_rows: int | None
    state_rows: int | None
    distrust: str | None
    """Why its metrics are not trusted."""
    error: str | None


@dataclass(frozen=True, slots=True)
class PoolNow:
    """The latest state of the executors."""

    wanted: int
    requested: int
    registered: int
    slots_per_executor: int
    least: int | None
    most: int | None
    disruptions_left: int | None


@dataclass(frozen=True, slots=True)
class Overview:
    """A journal at a glance."""

    journal: str
    first_s: float | None
    last_s: float | None
    steps: int
    mode: str | None
    interval_s: float
    indexed: float
    """Share of the steps that can be shown: an old journal is indexed when it is first opened."""
    steerable: bool
    paused: bool
    pool: PoolNow | None
    applications: list[ApplicationNow]
    recommendation: list[str]
    """The actions of the newest decision, if they were not carried out."""
    step: int | None
    notes: list[Note]


@dataclass(frozen=True, slots=True)
class Series:
    """Columns over time; every column has a value for every time."""

    start_s: float
    end_s: float
    bucket_s: float
    """The time that one value covers."""
    time_s: list[float]
    columns: dict[str, Column]


@dataclass(frozen=True, slots=True)
class OperatorLoad:
    """One operator over the range."""

    operator: str
    place: int
    rows_in_per_s: float | None
    rows_out_per_s: float | None
    busy_slots: float
    """Mean number of slots that its tasks occupied."""
    load: float | None
    """Share of the slots that it can use: the smaller of its tasks and the pool."""
    parallelism: int | None
    skew: float | None
    communication: float
    """Share of its time spent on exchanging data."""
    row_s: float | None
    capacity_rows_per_s: float | None
    state_rows: int | None
    state_bytes: int | None


@dataclass(frozen=True, slots=True)
class Moment:
    """A decision that acted, a recommendation, or consecutive holds for one reason."""

    number: int
    time_s: float
    end_s: float
    steps: int
    kind: str
    title: str
    reason: str
    code: str
    guards: list[str] = field(default_factory=list)
    advice: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class DecisionDetail:
    """One step in full, as it was recorded."""

    number: int
    time_s: float
    decision: dict[str, Any]
    receipt: dict[str, Any] | None
    outcomes: list[dict[str, Any]]
    """What was measured of its predictions, one by application."""


@dataclass(frozen=True, slots=True)
class ClassNow:
    """A service class, or an application with its own share."""

    name: str
    latency_s: float | None
    rows: float
    late_share: float | None
    window_share: float | None
    bound: float | None
    incidents: int
    worst_p99_s: float | None
    share: float | None


@dataclass(frozen=True, slots=True)
class FleetNow:
    """A fleet at a glance. Rows have the form of `tidegate fleet status --json`."""

    centre: dict[str, Any]
    regions: list[dict[str, Any]]
    hosts: list[dict[str, Any]]
    applications: list[dict[str, Any]]
    events: list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Cost:
    """Cost of the pool over the range, compared with a fixed pool for the busiest minute."""

    hours: float
    executor_hours: float
    price_per_hour: float
    money: float
    fixed_executors: int | None
    fixed_money: float | None
    saved: float | None
    """As a share of the fixed pool's cost."""


@dataclass(frozen=True, slots=True)
class Lag:
    """Backlog in one partition of a source."""

    partition: str
    rows: int
