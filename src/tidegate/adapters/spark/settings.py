"""What a restartable query is built with: the knobs that Tidegate may turn between two runs of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tidegate.domain.epochs import check_epoch


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
    pool: str = ""
    """Scheduler pool that its batches run in; none: that of the thread that starts it."""
    epoch: int = 0
    """In a fleet: rises with every run of the application. Store it in the sink with each batch, and refuse lower ones:
    then a run that was replaced while its machine stood still can commit nothing when it wakes up."""
    lease: str = ""
    """In a fleet: the folder of the lease that the run has; empty elsewhere."""

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

    def check_epoch(self) -> None:
        """Raises `StaleEpoch` where a newer run of the application was allowed; call it before a sink commits.

        Outside of a fleet nothing happens.
        """
        if self.lease:
            check_epoch((path.name for path in Path(self.lease).iterdir()), self.epoch)

    def with_parallelism(self, operator: str, tasks: int) -> Settings:
        return replace(self, tasks=MappingProxyType({**self.tasks, operator: tasks}))
