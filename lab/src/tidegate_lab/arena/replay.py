"""The plant as one compiled loop, for pools whose size follows a list: a whole run in a few milliseconds.

It follows the simulator's rules for a stateless query, random draw for random draw: triggers, overhead, work on the
available slots, and executors that start, warm up and retire between batches. A test compares it with the simulator.
Searching for the best sequence of sizes takes thousands of runs. The result is graded by the simulator itself.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tidegate.accelerate import kernel
from tidegate_lab.arena.loads import ArenaLoad
from tidegate_lab.arena.setting import Setting

Floats = npt.NDArray[np.float64]

_BIN_S = 0.1
_NOISE, _MOST_SIGMA = 0.05, 3.0
_COLD_S = 2.0


@dataclass(frozen=True)
class Replay:
    """A load on a plant, ready to run with any sequence of sizes."""

    setting: Setting
    cumulative: Floats
    """Rows that have arrived, every tenth of a second."""
    draws: Floats
    end_s: float

    @classmethod
    def of(cls, setting: Setting, load: ArenaLoad) -> Replay:
        bins = math.ceil(load.duration_s / _BIN_S) + 600
        middles_s = np.asarray((np.arange(bins) + 0.5) * _BIN_S, dtype=np.float64)
        rows = load.profile(setting.peak_rows_per_s).rows_per_s(middles_s) * _BIN_S
        batches = math.ceil(load.duration_s / setting.interval_s) + 16
        normal = np.random.default_rng((load.seed, 0)).standard_normal(2 * batches)
        draws = np.exp(_NOISE * np.clip(normal, -_MOST_SIGMA, _MOST_SIGMA) - _NOISE**2 / 2)
        return cls(setting, np.concatenate([[0.0], np.cumsum(rows)]), draws, load.duration_s)

    @property
    def rows(self) -> int:
        return _rows_by(self.cumulative, self.end_s)

    def run(self, asked: Sequence[tuple[float, int]], start: int) -> tuple[float, float]:
        """Share of rows over the objective, and executor-seconds, if these sizes are requested at these times."""
        times_s = np.array([time_s for time_s, _ in asked], dtype=np.float64)
        sizes = np.array([size for _, size in asked], dtype=np.int64)
        setting = self.setting
        late, spent_s = _run(
            self.cumulative, self.draws, self.end_s, times_s, sizes, start,
            setting.slots_per_executor, setting.slots_per_executor * setting.max_executors,
            setting.startup_s, setting.warmup_s, setting.warmup_speed,
            setting.interval_s, setting.model.overhead_s, _COLD_S, setting.row_s, setting.objective_s,
        )  # fmt: skip
        return late / max(1, self.rows), spent_s


@kernel
def _rows_by(cumulative: Floats, t_s: float) -> int:
    if t_s <= 0:
        return 0
    bins = t_s / _BIN_S
    whole = int(bins)
    return int(cumulative[whole] + (bins - whole) * (cumulative[whole + 1] - cumulative[whole]) + 1e-9)


@kernel
def _run(
    cumulative: Floats, draws: Floats, end_s: float, times_s: Floats, sizes: npt.NDArray[np.int64], start: int,
    slots_each: int, tasks: int, startup_s: float, warmup_s: float, warmup_speed: float,
    interval_s: float, overhead_s: float, cold_s: float, row_s: float, bound_s: float,
) -> tuple[float, float]:  # fmt: skip
    tick = 1e-9
    most = 4 * tasks
    registers, warm = np.full(most, np.inf), np.full(most, np.inf)
    retiring = np.zeros(most, dtype=np.bool_)
    members = start
    registers[:start] = 0.0
    warm[:start] = 0.0
    t, asked, draw, admitted, end, late, spent_s = 0.0, 0, 0, 0, 0, 0.0, 0.0
    phase, wakes_s, work_s, began_s, cold = 0, 0.0, 0.0, 0.0, True  # 0 waiting, 1 overhead, 2 work
    while t < end_s - tick:
        while asked < len(times_s) and times_s[asked] <= t + tick:
            target = sizes[asked]
            asked += 1
            wanted = 0
            for i in range(members):
                wanted += not retiring[i]
            for i in range(members):
                if wanted >= target:
                    break
                if retiring[i]:
                    retiring[i] = False
                    wanted += 1
            while wanted < target:
                registers[members], warm[members] = t + startup_s, t + startup_s + warmup_s
                retiring[members] = False
                members += 1
                wanted += 1
            i = members - 1  # members are in order of registration: the youngest go first
            while wanted > target:
                if not retiring[i]:
                    wanted -= 1
                    if registers[i] > t + tick or phase == 0:
                        members = _leave(registers, warm, retiring, members, i)
                    else:
                        retiring[i] = True
                i -= 1
        there, speed, change_s = 0, 0.0, np.inf
        for i in range(members):
            if registers[i] <= t + tick:
                there += 1
                speed += 1.0 if warm[i] <= t + tick else warmup_speed
                if warm[i] > t + tick:
                    change_s = min(change_s, warm[i])
            else:
                change_s = min(change_s, registers[i])
        pace = min(float(there * slots_each), float(tasks)) * speed / there if there else 0.0
        done_s = wakes_s
        if phase == 2:
            done_s = t + work_s / pace if pace > 0 else np.inf
        next_s = min(end_s, change_s, max(t, done_s))
        if asked < len(times_s):
            next_s = min(next_s, times_s[asked])
        spent_s += there * (next_s - t)
        if phase == 2:
            work_s -= pace * (next_s - t)
        finished = done_s <= next_s
        t = next_s
        if not finished or t >= end_s - tick or (asked < len(times_s) and times_s[asked] <= t + tick):
            continue
        if phase == 0:
            arrived = _rows_by(cumulative, t)
            if arrived == admitted:
                wakes_s = (math.floor(t / interval_s + tick) + 1) * interval_s
                continue
            began_s, end = t, arrived
            wakes_s = t + overhead_s * draws[draw] + (cold_s if cold else 0.0)
            cold = False
            phase = 1
        elif phase == 1:
            work_s = max((end - admitted) * row_s * draws[draw + 1], tasks * 1e-6)
            draw += 2
            phase = 2
        else:
            late += max(0, min(end, _rows_by(cumulative, t - bound_s)) - admitted)
            admitted = end
            phase = 0
            wakes_s = max(t, (math.floor(began_s / interval_s + tick) + 1) * interval_s)
            i = members - 1
            while i >= 0:
                if retiring[i]:
                    members = _leave(registers, warm, retiring, members, i)
                i -= 1
    return late + max(0, _rows_by(cumulative, end_s - bound_s) - admitted), spent_s


@kernel
def _leave(registers: Floats, warm: Floats, retiring: npt.NDArray[np.bool_], members: int, i: int) -> int:
    for j in range(i, members - 1):
        registers[j], warm[j], retiring[j] = registers[j + 1], warm[j + 1], retiring[j + 1]
    return members - 1
