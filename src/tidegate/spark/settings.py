"""What a restartable query is built with: the knobs that Tidegate may turn between two runs of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from tidegate.spark.limits import SourceKind, limit_options

LIMIT = "limit"


@dataclass(frozen=True, slots=True)
class Settings:
    """Handed to `build(spark, settings)`; what it does not set, the build's own defaults decide."""

    name: str
    gate: str = ""
    """Path for `.option("gate", …)` of a `format("tidegate")` source."""
    checkpoint: str = ""
    """Where the gate keeps this query's checkpoint, where the build has no place of its own."""
    tasks: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    interval_s: float | None = None
    rows_per_trigger: int | None = None
    """For sources that take a limit only when they start; `limit` makes reader options of it."""
    pool: str = ""
    """Scheduler pool that its batches run in; none: that of the thread that starts it."""

    used: set[str] = field(default_factory=set, compare=False, repr=False)
    """Which knobs the build has asked for: what nobody reads cannot be turned."""

    def parallelism(self, operator: str, default: int) -> int:
        """Tasks for an operator: what Tidegate asks, or the default."""
        return self.tasks.get(operator, default)

    def trigger(self, default_s: float) -> dict[str, Any]:
        """For `.trigger(**settings.trigger(1.0))`.

        >>> Settings("q").trigger(2)
        {'processingTime': '2000 milliseconds'}
        """
        interval_s = self.interval_s if self.interval_s is not None else default_s
        return {"processingTime": f"{round(interval_s * 1000)} milliseconds"}

    def limit(self, kind: SourceKind, rows_per_file: float = 1.0) -> Mapping[str, str]:
        """For `.readStream.format("kafka").options(**settings.limit("kafka"))`, or "file"; another limit is a restart.

        >>> Settings("q", rows_per_trigger=500).limit("kafka")
        {'maxOffsetsPerTrigger': '500'}
        """
        self.used.add(LIMIT)
        return limit_options(kind, self.rows_per_trigger, rows_per_file)

    def with_parallelism(self, operator: str, tasks: int) -> Settings:
        return replace(self, tasks=MappingProxyType({**self.tasks, operator: tasks}))

    def with_interval(self, interval_s: float) -> Settings:
        return replace(self, interval_s=interval_s)

    def with_limit(self, rows_per_trigger: int | None) -> Settings:
        return replace(self, rows_per_trigger=rows_per_trigger)
