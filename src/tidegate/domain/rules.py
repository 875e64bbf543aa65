"""The sections of a policy (objectives, bounds, cost, times, knobs, guards), with default and meaning of each field."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from tidegate.domain.calendar import Cron, Recurrence, duration_text
from tidegate.domain.misfit import Misfit, misfit_error
from tidegate.domain.money import DAY_S, cost
from tidegate.domain.python310 import Self
from tidegate.domain.qostables import QosGraph, QosRow
from tidegate.domain.retired import RETIRED_OF_APPLICATIONS, RETIRED_OF_EXECUTORS
from tidegate.domain.section import Duration, PositiveSeconds, Retired, Seconds, Section, Share

Knob = Literal["executors", "admission", "parallelism", "interval", "shares", "state", "moves", "hosts"]


class ObjectiveRule(Section):
    """The latency objective of rows, from arrival to the commit of their batch."""

    latency_s: PositiveSeconds = Field(10.0, description="A row should be done within this many seconds.")
    percentile: Share = Field(0.99, description="The share of rows that must meet it.")


class OwnObjectiveRule(Section):
    """An application's own objective."""

    latency_s: PositiveSeconds | None = Field(None, description="Its own; default: that of its class or the policy.")
    percentile: Share | None = Field(None, description="Its own; default: that of its class or the policy.")


class ApplicationRule(Section):
    """What differs for one application (a query, by its name)."""

    retired: ClassVar[Retired] = RETIRED_OF_APPLICATIONS

    qos_class: str | None = Field(None, alias="class", description="Its service class, one of `classes`.")
    objective: OwnObjectiveRule | None = Field(None, description="Its own objective.")
    qos_table: tuple[QosRow, ...] = Field((), description="More objectives: bounds on metrics.")
    qos_graphs: tuple[QosGraph, ...] = Field((), description="More objectives: utility over metrics.")
    ignore: bool = Field(False, description="Observe it, but never plan for it.")
    consumer_group: str | None = Field(
        None, description="Kafka: commit its progress to this consumer group, for lag exporters. Read at start."
    )


class SpanRule(Section):
    """A recurring span."""

    cron: str = Field(description="Start: minute, hour, day of the month, month, day of the week, in `timezone`.")
    lasts_s: Duration = Field(alias="for", description="How long it lasts: 90s, 15m, 3h or 2d.")

    @field_validator("cron")
    @classmethod
    def _readable(cls, line: str) -> str:
        Cron.parse(line)
        return line

    def spans(self, timezone: str) -> Recurrence:
        return Recurrence(self.cron, self.lasts_s, timezone)


class ScheduledMinimum(SpanRule):
    """A higher minimum at times of known demand."""

    executors: Annotated[int, Field(ge=1)] = Field(description="Minimum number of executors during the span.")


class Freeze(SpanRule):
    """A span without disruptive changes."""

    growth: bool = Field(True, description="Whether executors may be added during the freeze.")
    reason: str = Field("", description="Shown in the journal.")

    def __str__(self) -> str:
        why = f" ({self.reason})" if self.reason else ""
        return f"frozen for {duration_text(self.lasts_s)} from {self.cron!r}{why}"


class ExecutorRule(Section):
    """Bounds and price of the executor pool."""

    retired: ClassVar[Retired] = RETIRED_OF_EXECUTORS

    min: Annotated[int, Field(ge=1)] = Field(1, description="Minimum number of executors.")
    max: Annotated[int, Field(ge=1)] = Field(4, description="Maximum number of executors.")
    price_per_hour: Annotated[float, Field(gt=0)] = Field(
        1.0, description="Price of an executor per hour. With the default of 1, budgets are in executor-hours."
    )
    budget_per_day: Annotated[float, Field(gt=0)] | None = Field(
        None, description="Maximum cost of executors from midnight to midnight; the minimum is kept in any case."
    )
    minimum: tuple[ScheduledMinimum, ...] = Field((), description="A higher minimum at certain times.")

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        misfits = list(self._misfits())
        if misfits:
            raise misfit_error(misfits)
        return self

    def _misfits(self) -> Iterator[Misfit]:
        if self.min > self.max:
            yield Misfit(("min",), f"{self.min} is above max {self.max}")
        least_cost = cost(self.min * DAY_S, self.price_per_hour)
        if self.budget_per_day is not None and least_cost > self.budget_per_day:
            text = f"{self.budget_per_day:g} does not pay for min {self.min}, which costs {least_cost:g} per day: "
            yield Misfit(("budget_per_day",), text + "raise the budget or lower the minimum")
        for place, scheduled in enumerate(self.minimum):
            if scheduled.executors > self.max:
                yield Misfit(("minimum", place, "executors"), f"{scheduled.executors} is above max {self.max}")


class KnobRule(Section):
    """Which knobs Tidegate may use."""

    executors: bool = Field(True, description="The number of executors.")
    admission: bool = Field(True, description="The number of rows that a batch may read.")
    parallelism: bool = Field(True, description="The number of tasks of each operator; needs a restart.")
    interval: bool = Field(True, description="The trigger interval.")
    shares: bool = Field(True, description="How applications and classes share the slots.")
    state: bool = Field(True, description="Which executor holds a state partition.")
    moves: bool = Field(True, description="In a fleet: which host an application runs on.")
    hosts: bool = Field(True, description="In a fleet: how many hosts a region has.")


class GuardRule(Section):
    """Limits on decisions."""

    disruptions_per_hour: Annotated[int, Field(ge=0)] = Field(
        30, description="Maximum shrinks and restarts in any hour; growth is never held back."
    )
    max_age_s: PositiveSeconds = Field(
        30.0, description="Metrics older than this are stale, and nothing is changed based on them."
    )
    cool_down_up_s: Seconds = Field(8.0, description="Minimum seconds between two growths of the pool.")
    cool_down_down_s: Seconds = Field(30.0, description="Minimum seconds between any change of the pool and a shrink.")
    move_old_rocksdb: bool = Field(
        False, description="Also move RocksDB state before Spark 4.1, where reloading it has known bugs."
    )


class JournalRule(Section):
    """Where decisions are recorded, and how much is kept."""

    path: str | None = Field(
        None, description="SQLite file for knowledge and journal; default: tidegate-NAME.db where the job runs."
    )
    keep_days: Annotated[float, Field(gt=0)] = Field(7.0, description="Older steps are rolled up by the minute.")
    max_megabytes: Annotated[float, Field(gt=0)] = Field(
        200.0, description="Beyond it the oldest steps are rolled up, and then the oldest roll-ups are dropped."
    )
    history: str | None = Field(
        None, description="Folder for a history of all metrics as Parquet; default: no history."
    )


class ConsoleRule(Section):
    """A page, an API and metrics, served from the driver."""

    port: Annotated[int, Field(ge=0, le=65535)] = Field(4050, description="Port to listen on; 0 selects a free port.")
    host: str = Field("127.0.0.1", description="Address to listen on; any address other than loopback needs a token.")
    token_file: str | None = Field(
        None,
        description="File with the token for steering; default: environment variable TIDEGATE_CONSOLE_TOKEN, if set.",
    )
    certificate: str | None = Field(None, description="Certificate file (PEM) for HTTPS.")
    key: str | None = Field(None, description="Its private key (PEM).")
    page: bool = Field(True, description="false serves metrics and the API only.")
    alert_webhook: Annotated[str, Field(pattern="^https?://")] | None = Field(
        None, description="URL to which alerts are posted as JSON."
    )
    alert_command: str | None = Field(None, description="Command that receives each alert as JSON on standard input.")
    otlp_endpoint: Annotated[str, Field(pattern="^https?://")] | None = Field(
        None,
        description="OpenTelemetry collector that receives the metrics (OTLP over HTTP), such as http://127.0.0.1:4318.",
    )
