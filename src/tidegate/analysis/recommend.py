"""Recommendations from a history, each with its evidence. An empty list means that nothing stands out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil

import numpy as np

from tidegate.analysis.capacity import Profile
from tidegate.analysis.drivers import Driver
from tidegate.analysis.prepare import without_cold_batches
from tidegate.history.metrictable import MetricTable

_UTILISATION = 0.75
_SOON_S = 24 * 3600.0


@dataclass(frozen=True, slots=True)
class Recommendation:
    """What to do, and why."""

    code: str
    text: str


@dataclass(frozen=True, slots=True)
class Evidence:
    """The input of the rules."""

    table: MetricTable
    profile: Profile
    drivers: dict[str, tuple[Driver, ...]]

    def middle(self, name: str) -> float | None:
        """Return the median of a metric, without cold batches."""
        if name not in self.table.names:
            return None
        known = self.table.column(name)[np.isfinite(self.table.column(name))]
        return float(np.median(known)) if len(known) else None

    def share(self, part: str, whole: str) -> float | None:
        """Return the median of one metric divided by the median of another."""
        above, below = self.middle(part), self.middle(whole)
        return above / below if above is not None and below else None


Rule = Callable[[Evidence], str | None]


def recommend(
    table: MetricTable, profile: Profile, drivers: dict[str, tuple[Driver, ...]]
) -> tuple[Recommendation, ...]:
    """Apply every rule."""
    evidence = Evidence(without_cold_batches(table), profile, drivers)
    found = [(code, rule(evidence)) for code, rule in RULES.items()]
    return tuple(Recommendation(code, text) for code, text in found if text is not None)


def _overload(seen: Evidence) -> str | None:
    found = seen.profile
    if not found.trend or not found.sustainable_rows_per_s or not found.slots or found.exceeded_in_s is None:
        return None
    load, limit = found.trend.rows_per_s, found.sustainable_rows_per_s
    if found.exceeded_in_s > _SOON_S:
        return None
    needed = ceil(found.slots * load / (limit * _UTILISATION))
    if found.exceeded_in_s == 0:
        return (
            f"the load ({load:.0f} rows/s) exceeds what {found.slots} slots sustain ({limit:.0f} rows/s): have {needed}"
            f" slots, or admit fewer rows"
        )
    return (
        f"the load grows by {found.trend.growth_rows_per_s2 * 3600:.0f} rows/s an hour and will exceed {limit:.0f}"
        f" rows/s, what {found.slots} slots sustain, in {found.exceeded_in_s / 60:.0f} minutes: plan for more slots"
    )


def _idle(seen: Evidence) -> str | None:
    busy = seen.middle("utilisation")
    slots = seen.profile.slots
    if busy is None or not slots or slots < 2 or busy > 0.25 or len(seen.table) < 30:
        return None
    high = float(np.nanmax(seen.table.column("utilisation")))
    enough = max(1, ceil(slots * high / _UTILISATION))
    return (
        f"slots are busy {busy:.0%} of the time, {high:.0%} at most: {enough} of {slots} would do"
        if enough < slots
        else None
    )


def _fixed_cost(seen: Evidence) -> str | None:
    share = seen.share("overhead_s", "batch_duration_s")
    return (
        f"{share:.0%} of a batch is planning, offsets and commits, in which no task runs: fewer, larger batches"
        " (a longer trigger interval) cost less"
        if share is not None and share > 0.5
        else None
    )


def _garbage(seen: Evidence) -> str | None:
    share = seen.share("gc_s", "busy_s")
    return (
        f"garbage collection takes {share:.0%} of task time: give executors more memory"
        if share and share > 0.1
        else None
    )


def _fetch(seen: Evidence) -> str | None:
    share = seen.share("fetch_wait_s", "busy_s")
    return (
        f"tasks wait {share:.0%} of their time for shuffle data: fewer, larger executors"
        if share and share > 0.2
        else None
    )


def _spill(seen: Evidence) -> str | None:
    spilled = seen.middle("spill_bytes")
    return f"a batch spills {spilled / 2**20:.0f} MB to disk: more memory, or more partitions" if spilled else None


def _skew(seen: Evidence) -> str | None:
    skew = seen.middle("task_skew")
    return (
        f"the slowest task takes {skew:.1f} × the median one: more executors will not help until keys are spread better"
        if skew is not None and skew > 3
        else None
    )


def _failures(seen: Evidence) -> str | None:
    failed = seen.table.column("tasks_failed") if "tasks_failed" in seen.table.names else np.zeros(0)
    total = float(np.nansum(failed)) if len(failed) else 0.0
    if not total:
        return None
    starved = seen.table.column("tasks_out_of_memory") if "tasks_out_of_memory" in seen.table.names else np.zeros(0)
    of_memory = float(np.nansum(starved)) if len(starved) else 0.0
    if of_memory:
        return f"{total:.0f} tasks failed, {of_memory:.0f} of them for lack of memory: give executors more memory"
    return f"{total:.0f} tasks failed or were killed: look at the executors' logs"


def _driver(seen: Evidence) -> str | None:
    for target, drivers in seen.drivers.items():
        strong = [driver for driver in drivers[:1] if driver.significant and driver.score > 0.5]
        if strong and target in ("latency_p99_s", "batch_duration_s"):
            return f"{target} moves with {strong[0].name} (ρ = {strong[0].spearman:.2f}): look there first"
    return None


RULES: dict[str, Rule] = {
    "overload": _overload,
    "idle": _idle,
    "fixed-cost": _fixed_cost,
    "garbage-collection": _garbage,
    "fetch-wait": _fetch,
    "spill": _spill,
    "skew": _skew,
    "failures": _failures,
    "driver": _driver,
}
