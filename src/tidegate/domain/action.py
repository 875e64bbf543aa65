"""The knobs: what a decision can ask of the world. Applying one twice is the same as applying it once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class ScaleExecutors:
    """Have `target` executors, without a restart."""

    target: int
    kind: Literal["scale-executors"] = "scale-executors"

    def __post_init__(self) -> None:
        if self.target < 0:
            raise ValueError(f"a number of executors is 0 or more, not {self.target}")

    def __str__(self) -> str:
        return f"executors → {self.target}"


@dataclass(frozen=True, slots=True)
class SetAdmission:
    """Let a trigger of `application` take at most so many rows, or all there are; a restart where it has no gate."""

    application: str
    rows_per_trigger: int | None
    kind: Literal["set-admission"] = "set-admission"

    def __post_init__(self) -> None:
        if self.rows_per_trigger is not None and self.rows_per_trigger < 1:
            raise ValueError(f"an admission limit is at least one row, not {self.rows_per_trigger}")

    def __str__(self) -> str:
        limit = "unlimited" if self.rows_per_trigger is None else f"{self.rows_per_trigger} rows per trigger"
        return f"{self.application}: admission → {limit}"


@dataclass(frozen=True, slots=True)
class SetParallelism:
    """Run `operator` of `application` with so many tasks; a restart."""

    application: str
    operator: str
    parallelism: int
    kind: Literal["set-parallelism"] = "set-parallelism"

    def __post_init__(self) -> None:
        if self.parallelism < 1:
            raise ValueError(f"parallelism is at least 1, not {self.parallelism}")

    def __str__(self) -> str:
        return f"{self.application}.{self.operator}: parallelism → {self.parallelism}"


@dataclass(frozen=True, slots=True)
class SetBatchInterval:
    """Trigger `application` every `interval_s`; a restart."""

    application: str
    interval_s: float
    kind: Literal["set-batch-interval"] = "set-batch-interval"

    def __post_init__(self) -> None:
        if self.interval_s < 0:
            raise ValueError(f"a batch interval is 0 or more seconds, not {self.interval_s}")

    def __str__(self) -> str:
        return f"{self.application}: batch interval → {self.interval_s:g} s"


@dataclass(frozen=True, slots=True)
class SetShare:
    """Give `group` (an application, or a class that runs in processes of its own) this share of the host's CPU."""

    group: str
    share: float
    kind: Literal["set-share"] = "set-share"

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:
            raise ValueError(f"a share lies above 0 and at most at 1, not {self.share}")

    def __str__(self) -> str:
        return f"{self.group}: share → {self.share:.2f}"


Action = ScaleExecutors | SetAdmission | SetParallelism | SetBatchInterval | SetShare
