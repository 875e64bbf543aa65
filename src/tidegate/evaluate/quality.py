"""Whether an application's metrics can be acted on. Acting on broken metrics is worse than not acting."""

from __future__ import annotations

import numpy as np

from tidegate.domain import ApplicationSample, Reason, RunningBatch
from tidegate.evaluate.intake import Intake
from tidegate.evaluate.table import Floats, Ints, Table

USABLE = 0
_CODES = {
    1: "metrics-failed",
    2: "metrics-ended",
    3: "metrics-missing",
    4: "metrics-stale",
    5: "metrics-missing",
    6: "metrics-zero",
    7: "metrics-missing",
}
_TEXTS = {
    1: "the query failed ({error}); restart it",
    2: "the query is not running",
    3: "no progress report yet{batch}",
    4: "the last progress report is {age:.0f} s old (limit {limit:.0f} s)",
    5: "no batch with rows yet{batch}",
    6: "no rows came in although rows wait: the count is broken, or the source is stuck",
    7: "too few batches with task times yet{batch}",
}


def judge(table: Table, intake: Intake, row_s: Floats, now_s: float, max_age_s: float) -> Ints:
    """A code for each application: `USABLE`, or the first problem with its metrics.

    `row_s` is the cost of a row, NaN if unknown. A batch that is seen to run keeps the metrics fresh, however long it
    takes.
    """
    _, started_s, _, size, waiting = table.gather(table.span("rows_done", "waiting"), intake.rows)
    unseen, free = np.isnan(started_s), np.isnan(row_s)
    silent, age_s = np.isnan(intake.last_progress_s), now_s - intake.last_progress_s
    if intake.under_way is not None:
        silent = silent & (free | ~intake.under_way.seen)
        age_s = np.where(intake.under_way.seen, 0.0, age_s)
    against = np.array(
        [
            intake.status.failed,
            ~intake.status.running,
            silent,
            age_s > max_age_s,
            unseen & free,
            ~unseen & (size == 0) & (waiting > 0),
            free,
        ]
    )
    if not np.count_nonzero(against):
        return np.full(len(intake.rows), USABLE)
    # The first problem counts.
    return np.where(against.any(axis=0), 1 + against.argmax(axis=0), USABLE)


def reason(code: int, sample: ApplicationSample, now_s: float, max_age_s: float) -> Reason | None:
    """The code in words; None if the metrics are usable."""
    if code == USABLE:
        return None
    age_s = now_s - (sample.last_progress_s or now_s)
    batch = sample.running_batch
    running = "" if batch is None else f"; {running_text(batch, now_s)}"
    text = _TEXTS[code].format(error=sample.error, age=age_s, limit=max_age_s, batch=running)
    return Reason(_CODES[code], f"{sample.name}: {text}")


def running_text(batch: RunningBatch, now_s: float) -> str:
    """The progress of a batch, in words.

    >>> running_text(RunningBatch(100.0, 5000, tasks_done=3, tasks_left=5), 142.0)
    'a batch of 5000 rows has been running for 42 s, 3 of 8 tasks done'
    """
    size = "a batch" if batch.rows is None else f"a batch of {batch.rows} rows"
    tasks = batch.tasks_done + batch.tasks_left
    done = f", {batch.tasks_done} of {tasks} tasks done" if tasks else ", still being planned"
    planned = " (planned before the restart, so Spark repeats it whole)" if batch.replayed else ""
    return f"{size}{planned} has been running for {max(0.0, now_s - batch.started_s):.0f} s{done}"
