"""What a simulated stage reports of itself when it is done."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from zlib import crc32

from tidegate.domain.observation import OperatorSample
from tidegate.sim.application import SimOperator

_STANDS_OUT = 1.5  # a task this much longer than the mean is told by its number


@dataclass(frozen=True, slots=True)
class Stage:
    """One operator in one batch, as it came about."""

    rows_in: float
    communication_s: float
    work_s: float
    """Slot-seconds in which its tasks made headway."""
    busy_s: float
    """Slot-seconds that they held."""
    wall_s: float
    bytes_onward: float
    """What a row weighs that leaves it."""
    state_rows: float


def sample_stage(operator: SimOperator, tasks: int, stage: Stage) -> OperatorSample:
    """Its report, as Spark's status store would give it."""
    rows_out = stage.rows_in * operator.selectivity
    return OperatorSample(
        name=operator.name,
        parallelism=tasks,
        rows_in=round(stage.rows_in),
        busy_s=stage.busy_s,
        cpu_s=max(0.0, stage.work_s - stage.communication_s),
        communication_s=stage.communication_s,
        execute_latency_s=stage.wall_s,
        rows_out=round(rows_out),
        bytes_in=round(stage.rows_in * operator.bytes_per_row),
        bytes_out=round(rows_out * stage.bytes_onward),
        fetch_wait_s=stage.communication_s,
        longest_task_s=min(stage.busy_s * operator.largest_share(tasks), stage.wall_s),
        slowest_task=_hot_partition(operator, tasks),
        stateful=operator.stateful,
        state_rows=round(stage.state_rows) if operator.stateful else None,
    )


def in_turn(executors: Sequence[str], tasks: int) -> tuple[str, ...]:
    """Which executor runs each task.

    >>> in_turn(["0", "1"], tasks=3)
    ('0', '1', '0')
    """
    return tuple(executors[task % len(executors)] for task in range(tasks)) if executors else ()


def keys_seen(operator: SimOperator, known: float, rows: float) -> float:
    """Keys in the state after so many rows more, each of a key drawn evenly: what is missing shrinks exponentially."""
    return operator.state_keys - (operator.state_keys - known) * math.exp(-rows / operator.state_keys)


def _hot_partition(operator: SimOperator, tasks: int) -> int | None:
    """The partition of the hot key, where it stands out."""
    if operator.largest_share(tasks) * tasks < _STANDS_OUT:
        return None
    return crc32(operator.name.encode()) % tasks
