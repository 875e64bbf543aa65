"""One application, in plain numbers: what `workload`, `lateness` and `quality` compute for columns.

Most drivers run one query, and an array operation on one element costs ten times as much as a plain number. The
formulas are explained beside the columns. `tests/evaluate/test_alone.py` compares the two to the last bit. Exponentials
and logarithms are NumPy's here too, because other libraries round differently.
"""

from __future__ import annotations

from math import floor, isnan, nan, sqrt

import numpy as np

from tidegate.evaluate import lateness, outliers, quality, workload
from tidegate.evaluate.intake import Batches, Intake
from tidegate.evaluate.lateness import BUCKETS, Budgets, Promises
from tidegate.evaluate.table import Ints, Table
from tidegate.evaluate.workload import Loads, SetAside


def stands_alone(intake: Intake) -> bool:
    """Is there only one application, and does its source count rows? Inference from batches is left to the columns."""
    return len(intake.rows) == 1 and not isnan(intake.arrived.item(0))


def learn(table: Table, intake: Intake, promises: Promises, settled_s: float) -> tuple[SetAside, ...]:
    """Like `workload.learn` and `lateness.learn`. Also learns the tasks if they are unknown."""
    row, aside = int(intake.rows[0]), []
    for batches in intake.rounds:
        aside += _learn_batch(table, row, batches, settled_s)
        _count_late(table, row, batches, promises)
        if isnan(table["parallelism"].item(row)):
            workload.learn_tasks(table, row, batches.sample(0))
    _learn_arrivals(table, row, intake.arrival_s.item(0), intake.arrived.item(0))
    return tuple(aside)


def read(table: Table, intake: Intake, now_s: float) -> Loads:
    """Like `workload.read`."""
    row, under_way = int(intake.rows[0]), intake.under_way
    last_count_s, _, fast, slow, counted_s, _, rising_s = table.cells("arrived_s", "rising_s", row)
    _, started_s, committed_s, _, waiting = table.cells("rows_done", "waiting", row)
    batch_s, row_s, overhead_s, parallelism = table.cells("batch_s", "parallelism", row)
    slow, fast = max(slow, 0.0), max(fast, 0.0)
    expected, gain = max(slow, fast), fast - slow
    if rising_s >= workload.STEADY_S:
        ahead = fast + workload.PER_GAIN * gain * (workload.FAST_S + workload.TREND_LEAD_S)
        expected = min(ahead, workload.TREND_LEAP * expected)
    last_batch_s, waited_s = committed_s - started_s, max(now_s - started_s, 0.0)
    if not intake.in_batch.item(0):
        waited_s = min(waited_s, last_batch_s + intake.status.interval_s.item(0))
    if under_way is not None and not isnan(under_way.started_s.item(0)):
        usual_s = min(under_way.started_s.item(0) - started_s, last_batch_s + intake.status.interval_s.item(0))
        waited_s = min(waited_s, now_s - under_way.started_s.item(0) + max(usual_s, 0.0))
    pending, last_batch_s = max(0.0, waiting + fast * waited_s), max(0.0, last_batch_s)
    if under_way is not None:
        begun_s, rows, queued = under_way.started_s.item(0), under_way.rows.item(0), under_way.waiting.item(0)
        spent_s, whole_s = under_way.spent_s.item(0), under_way.expected_s.item(0)
        last_batch_s = max(last_batch_s, now_s - begun_s)
        started_s = begun_s if isnan(started_s) else started_s
        counted = queued + max(0.0, rows)
        pending = pending if isnan(counted) else counted
        if now_s - begun_s > workload.TELLING_S and rows > 0:
            per_row = 1.0 / rows
            if not isnan(row_s):
                row_s = max(row_s, spent_s * per_row)
            elif spent_s >= workload.FIRST_BUSY_S and not isnan(whole_s):
                batch_s, row_s, overhead_s = 0.0, whole_s * per_row, workload.FIRST_OVERHEAD_S
    since_s = now_s - workload.LATENCY_WINDOW_S
    recent = zip(table["recent_s"][:, row].tolist(), table["recent_p99_s"][:, row].tolist(), strict=True)
    p99_s = max([one_s for time_s, one_s in recent if time_s >= since_s], default=nan)
    known = not isnan(row_s) and not isnan(started_s) and counted_s > 0
    figures = (slow, expected, fast, pending, batch_s, row_s, overhead_s, parallelism, last_batch_s, p99_s)
    columns = np.array((*figures, last_count_s))[:, None]
    return Loads(
        arrival=columns[0],
        expected=columns[1],
        newest=columns[2],
        pending=columns[3],
        batch_s=columns[4],
        row_s=columns[5],
        overhead_s=columns[6],
        parallelism=columns[7],
        last_batch_s=columns[8],
        p99_s=columns[9],
        last_count_s=columns[10],
        known=np.array([known]),
    )


def budgets(table: Table, intake: Intake, promises: Promises, now_s: float) -> Budgets:
    """Like `lateness.read`. Rows are whole numbers, so the order of addition makes no difference."""
    if np.count_nonzero(table["bucket_late"]):
        return lateness.read(table, intake, promises, now_s)
    row = int(intake.rows[0])
    oldest = floor(now_s / (promises.window_s.item(0) / BUCKETS)) - BUCKETS
    buckets = zip(table["bucket"][:, row].tolist(), table["bucket_rows"][:, row].tolist(), strict=True)
    rows = sum([rows for bucket, rows in buckets if bucket > oldest])
    return Budgets(np.array([rows], dtype=np.float64), np.zeros(1), promises.allowed)


def judge(table: Table, intake: Intake, row_s: float, now_s: float, max_age_s: float) -> Ints:
    """Like `quality.judge`."""
    _, started_s, _, size, waiting = table.cells("rows_done", "waiting", int(intake.rows[0]))
    last_s, status, free = intake.last_progress_s.item(0), intake.status, isnan(row_s)
    seen = intake.under_way is not None and not isnan(intake.under_way.started_s.item(0))
    against = (
        status.failed.item(0),
        not status.running.item(0),
        isnan(last_s) and (free or not seen),
        not seen and now_s - last_s > max_age_s,
        isnan(started_s) and free,
        not isnan(started_s) and size == 0 and waiting > 0,
        free,
    )
    return np.array([1 + against.index(True) if True in against else quality.USABLE])


def _learn_batch(table: Table, row: int, batches: Batches, settled_s: float) -> list[SetAside]:
    started_s, duration_s = batches.started_s.item(0), batches.duration_s.item(0)
    size, busy_s = batches.size.item(0), batches.busy_s.item(0)
    overhead, p99_s, committed_s = batches.overhead_s.item(0), batches.p99_s.item(0), started_s + duration_s
    done, _, last_s, _, _ = table.cells("rows_done", "waiting", row)
    since_s = max(duration_s, committed_s - last_s)
    table.put("rows_done", "waiting", row, (done + size, started_s, committed_s, size, batches.backlog.item(0)))
    batch_s, row_s, overhead_s = table.cells("batch_s", "overhead_s", row)
    known = not isnan(row_s)
    cold = batches.warming.item(0) or (known and started_s < settled_s)
    timed = not isnan(busy_s) and size > 0 and not cold
    ratios = (0.0, 0.0)
    if timed and known:
        expected = batch_s + size * row_s
        ratios = (busy_s / expected if expected > 0 else 0.0, overhead / max(overhead_s, 1e-3))
    beliefs = table.cells("cost_count", "overhead_episode", row)
    cost, outside = beliefs[:4], beliefs[4:]
    odd = (outliers.set_aside_one(cost, ratios[0]), outliers.set_aside_one(outside, ratios[1]))
    table.put("cost_count", "overhead_episode", row, cost + outside)
    if timed and True not in odd:
        _fit(table, row, size, busy_s, overhead, since_s)
    if not isnan(p99_s):
        at = int(table["recent_at"].item(row))
        table["recent_s"][at, row], table["recent_p99_s"][at, row] = committed_s, p99_s
        table["recent_at"][row] = (at + 1) % workload.RECENT
    return [
        SetAside(row, batches.sample(0).batch_id, metric, ratio)
        for metric, strange, ratio in zip(("cost", "overhead"), odd, ratios, strict=True)
        if strange
    ]


def _fit(table: Table, row: int, size: float, busy: float, overhead: float, since_s: float) -> None:
    cells = table.cells("weight", "overhead_s", row)
    sums, (least, count, timed_busy, batch_s, row_s, overhead_s) = cells[:6], cells[6:]
    discount = max(float(np.exp(-since_s / workload.COST_MEMORY_S)), 1 - 1 / workload.COST_MEMORY_BATCHES)
    news = (1.0, size, busy, size * size, size * busy, max(0.0, overhead))
    sums = [discount * known + new for known, new in zip(sums, news, strict=True)]
    count, timed_busy, least = count + 1, timed_busy + busy, min(busy, least * 1.02)
    mean_rows, mean_busy, mean_squared, mean_product, mean_overhead = [value / sums[0] for value in sums[1:]]
    variance = mean_squared - mean_rows * mean_rows
    spread = workload.SPREAD * mean_rows
    fixed = max(0.0, batch_s)
    if count >= workload.LEAST_BATCHES and variance > spread * spread:
        fixed = mean_busy - (mean_product - mean_rows * mean_busy) / variance * mean_rows
    fixed = min(max(fixed, 0.0), min(least, workload.MOST_FIXED * mean_busy))
    if count >= workload.FIRST_BATCHES or timed_busy >= workload.FIRST_BUSY_S or not isnan(row_s):
        batch_s, row_s, overhead_s = fixed, (mean_busy - fixed) / mean_rows, mean_overhead
    table.put("weight", "overhead_s", row, (*sums, least, count, timed_busy, batch_s, row_s, overhead_s))


def _learn_arrivals(table: Table, row: int, time_s: float, arrived: float) -> None:
    last_s, last, fast, slow, counted_s, noise, rising_s, steepest = table.cells("arrived_s", "steepest", row)
    if isnan(last_s) or arrived < last:
        table.put("arrived_s", "arrived", row, (time_s, arrived))
        return
    if not time_s > last_s:
        return
    span_s = time_s - last_s
    rate = (arrived - last) / span_s
    off = rate - (fast + workload.FAST_S * workload.PER_GAIN * (fast - slow)) if counted_s else 0.0
    counted_s += span_s
    least = span_s / max(counted_s, span_s)
    fast += max(1 - float(np.exp(-span_s / workload.FAST_S)), least) * (rate - fast)
    slow += max(1 - float(np.exp(-span_s / workload.SLOW_S)), least) * (rate - slow)
    noise += max(1 - float(np.exp(-span_s / (4 * workload.SLOW_S))), least) * (off * off * span_s - noise)
    gain = fast - slow
    significant = gain > workload.SIGNIFICANT * sqrt(noise * workload.GAIN_VARIANCE)
    rising = significant and gain >= workload.STEADY * steepest
    rising_s, steepest = (rising_s + span_s, max(steepest, gain)) if rising else (0.0, 0.0)
    table.put("arrived_s", "steepest", row, (time_s, arrived, fast, slow, counted_s, noise, rising_s, steepest))


def _count_late(table: Table, row: int, batches: Batches, promises: Promises) -> None:
    max_s, size = batches.max_s.item(0), batches.size.item(0)
    if isnan(max_s) or batches.warming.item(0):
        return
    bound_s, latency, late = promises.latency_s.item(0), batches.sample(0).latency, 0.0
    if latency is not None and max_s > bound_s:
        late = latency.rows * lateness.late_share(latency, bound_s)
    committed_s = batches.started_s.item(0) + batches.duration_s.item(0)
    number = floor(committed_s / (promises.window_s.item(0) / BUCKETS))
    slot = number % BUCKETS
    if table["bucket"].item(slot, row) != number:
        table["bucket"][slot, row] = number
        table["bucket_rows"][slot, row] = table["bucket_late"][slot, row] = 0.0
    table["bucket_rows"][slot, row] += size
    table["rows_total"][row] += size
    if late:
        table["bucket_late"][slot, row] += late
        table["late_total"][row] += late
