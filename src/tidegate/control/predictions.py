"""Keeps the predictions of decisions and compares them with what was measured later."""

from __future__ import annotations

from tidegate.control.knowledge import Outstanding
from tidegate.domain import Decision, Judgement
from tidegate.evaluate.evaluation import Evaluation
from tidegate.evaluate.table import Table

MOST_OUTSTANDING = 64


def expect(outstanding: list[Outstanding], decision: Decision, table: Table) -> None:
    """Remember the predictions of a decision that was carried out. A newer prediction replaces an older one."""
    for prediction in decision.predictions:
        row = table.row(prediction.application)
        if row is None:
            continue
        outstanding[:] = [one for one in outstanding if one.prediction.application != prediction.application]
        rows, late_rows = float(table["rows_total"][row]), float(table["late_total"][row])
        outstanding.append(Outstanding(decision.step, prediction, rows, late_rows))
    del outstanding[:-MOST_OUTSTANDING]


def judge(outstanding: list[Outstanding], evaluation: Evaluation, table: Table) -> tuple[Judgement, ...]:
    """Track the measurements, and return the outcome of every prediction that fell due."""
    if not outstanding:
        return ()
    judged: list[Judgement] = []
    left: list[Outstanding] = []
    for one in outstanding:
        place, row = evaluation.places.get(one.prediction.application), table.row(one.prediction.application)
        if place is None or row is None:
            continue  # the application has ended, so there is nothing to compare
        for batch in evaluation.samples[place].batches:
            if batch.latency is not None:
                one.worst_p99_s = max(one.worst_p99_s, batch.latency.p99_s)
        if evaluation.time_s < one.prediction.due_s:
            left.append(one)
            continue
        rows = float(table["rows_total"][row]) - one.rows
        late_rows = float(table["late_total"][row]) - one.late_rows
        measured = (one.worst_p99_s, late_rows / rows) if rows > 0 else (None, None)
        judged.append(Judgement(one.step, one.prediction, *measured))
    outstanding[:] = left
    return tuple(judged)
