"""Keeps the predictions of decisions and compares them with what was measured later.

Nothing that decides reads what is kept here. A prediction is about one configuration, and about the rows that waited
when it was made or arrived until it fell due. It is judged when those rows have been committed. Until then it is kept,
and later predictions for the same application are not. If the configuration changes first, it is void.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan, log

from tidegate.control.knowledge import Outstanding
from tidegate.domain import (
    Action,
    Decision,
    Judgement,
    LatencySample,
    MoveApplication,
    ScaleExecutors,
    SetBatchInterval,
    SetParallelism,
)
from tidegate.evaluate.evaluation import Evaluation
from tidegate.evaluate.table import Table

MOST_OUTSTANDING = 64
_PATIENCE_S = 300.0
"""The rows of a prediction that fell due are waited for no longer than this."""
_STEP = log(1.05)
"""Latencies are counted in logarithmic steps of 5 %, so a measured quantile is off by 2.5 % at most."""


def expect(
    outstanding: list[Outstanding],
    decision: Decision,
    evaluation: Evaluation,
    table: Table,
    refused: Sequence[Action] = (),
) -> None:
    """Remember what a decision predicts for the configuration that it leads to, and drop what it makes void."""
    done = [action for action in decision.actions if action not in refused]
    sizes = [action.target for action in done if isinstance(action, ScaleExecutors)]
    executors = sizes[0] if sizes else evaluation.pool.requested
    restarted = {action.application for action in done if isinstance(action, SetParallelism | MoveApplication)}
    intervals = {action.application: action.interval_s for action in done if isinstance(action, SetBatchInterval)}
    outstanding[:] = [
        one
        for one in outstanding
        if one.prediction.executors == executors and one.prediction.application not in restarted | intervals.keys()
    ]
    known = {one.prediction.application for one in outstanding} | restarted
    for prediction in decision.predictions:
        name = prediction.application
        row = table.row(name)
        # Guards may have held back the size or the interval that it was made for.
        stands = prediction.executors == executors and prediction.interval_s == intervals.get(name)
        if not stands or row is None or name in known or len(outstanding) >= MOST_OUTSTANDING:
            continue
        known.add(name)
        rows, late_rows = float(table["rows_total"][row]), float(table["late_total"][row])
        outstanding.append(Outstanding(decision.step, prediction, rows, late_rows, evaluation.pool.requested))


def judge(outstanding: list[Outstanding], evaluation: Evaluation, table: Table) -> tuple[Judgement, ...]:
    """Track the measurements, and return the outcome of every prediction whose rows have been committed."""
    if not outstanding:
        return ()
    judged: list[Judgement] = []
    left: list[Outstanding] = []
    for one in outstanding:
        row = table.row(one.prediction.application)
        if row is None or _is_void(one, evaluation):
            continue
        if not _is_complete(one, evaluation):
            left.append(one)
            continue
        rows = float(table["rows_total"][row]) - one.rows
        late_rows = float(table["late_total"][row]) - one.late_rows
        measured = (_p99_s(one.latencies), late_rows / rows) if rows > 0 and one.latencies else (None, None)
        judged.append(Judgement(one.step, one.prediction, *measured))
    outstanding[:] = left
    return tuple(judged)


def _is_void(one: Outstanding, evaluation: Evaluation) -> bool:
    """Has the application ended, was it restarted, or does the pool have a size that it was not made for?"""
    place, requested = evaluation.places.get(one.prediction.application), evaluation.pool.requested
    if place is None:
        return True
    sample, due = evaluation.samples[place], evaluation.time_s >= one.prediction.due_s
    if sample.rebalancing or sample.rebalance is not None:
        return one.prediction.interval_s is None  # a new interval may need a restart
    # A shrink waits for a pause between two batches.
    return requested != one.prediction.executors and (due or requested != one.executors_before)


def _is_complete(one: Outstanding, evaluation: Evaluation) -> bool:
    """Count the latencies of new batches. Have all rows been committed that arrived until it fell due?"""
    place, time_s = evaluation.places[one.prediction.application], evaluation.time_s
    for batch in evaluation.samples[place].batches:
        if batch.latency is not None and not batch.warming:
            _count(one.latencies, batch.latency)
        if one.open_rows is not None:
            one.open_rows -= batch.rows
    if time_s < one.prediction.due_s:
        return False
    if one.open_rows is None:
        pending = evaluation.loads.pending.item(place)
        one.open_rows = 0.0 if isnan(pending) else pending
    return one.open_rows < 1.0 or time_s >= one.prediction.due_s + _PATIENCE_S


def _count(latencies: dict[int, float], seen: LatencySample) -> None:
    """Add the rows of a batch to those counted by latency. Between known quantiles its tail falls exponentially."""
    p50_s, p90_s, p99_s = seen.p50_s, seen.p90_s, seen.p99_s
    at_s = (p50_s, (p50_s + p90_s) / 2, p90_s, (p90_s + p99_s) / 2, p99_s, seen.max_s)
    for latency_s, share in zip(at_s, (0.5, 0.2764, 0.1236, 0.0684, 0.0216, 0.01), strict=True):
        step = round(log(max(latency_s, 1e-3)) / _STEP)
        latencies[step] = latencies.get(step, 0.0) + share * seen.rows


def _p99_s(latencies: dict[int, float]) -> float:
    """The latency that 99 % of the rows did not exceed.

    >>> latencies: dict[int, float] = {}
    >>> _count(latencies, LatencySample(rows=9900, p50_s=1.0, p90_s=1.0, p99_s=1.0, max_s=1.0))
    >>> _count(latencies, LatencySample(rows=50, p50_s=9.0, p90_s=9.0, p99_s=9.0, max_s=9.0))
    >>> _p99_s(latencies)
    1.0
    >>> _count(latencies, LatencySample(rows=60, p50_s=9.0, p90_s=9.0, p99_s=9.0, max_s=9.0))
    >>> round(_p99_s(latencies))
    9
    """
    above = 0.01 * sum(latencies.values()) * (1 + 1e-9)
    found = 0
    for step in sorted(latencies, reverse=True):
        found, above = step, above - latencies[step]
        if above < 0:
            break
    return round(float(1.05**found), 3)
