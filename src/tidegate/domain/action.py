"""The actions that a decision can take, one class per knob. Actions are idempotent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class ScaleExecutors:
    """Set the number of executors to `target`. Needs no restart."""

    target: int
    kind: Literal["scale-executors"] = "scale-executors"

    def __post_init__(self) -> None:
        if self.target < 0:
            raise ValueError(f"the number of executors must be at least 0, not {self.target}")

    def __str__(self) -> str:
        return f"executors → {self.target}"


@dataclass(frozen=True, slots=True)
class SetAdmission:
    """Limit the rows that a batch of `application` reads; None removes the limit. Needs no restart."""

    application: str
    rows_per_trigger: int | None
    kind: Literal["set-admission"] = "set-admission"

    def __post_init__(self) -> None:
        if self.rows_per_trigger is not None and self.rows_per_trigger < 1:
            raise ValueError(f"an admission limit must be at least 1 row, not {self.rows_per_trigger}")

    def __str__(self) -> str:
        limit = "unlimited" if self.rows_per_trigger is None else f"{self.rows_per_trigger} rows per trigger"
        return f"{self.application}: admission → {limit}"


@dataclass(frozen=True, slots=True)
class SetParallelism:
    """Run `operator` of `application` with this many tasks. Needs a restart."""

    application: str
    operator: str
    parallelism: int
    kind: Literal["set-parallelism"] = "set-parallelism"

    def __post_init__(self) -> None:
        if self.parallelism < 1:
            raise ValueError(f"parallelism must be at least 1, not {self.parallelism}")

    def __str__(self) -> str:
        return f"{self.application}.{self.operator}: parallelism → {self.parallelism}"


@dataclass(frozen=True, slots=True)
class SetBatchInterval:
    """Start a batch of `application` every `interval_s` seconds. On Spark this needs no restart."""

    application: str
    interval_s: float
    kind: Literal["set-batch-interval"] = "set-batch-interval"

    def __post_init__(self) -> None:
        if self.interval_s < 0:
            raise ValueError(f"a batch interval must be at least 0 seconds, not {self.interval_s}")

    def __str__(self) -> str:
        return f"{self.application}: batch interval → {self.interval_s:g} s"


@dataclass(frozen=True, slots=True)
class SetShare:
    """Give `group` (an application, or a class with its own processes) this share of the host's CPU."""

    group: str
    share: float
    kind: Literal["set-share"] = "set-share"

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:
            raise ValueError(f"a share must be above 0 and at most 1, not {self.share}")

    def __str__(self) -> str:
        return f"{self.group}: share → {self.share:.2f}"


@dataclass(frozen=True, slots=True)
class MoveState:
    """Run state partition `partition` of `application` on `executor` from the next batch on, without a restart.

    All stores and stateful operators of the partition move together.
    """

    application: str
    partition: int
    executor: str
    kind: Literal["move-state"] = "move-state"

    def __post_init__(self) -> None:
        if self.partition < 0:
            raise ValueError(f"a state partition must be at least 0, not {self.partition}")

    def __str__(self) -> str:
        return f"{self.application}: state partition {self.partition} → executor {self.executor}"


@dataclass(frozen=True, slots=True)
class MoveApplication:
    """Run `application` on another host of the fleet: stop it between two batches, start it there from its checkpoint.

    Without a host it is a request to move to any host with room.
    """

    application: str
    host: str | None
    kind: Literal["move-application"] = "move-application"

    def __str__(self) -> str:
        return f"{self.application} → {self.host or 'another host'}"


@dataclass(frozen=True, slots=True)
class AddHost:
    """Start a host with this name in the region."""

    host: str
    region: str
    kind: Literal["add-host"] = "add-host"

    def __str__(self) -> str:
        return f"+ host {self.host} in {self.region}"


@dataclass(frozen=True, slots=True)
class RemoveHost:
    """Return a host. It stops once it runs no application."""

    host: str
    kind: Literal["remove-host"] = "remove-host"

    def __str__(self) -> str:
        return f"− host {self.host}"


FleetAction = MoveApplication | AddHost | RemoveHost
Action = ScaleExecutors | SetAdmission | SetParallelism | SetBatchInterval | SetShare | MoveState | FleetAction
