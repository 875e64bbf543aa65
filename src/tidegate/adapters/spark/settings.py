"""The settings a restartable query is built with: the knobs that Tidegate may change between two runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tidegate.domain.epochs import check_epoch


@dataclass(frozen=True, slots=True)
class Settings:
    """Passed to `build(spark, settings)`. The build's own defaults apply to what is not set here."""

    name: str
    gate: str = ""
    """Path for `.option("gate", …)` of a `format("tidegate")` source."""
    checkpoint: str = ""
    """Where to keep this query's checkpoint, unless the build has its own location."""
    tasks: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    interval_s: float | None = None
    pool: str = ""
    """Scheduler pool of its batches; empty: that of the thread that starts it."""
    epoch: int = 0
    """In a fleet: increases with every run of the application. Store it in the sink with each batch, and reject lower
    ones. A run that was replaced while its machine was frozen can then commit nothing when it wakes up."""
    lease: str = ""
    """In a fleet: the folder of the run's lease; otherwise empty."""

    def parallelism(self, operator: str, default: int) -> int:
        """Tasks for an operator: the number that Tidegate requests, or the default."""
        return self.tasks.get(operator, default)

    def trigger(self, default_s: float) -> dict[str, Any]:
        """For `.trigger(**settings.trigger(1.0))`.

        >>> Settings("q").trigger(2)
        {'processingTime': '2000 milliseconds'}
        """
        interval_s = self.interval_s if self.interval_s is not None else default_s
        return {"processingTime": f"{round(interval_s * 1000)} milliseconds"}

    def check_epoch(self) -> None:
        """Raises `StaleEpoch` if a newer run of the application was allowed. Call it before a sink commits.

        Outside a fleet it does nothing.
        """
        if self.lease:
            check_epoch((path.name for path in Path(self.lease).iterdir()), self.epoch)

    def with_parallelism(self, operator: str, tasks: int) -> Settings:
        return replace(self, tasks=MappingProxyType({**self.tasks, operator: tasks}))
