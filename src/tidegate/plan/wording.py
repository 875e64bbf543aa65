"""Explains a pool size in words, with the numbers that led to it."""

from __future__ import annotations

from tidegate.domain import Reason
from tidegate.evaluate.evaluation import ApplicationEvaluation, Evaluation
from tidegate.evaluate.quality import running_text
from tidegate.plan.demand import busy_slots
from tidegate.plan.hindsight import Need
from tidegate.plan.outcomes import Outcomes

_MATTERS = 0.05
"""Price or utility, as a share of the cost of the largest pool, above which a reason mentions it."""


def account_of(
    usable: list[ApplicationEvaluation], outcomes: Outcomes, now: int, wanted: int, slots_per_executor: int
) -> str:
    """The numbers behind the size, for the application with the most to lose."""
    at, then = outcomes.at(now), outcomes.at(wanted)
    worst = max(usable, key=lambda seen: float(outcomes.late_share[seen.name][at]))
    workload = worst.workload
    assert workload is not None
    there = now * slots_per_executor
    text = (
        f"{worst.name} needs {slots_account(workload.expected_rows_per_s, workload.cost.row_s, busy_slots(worst))} "
        f"and has {there}; {workload.pending_rows:.0f} rows wait; "
        f"{share(outcomes.late_share[worst.name][at])} of the rows would exceed {worst.objective.latency_s:g} s"
    )
    if wanted != now:
        text += f" with {executors(now)}, {share(outcomes.late_share[worst.name][then])} with {wanted}"
    return text + _required(outcomes, now, wanted)


def _required(outcomes: Outcomes, now: int, wanted: int) -> str:
    """The row of a QoS table that costs the most, and the QoS graphs that gain the most, if they matter."""
    at, then = outcomes.at(now), outcomes.at(wanted)
    text = ""
    row = max(outcomes.rows, key=lambda row: max(row.price[at], row.price[then]), default=None)
    if row is not None and max(row.price[at], row.price[then]) >= _MATTERS:
        text += f"; the QoS table of {row.application} has {row.row}: {share(row.over_share[at])} would exceed it"
        text += f" with {executors(now)}, {share(row.over_share[then])} with {wanted}" if wanted != now else ""
    if outcomes.utility and wanted != now:
        name, utility = max(outcomes.utility.items(), key=lambda one: abs(one[1][then] - one[1][at]))
        if abs(utility[then] - utility[at]) >= _MATTERS:
            text += f"; the QoS graphs of {name} give {utility[at]:.2f} with {executors(now)}, "
            text += f"{utility[then]:.2f} with {wanted}"
    return text


def slots_account(rows_per_s: float, row_s: float, busy: float) -> str:
    """The slots that rows and batches keep busy, as a sum whose parts add up as printed.

    >>> slots_account(60, 0.01046, busy=1.36)
    '1.4 slots (60 rows/s at 10.46 ms = 0.6, plus 0.8 for the fixed cost of batches)'
    >>> slots_account(667, 0.00264, busy=1.8)
    '1.8 slots (667 rows/s at 2.64 ms)'
    """
    total, rows = round(busy, 1), round(rows_per_s * row_s, 1)
    work = f"{rows_per_s:.0f} rows/s at {1e3 * row_s:.2f} ms"
    fixed = f" = {rows:.1f}, plus {total - rows:.1f} for the fixed cost of batches" if total > rows else ""
    return f"{total:.1f} slots ({work}{fixed})"


def long_batch(usable: list[ApplicationEvaluation], now_s: float) -> str:
    """The batch that has been running for longer than its objective, if there is one."""
    for seen in usable:
        batch = seen.sample.running_batch
        if batch is not None and now_s - batch.started_s > seen.objective.latency_s:
            return f"; {seen.name}: {running_text(batch, now_s)}"
    return ""


def executors(count: int) -> str:
    return "1 executor" if count == 1 else f"{count} executors"


def share(value: float) -> str:
    return f"{100 * value:.1f} %" if value >= 0.0005 else "none"


def nothing_to_plan(evaluation: Evaluation) -> Reason:
    for seen in evaluation.applications:
        if seen.distrust is not None:
            return seen.distrust
    if not evaluation.pool.slots and evaluation.samples:
        return Reason("hold-no-executors", "no executor is registered")
    if evaluation.applications:
        return Reason("hold-learning", "too few batches seen yet")
    return Reason("hold-no-application", "no streaming query is running")


def in_hindsight(need: Need) -> str:
    """
    >>> in_hindsight(Need(4, "orders", late_share=0.042, known_s=1800.0))
    'with 3 executors, 4.2 % of the rows of orders in the last 30 min would have been over its objective'
    >>> in_hindsight(Need(2, "orders", late_share=0.042, known_s=25.0))
    'with 1 executor, 4.2 % of the rows of orders in the last 25 s would have been over its objective'
    """
    bound = f"its QoS table's {need.row}" if need.row else "its objective"
    late = f"with {executors(need.size - 1)}, {share(need.late_share)} of the rows of {need.application}"
    span = f"{need.known_s / 60:.0f} min" if need.known_s >= 90 else f"{need.known_s:.0f} s"
    return f"{late} in the last {span} would have been over {bound}"
