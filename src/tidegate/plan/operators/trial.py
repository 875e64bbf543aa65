"""Judges a rescale: did the parallelism change, did it help as predicted, should it be reverted?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tidegate.evaluate.bottleneck import ApplicationMetrics, OperatorMetrics
from tidegate.plan.operators.memory import ApplicationMemory, Trial, Useless
from tidegate.plan.operators.rescale import Change

FAIR_PART = 1 / 3
"""Share of the predicted gain that must show. Caches, other queries and shared cores take the rest."""
JUDGED_BATCHES = 5
"""Number of latest batches by which a rescale is judged."""
_SETTLED_BATCHES = 8  # after a restart, caches and processes stay cold for longer than the first batch
_PATIENCE_S = 30.0
_LONGER_BATCH = 4.0
_HARM = 1.05
_NEGLIGIBLE = 0.01
_WASTE = 1.25
_OTHER_LOAD = 1.5
_FIXED_AFTER = 2  # ignored requests


@dataclass(frozen=True, slots=True)
class TrialVerdict:
    """The result of a trial, by operator. `back` holds parallelisms to return to."""

    helped: dict[str, str]
    useless: dict[str, Useless]
    back: dict[str, int]


def begin(change: Change, after: Mapping[str, int], now_s: float) -> Trial:
    """Start the trial of the accepted part of a change: `after`, by operator."""
    metrics, rescaling = change.metrics, change.rescaling
    touched = [operator for operator in metrics.operators if operator.name in after]
    return Trial(
        asked_s=now_s,
        before={operator.name: operator.parallelism for operator in touched},
        after=dict(after),
        rows=metrics.rows,
        execute_s={operator.name: operator.execute_latency_s for operator in touched},
        predicted_s={operator.name: rescaling.execute_s[operator.name] for operator in touched},
        busy_s={operator.name: operator.busy_s for operator in touched},
        pause_s=change.pause_s,
        stateful=any(operator.stateful for operator in touched),
        batch_s=metrics.batch_s,
        failed_tasks=change.failed_tasks,
        reversal=change.reversal,
    )


def ignoring(trial: Trial, metrics: ApplicationMetrics | None, now_s: float) -> list[str]:
    """Operators that still run with the old parallelism after a restart, or after enough time for one."""
    if metrics is None or not (trial.restarted or _overdue(trial, now_s)):
        return []
    now = {operator.name: operator.parallelism for operator in metrics.operators}
    return [name for name, wanted in trial.after.items() if now.get(name) != wanted]


def settled(trial: Trial, metrics: ApplicationMetrics | None) -> bool:
    """Have enough batches run with the requested parallelism?"""
    if metrics is None or metrics.batches < _SETTLED_BATCHES:
        return False
    now = {operator.name: operator.parallelism for operator in metrics.operators}
    return all(now.get(name) == wanted for name, wanted in trial.after.items())


def judge(trial: Trial, metrics: ApplicationMetrics, slots: int) -> TrialVerdict:
    """Compare prediction and measurement, both scaled to the current batch size."""
    scale = metrics.rows / trial.rows if trial.rows else 1.0
    helped: dict[str, str] = {}
    useless: dict[str, Useless] = {}
    back: dict[str, int] = {}
    for operator in metrics.operators:
        name = operator.name
        if name not in trial.after:
            continue
        before_s, promised_s = trial.execute_s[name] * scale, trial.predicted_s[name] * scale
        after_s = operator.execute_latency_s
        change = f"{name} {trial.before[name]} → {trial.after[name]} tasks: {before_s:.2f} → {after_s:.2f} s a batch"
        promised = before_s - promised_s > _NEGLIGIBLE * before_s or not trial.failed_tasks
        if trial.reversal or (promised and before_s - after_s >= FAIR_PART * (before_s - promised_s)):
            helped[name] = f"{change} ({promised_s:.2f} s predicted)"
            continue
        if trial.failed_tasks and metrics.failed_tasks <= (1 - FAIR_PART) * trial.failed_tasks:
            helped[name] = f"{change}, failed tasks a batch: {trial.failed_tasks:.1f} → {metrics.failed_tasks:.1f}"
            continue
        text = f"{trial.after[name]} tasks did not help ({change}, {promised_s:.2f} s predicted)"
        costs_s = [trial.busy_s[name] / max(trial.rows, 1.0), operator.busy_s / max(metrics.rows, 1.0)]
        useless[name] = Useless(text, metrics.rows_per_s, costs_s, slots)
        if after_s > _HARM * before_s or costs_s[1] > _WASTE * costs_s[0]:
            back[name] = trial.before[name]
    return TrialVerdict(helped, useless, back)


def still_useless(useless: Useless, operator: OperatorMetrics, metrics: ApplicationMetrics, slots: int) -> bool:
    """Does the verdict still hold, or have load, cost or slots changed enough for another try?"""
    cost_s = operator.busy_s / max(metrics.rows, 1.0)
    same_cost = any(not _differs(cost_s, known_s) for known_s in useless.busy_s_per_row)
    same_pool = not _differs(slots, useless.slots)
    return same_cost and same_pool and not _differs(metrics.rows_per_s, useless.rows_per_s)


def refusals(memory: ApplicationMemory) -> dict[str, str]:
    """Operators whose parallelism did not change although it was requested twice."""
    return {
        name: f"its parallelism did not change after {count} requests: it is fixed"
        for name, count in memory.parallelism_ignored.items()
        if count >= _FIXED_AFTER
    }


def _overdue(trial: Trial, now_s: float) -> bool:
    """A restart waits for the running batch, and a pool that is behind runs long batches."""
    return now_s > trial.asked_s + trial.pause_s + _PATIENCE_S + _LONGER_BATCH * trial.batch_s


def _differs(now: float, then: float) -> bool:
    return now > _OTHER_LOAD * then or now * _OTHER_LOAD < then
