"""R-Storm as a baseline for `tidegate schedule`. The rule itself is in the product, whose own search starts from it."""

from __future__ import annotations

from tidegate.placement import RuleScheduler, Scheduler
from tidegate.placement.rstorm import RStorm


def scheduler() -> Scheduler:
    """R-Storm as published: memory is a hard constraint, other resources are not."""
    return RuleScheduler(RStorm())


def cpu_only() -> Scheduler:
    """R-Storm for CPU alone, on the time-merged signal."""
    return RuleScheduler(RStorm(cpu_only=True))


def declared_peak() -> Scheduler:
    """R-Storm with the tasks' declared peaks."""
    return RuleScheduler(RStorm(declared_peak=True))
