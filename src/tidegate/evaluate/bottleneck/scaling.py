"""How long a stage would take with another number of tasks, and which number is best.

    t(n) = max(W · share(n), ⌈n / slots⌉ · W / n) + ⌈n / slots⌉ · o

W is the work in slot-seconds, o the slot-seconds to start a task, and share(n) = h + (1 − h) / n the part of the rows
in the fullest partition if a share h has the same key. Only ratios are used: the prediction is the measured time × t(n)
/ t(now), so waiting for slots held by others is carried over.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from math import ceil

from tidegate.evaluate.bottleneck.metrics import ApplicationMetrics, OperatorMetrics
from tidegate.evaluate.bottleneck.times import largest_share

_NEGLIGIBLE = 0.01  # of a batch: below this gain fewer tasks are preferred
_WORTH_MENTION = 0.02  # of a batch: an operator with a smaller gain stays as it is


@dataclass(frozen=True, slots=True)
class StageScaling:
    """One operator's stage as a function of its tasks.

    >>> even = StageScaling("split", 1, work_s=1.2, task_overhead_s=0.02, hot_share=0.0, measured_s=1.22)
    >>> [round(even.predict_s(tasks, slots=6), 2) for tasks in (1, 3, 6, 7, 60)]
    [1.22, 0.42, 0.22, 0.38, 0.4]
    >>> hot = StageScaling("join", 4, work_s=1.0, task_overhead_s=0.0, hot_share=0.6, measured_s=0.7)
    >>> round(hot.predict_s(16, slots=16), 3)
    0.625
    """

    operator: str
    parallelism: int
    work_s: float
    task_overhead_s: float
    hot_share: float
    measured_s: float

    def predict_s(self, tasks: int, slots: int) -> float:
        """Predicted time of the stage with this many tasks."""
        now = self._model_s(self.parallelism, slots)
        return self.measured_s * self._model_s(tasks, slots) / now if now > 0 else self.measured_s

    def _model_s(self, tasks: int, slots: int) -> float:
        waves = ceil(tasks / max(1, slots))
        fullest = self.work_s * (self.hot_share + (1 - self.hot_share) / tasks)
        return max(fullest, waves * self.work_s / tasks) + waves * self.task_overhead_s


@dataclass(frozen=True, slots=True)
class Rescaling:
    """New parallelisms for some operators of an application, and the gain per batch."""

    before: dict[str, int]
    after: dict[str, int]
    execute_s: dict[str, float]
    """Predicted execute latency of the changed operators."""
    gain_s: float


def stage_scaling(operator: OperatorMetrics, task_overhead_s: float) -> StageScaling:
    """The scaling of an operator's stage, from its metrics. A hot key shows only if there are several partitions."""
    tasks = operator.parallelism
    share = largest_share(operator)
    hot_share = max(0.0, (share - 1 / tasks) / (1 - 1 / tasks)) if tasks > 1 else 0.0
    overhead_s = min(task_overhead_s, operator.busy_s / tasks)
    work_s = max(0.0, operator.busy_s - tasks * overhead_s)
    return StageScaling(operator.name, tasks, work_s, overhead_s, hot_share, operator.execute_latency_s)


def row_gain_s(metrics: ApplicationMetrics, saved_s: float) -> float:
    """What a row gains if its batch saves this much: a shorter batch, and possibly a shorter wait for it to start."""
    after_s = max(0.0, metrics.batch_s - saved_s)
    return saved_s + (max(metrics.interval_s, metrics.batch_s) - max(metrics.interval_s, after_s))


@dataclass(frozen=True, slots=True)
class TaskLimits:
    """What a rescaling may choose from."""

    most: int
    """Maximum tasks of an operator."""
    frozen: Collection[str] = ()
    """Operators that keep their tasks."""
    reach: int = 0
    """No operator loses tasks that a pool of this many slots could use."""
    always: str | None = None
    """An operator that is rescaled however little it gains."""
    least: int = 0
    """Minimum tasks of that operator."""


def best_rescaling(metrics: ApplicationMetrics, slots: int, task_overhead_s: float, limits: TaskLimits) -> Rescaling:
    """The fewest tasks, within the limits, with which each operator is about as fast as it can be on the current slots.

    Stateful operators share one parallelism.
    """
    smallest_s = min(operator.busy_s / operator.parallelism for operator in metrics.operators)
    overhead_s = min(task_overhead_s, smallest_s)  # starting a task cannot cost more than the smallest task took
    before, after, execute_s = {}, {}, {}
    gain_s = 0.0
    for group in _together(metrics):
        stages = [stage_scaling(operator, overhead_s) for operator in group]
        now = stages[0].parallelism
        if any(stage.operator in limits.frozen for stage in stages):
            continue
        tasks = _best_tasks(
            stages, now, slots, range(min(now, limits.reach), limits.most + 1), _NEGLIGIBLE * metrics.batch_s
        )
        served = any(stage.operator == limits.always for stage in stages)
        if served:
            tasks = max(tasks, limits.least)
        saved_s = sum(stage.measured_s - stage.predict_s(tasks, slots) for stage in stages)
        wanted = served and (saved_s > 0 or limits.least > now)
        if tasks == now or (saved_s < _WORTH_MENTION * metrics.batch_s and not wanted):
            continue
        gain_s += saved_s
        for stage in stages:
            before[stage.operator], after[stage.operator] = stage.parallelism, tasks
            execute_s[stage.operator] = stage.predict_s(tasks, slots)
    return Rescaling(before, after, execute_s, gain_s)


def _together(metrics: ApplicationMetrics) -> list[list[OperatorMetrics]]:
    """Operators that change together: all stateful ones, and every other by itself."""
    stateful = [operator for operator in metrics.operators if operator.stateful]
    single = [[operator] for operator in metrics.operators if not operator.stateful]
    return [*single, stateful] if stateful else single


def _best_tasks(stages: Sequence[StageScaling], now: int, slots: int, allowed: range, tolerance_s: float) -> int:
    choices: list[int] = sorted({now, *(tasks for tasks in allowed if 1 <= tasks <= slots)})
    times_s = {tasks: sum(stage.predict_s(tasks, slots) for stage in stages) for tasks in choices}
    best_s = min(times_s.values())
    if times_s[now] <= best_s + tolerance_s:
        return now
    return next(tasks for tasks in choices if times_s[tasks] <= best_s + tolerance_s)
