"""Whether a sample can be acted on. Acting on broken metrics is worse than not acting."""

from __future__ import annotations

from tidegate.domain import ApplicationSample, Reason
from tidegate.monitor.workload import WorkloadMemory


def distrust(sample: ApplicationSample, memory: WorkloadMemory, now_s: float, max_age_s: float) -> Reason | None:
    """Why this application's metrics must not be acted on, or None where they may be."""
    if sample.error is not None:
        return Reason("metrics-failed", f"{sample.name}: the query failed ({sample.error}); restart it")
    if not sample.running:
        return Reason("metrics-ended", f"{sample.name}: the query is not running")
    if sample.last_progress_s is None:
        return Reason("metrics-missing", f"{sample.name}: no progress yet")
    age_s = now_s - sample.last_progress_s
    if age_s > max_age_s:
        return Reason("metrics-stale", f"{sample.name}: last progress is {age_s:.0f} s old (limit {max_age_s:.0f} s)")
    if not memory.points and memory.cost is None:
        return Reason("metrics-missing", f"{sample.name}: no batch with rows yet")
    last = memory.points[-1] if memory.points else None
    if last and last.rows == 0 and last.arrived_rows > memory.rows_done:
        return Reason(
            "metrics-zero", f"{sample.name}: no rows in although rows wait: the count is broken, or the source is stuck"
        )
    if memory.cost is None:
        return Reason("metrics-missing", f"{sample.name}: too few batches with task times yet")
    return None
