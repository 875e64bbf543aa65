"""One stage of a batch: the slots it requests, and its report when it is done."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple
from zlib import crc32

from tidegate.adapters.sim.application import SimApplication, SimOperator
from tidegate.domain.observation import OperatorSample

_STANDS_OUT = 1.5  # a task this much longer than the mean is reported by its number
_INSTANT_S = 1e-6  # duration of a task without cost
_DIGITS = 4  # times are reported to 0.1 ms


class StageRun(NamedTuple):
    """A stage that has run: rows, how much slower than usual they were, slot time, CPU time and duration."""

    rows_in: float
    slower: float
    held_s: float
    """Slot-seconds of tasks that made progress."""
    cpu_s: float
    wall_s: float


@dataclass(frozen=True, slots=True)
class Stage:
    """An operator with the parallelism of a run: what does not change from batch to batch."""

    operator: SimOperator
    tasks: int
    inputs: tuple[int, ...]
    row_s: float
    """Slot-seconds per row."""
    cpu_share: float
    """Share of them that needs a CPU."""
    at_work: float
    """Slots that its tasks can keep at work if they may run anywhere."""
    bytes_onward: float
    hot_task: int
    hot_told: bool
    largest_share: float

    @classmethod
    def of(cls, application: SimApplication, index: int, tasks: int) -> Stage:
        """n even tasks keep n slots busy. If the fullest partition holds a share h, 1/h slots are busy on average."""
        operator = application.operators[index]
        row_s = operator.cost_s_per_row + operator.communication_s_per_row
        at_work = min(float(tasks), 1 / operator.largest_share(tasks)) if operator.hot_share else float(tasks)
        return cls(
            operator=operator,
            tasks=tasks,
            inputs=application.inputs_of(index),
            row_s=row_s,
            cpu_share=operator.cpu_share * operator.cost_s_per_row / row_s if row_s else operator.cpu_share,
            at_work=min(at_work, operator.works_at_once or at_work),
            bytes_onward=application.bytes_onward(index),
            hot_task=crc32(operator.name.encode()) % tasks,
            hot_told=operator.largest_share(tasks) * tasks >= _STANDS_OUT,
            largest_share=operator.largest_share(tasks),
        )

    def work_s(self, rows: float, slower: float) -> float:
        """Slot-seconds of all its tasks, on warm executors with a CPU for each."""
        return rows * self.row_s * slower + self.operator.task_overhead_s * self.tasks

    def anywhere(self, rows: float, slower: float) -> tuple[float, float]:
        """Work and requested slots if its tasks may run on any executor."""
        return max(self.work_s(rows, slower), self.at_work * _INSTANT_S), self.at_work

    def by_executor(
        self, rows: float, slower: float, where: Mapping[str, tuple[int, ...]], reload_s: Mapping[int, float]
    ) -> list[tuple[str, float, float]]:
        """Executors with their work and requested slots if each task runs beside its state.

        Work W on an executor with p tasks, the longest of which takes m, keeps `min(p, W / m)` slots busy.
        """
        even_s = rows * self.row_s * slower * (1 - self.operator.hot_share) / self.tasks + self.operator.task_overhead_s
        even_s = max(even_s, _INSTANT_S)
        hot_s = rows * self.row_s * slower * self.operator.hot_share
        parts = []
        for executor, tasks in where.items():
            longer_s = dict.fromkeys((self.hot_task,), hot_s) if hot_s and self.hot_task in tasks else {}
            for task in reload_s.keys() & tasks if reload_s else ():
                longer_s[task] = longer_s.get(task, 0.0) + reload_s[task]
            work_s = even_s * len(tasks) + sum(longer_s.values())
            ask = min(float(len(tasks)), work_s / (even_s + max(longer_s.values()))) if longer_s else float(len(tasks))
            parts.append((executor, work_s, ask))
        at_once = self.operator.works_at_once
        if at_once is not None and (asked := sum(ask for _, _, ask in parts)) > at_once:
            parts = [(executor, work_s, ask * at_once / asked) for executor, work_s, ask in parts]
        return parts

    def sample(self, done: StageRun, slots: int, state_rows: float, executors: tuple[str, ...]) -> OperatorSample:
        """Its report, as in Spark's status store."""
        operator, rows_in = self.operator, done.rows_in
        rows_out = rows_in * operator.selectivity
        # tasks that wait for their turn still hold their slots
        waits = max(1.0, min(self.tasks, slots) / self.at_work) if operator.works_at_once is not None else 1.0
        busy_s = round(done.held_s * waits, _DIGITS)
        waited = operator.communication_s_per_row
        communication_s = round(rows_in * waited * done.slower, _DIGITS) if waited else 0.0
        wall_s = round(done.wall_s, _DIGITS)
        return OperatorSample(
            name=operator.name,
            parallelism=self.tasks,
            rows_in=round(rows_in),
            busy_s=busy_s,
            cpu_s=round(done.cpu_s, _DIGITS),
            communication_s=communication_s,
            execute_latency_s=wall_s,
            rows_out=round(rows_out),
            bytes_in=round(rows_in * operator.bytes_per_row),
            bytes_out=round(rows_out * self.bytes_onward),
            fetch_wait_s=communication_s,
            longest_task_s=min(round(busy_s * self.largest_share, _DIGITS), wall_s),
            slowest_task=self.hot_task if self.hot_told else None,
            stateful=operator.stateful,
            state_rows=round(state_rows) if operator.stateful else None,
            executors=executors,
            failed_tasks=0,
        )


def in_turn(executors: Sequence[str], tasks: int) -> tuple[str, ...]:
    """The executor of each task.

    >>> in_turn(["0", "1"], tasks=3)
    ('0', '1', '0')
    """
    return tuple(executors[task % len(executors)] for task in range(tasks)) if executors else ()


def keys_seen(operator: SimOperator, known: float, rows: float) -> float:
    """Keys in the state after this many more rows with uniformly drawn keys: the missing ones shrink exponentially."""
    return operator.state_keys - (operator.state_keys - known) * math.exp(-rows / operator.state_keys)
