"""The oracle knows the whole future: it finds the cheapest sequence of sizes that holds the objective.

A dynamic programme over time steps of one warm-up each. In a step the pool has n executors; new ones work at warm-up
speed. A label is (size, rows served, executor-seconds, late rows), where late means over the objective. Rows are served
first in, first out. So a label dominates another of the same size if it has served more, cost less and has fewer late
rows:

    served(t + δ) = min(A(t + δ), served(t) + capacity · δ)         A: rows that have arrived
    late         += rows served in (t, t + δ] that arrived before t + δ − D

Start-up time costs an oracle only foresight: it requests executors that much earlier, but not before the beginning.
With `cells = None` all labels that are not dominated are kept and the result is exact, which a test proves by
enumeration. On long loads only the cheapest label is kept per cell of backlog and late rows.

The programme models a fluid, but the plant has batches. So its plans are refined on the plant itself
(`arena/replay.py`): changes are moved and sizes lowered as long as the objective holds and the run gets cheaper.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tidegate_lab.arena.loads import ArenaLoad
from tidegate_lab.arena.play import Run, play_sizes, start_size
from tidegate_lab.arena.replay import Replay
from tidegate_lab.arena.setting import Setting

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

_PARTS = 8
"""Sub-steps of a step, with constant capacity, in which the queue is tracked."""
_GUESSES = ((0.96, 5.0), (0.95, 5.0), (0.94, 5.0), (0.92, 4.0), (0.9, 3.0), (0.85, 2.0))
"""Utilisation of executors, and queueing time in the fluid, with which the plant's batches may still hold."""
_BAND = 3
"""On long loads, only sizes this close to the need of the surrounding minutes are considered."""
_GRAIN_S = 5.0
_MOST_REPLAYS = 2500


@dataclass(frozen=True, slots=True)
class Cells:
    """How finely labels are distinguished on long loads."""

    backlog: int = 12
    late: int = 24


@dataclass(frozen=True)
class Fluid:
    """The model in which the programme is exact."""

    arrived: Floats
    """Rows that have arrived by the end of each sub-step, `parts` per step."""
    overdue: Floats
    """Rows that arrived more than the allowed time before the end of each sub-step."""
    step_s: float
    executor_rows_per_s: float
    sizes: tuple[int, ...]
    start: int
    allowed_late: float
    """Rows."""
    cold_speed: float = 0.5
    fixed_steps: int = 0
    """In the first steps the pool cannot grow: executors requested then arrive later."""
    parts: int = _PARTS

    @property
    def steps(self) -> int:
        return len(self.arrived) // self.parts

    def step(self, k: int, before: Ints, size: Ints, served: Floats) -> tuple[Floats, Floats]:
        """Rows served by the end of step k, and those served late in it, for many labels at once."""
        warm = np.minimum(before, size)
        capacity = (warm + self.cold_speed * (size - warm)) * self.executor_rows_per_s * self.step_s / self.parts
        late = np.zeros(len(served))
        for part in range(k * self.parts, (k + 1) * self.parts):
            after = np.minimum(self.arrived[part], served + capacity)
            late += np.maximum(0.0, np.minimum(after, self.overdue[part]) - served)
            served = after
        return served, late

    def worth_a_look(self, k: int) -> tuple[int, int]:
        """Sizes from slightly below the smallest to slightly above the largest need of the surrounding steps."""
        first, last = max(0, k - 3), min(self.steps, k + 4)
        ends = np.concatenate([[0.0], self.arrived])[first * self.parts : last * self.parts + 1 : self.parts]
        need = np.diff(ends) / (self.executor_rows_per_s * self.step_s)
        lowest, highest = min(self.sizes), max(self.sizes)
        return (
            min(highest, max(lowest, int(need.min()) - _BAND + 1)),
            max(lowest, min(highest, int(need.max()) + _BAND)),
        )

    def left_over(self, served: Floats) -> Floats:
        """Late rows that still wait at the end."""
        return np.asarray(np.maximum(0.0, self.overdue[-1] - served))

    def grade(self, plan: list[int]) -> tuple[float, float]:
        """Executor-seconds and late rows of one sequence of sizes."""
        before, served, late = self.start, np.zeros(1), 0.0
        for k, size in enumerate(plan):
            served, more = self.step(k, np.array([before]), np.array([size]), served)
            late += float(more[0])
            before = size
        return sum(plan) * self.step_s, late + float(self.left_over(served)[0])


def cheapest(fluid: Fluid, cells: Cells | None = None) -> list[int] | None:
    """The cheapest sequence of sizes with at most the allowed late rows, or None."""
    size = np.array([fluid.start], dtype=np.int64)
    served, cost, late = np.zeros(1), np.zeros(1), np.zeros(1)
    history: list[tuple[Ints, Ints]] = []
    sizes = np.array(fluid.sizes, dtype=np.int64)
    unit = fluid.executor_rows_per_s * fluid.step_s
    for k in range(fluid.steps):
        parent = np.repeat(np.arange(len(size)), len(sizes))
        to = np.tile(sizes, len(size))
        if cells is not None:
            least, most = fluid.worth_a_look(k)
            near = (to >= least) & (to <= most)
            parent, to = parent[near], to[near]
        if k < fluid.fixed_steps:
            possible = to <= size[parent]
            parent, to = parent[possible], to[possible]
        now_served, more = fluid.step(k, size[parent], to, served[parent])
        now_late, now_cost = late[parent] + more, cost[parent] + to * fluid.step_s
        # rows that are already overdue will be late whenever they are served
        bound = now_late + np.maximum(0.0, fluid.overdue[(k + 1) * fluid.parts - 1] - now_served)
        kept = np.flatnonzero(bound <= fluid.allowed_late + 1e-6)
        if not len(kept):
            return None
        parent, to, now_served = parent[kept], to[kept], now_served[kept]
        now_late, now_cost = now_late[kept], now_cost[kept]
        backlog = fluid.arrived[(k + 1) * fluid.parts - 1] - now_served
        if cells is not None:
            chosen = _one_per_cell(to, backlog / unit, now_cost, now_late / max(1.0, fluid.allowed_late), cells)
        else:
            chosen = _undominated(to, backlog, now_cost, now_late)
        history.append((parent[chosen], to[chosen]))
        size, served, cost, late = to[chosen], now_served[chosen], now_cost[chosen], now_late[chosen]
    feasible = np.flatnonzero(late + fluid.left_over(served) <= fluid.allowed_late + 1e-6)
    if not len(feasible):
        return None
    at = int(feasible[np.argmin(cost[feasible])])
    plan = []
    for parents, chosen_sizes in reversed(history):
        plan.append(int(chosen_sizes[at]))
        at = int(parents[at])
    return plan[::-1]


def _one_per_cell(size: Ints, backlog: Floats, cost: Floats, late: Floats, cells: Cells) -> Ints:
    """The cheapest label of every cell, without those dominated in cost, backlog and late rows."""
    by_backlog = np.minimum(cells.backlog, (np.sqrt(backlog) * cells.backlog / 3).astype(np.int64))
    by_late = (late * cells.late).astype(np.int64)
    order = np.lexsort((late, cost, by_late, by_backlog, size))
    key = (size[order] * (cells.backlog + 1) + by_backlog[order]) * (cells.late + 2) + by_late[order]
    first = np.concatenate([[True], key[1:] != key[:-1]])
    return np.asarray(order[first])


def _undominated(size: Ints, backlog: Floats, cost: Floats, late: Floats) -> Ints:
    order = np.lexsort((backlog, late, cost, size))
    kept: list[int] = []
    for label in order.tolist():
        if not any(
            size[other] == size[label] and backlog[other] <= backlog[label] and late[other] <= late[label]
            for other in kept
        ):
            kept.append(label)
    return np.array(kept, dtype=np.int64)


def fluid_of(setting: Setting, replay: Replay, start: int, wait_s: float, busy: float) -> Fluid:
    """The fluid for a load on a plant, in which rows may queue for `wait_s`."""
    step_s = min(60.0, max(10.0, setting.warmup_s))
    steps = int(replay.end_s // step_s)
    ends_s = (np.arange(steps * _PARTS) + 1) * step_s / _PARTS
    bins = np.arange(len(replay.cumulative)) * 0.1
    return Fluid(
        arrived=np.interp(ends_s, bins, replay.cumulative),
        overdue=np.interp(ends_s - step_s / _PARTS - wait_s, bins, replay.cumulative),
        step_s=step_s,
        executor_rows_per_s=busy * setting.slots_per_executor / setting.row_s,
        sizes=tuple(range(1, setting.max_executors + 1)),
        start=start,
        allowed_late=setting.allowed_late * replay.rows,
        cold_speed=setting.warmup_speed if setting.warmup_s else 1.0,
        fixed_steps=int(np.ceil(setting.startup_s / step_s)),
    )


@dataclass
class Search:
    """Refines a plan on the plant. A plan is the number of registered executors in every grain of time."""

    setting: Setting
    replay: Replay
    start: int
    replays: int = 0

    def requests(self, plan: Ints) -> list[tuple[float, int]]:
        """The requests that produce the sizes of the plan: growth is requested a start-up time ahead."""
        ahead = round(self.setting.startup_s / _GRAIN_S)
        padded = np.concatenate([plan, np.repeat(plan[-1:], ahead)])
        target = np.lib.stride_tricks.sliding_window_view(padded, ahead + 1).max(axis=1)
        before, asked = self.start, []
        for grain in np.flatnonzero(np.diff(target, prepend=-1)).tolist():
            size = int(target[grain])
            if size != before:
                asked.append((grain * _GRAIN_S, size))
                before = size
        return asked

    def grade(self, plan: Ints) -> tuple[bool, float]:
        self.replays += 1
        late, spent_s = self.replay.run(self.requests(plan), self.start)
        return late <= self.setting.allowed_late, spent_s

    def polish(self, plan: Ints, most: int) -> tuple[Ints, float]:
        """Lower and shift sizes, in smaller and smaller pieces, while that helps."""
        holds, best_s = self.grade(plan)
        if not holds:
            return plan, np.inf
        until = self.replays + most
        for grains in (48, 24, 12, 6, 3, 1):
            better = True
            while better:
                better = False
                for first, end in _stretches(plan, grains):
                    if self.replays >= until:
                        return plan, best_s
                    tried = _lowered(plan, first, end)
                    holds, spent_s = self.grade(tried)
                    if holds and spent_s < best_s - 1e-6:
                        plan, best_s, better = tried, spent_s, True
        return plan, best_s


def _stretches(plan: Ints, grains: int) -> list[tuple[int, int]]:
    """Stretches where fewer executors may be enough: right after a growth, right before a shrink, and anywhere."""
    jumps = np.flatnonzero(np.diff(plan)) + 1
    around = [(at, at + grains) if plan[at] > plan[at - 1] else (at - grains, at) for at in jumps.tolist()]
    return [*around, *((at, at + grains) for at in range(0, len(plan), grains))]


def _lowered(plan: Ints, first: int, end: int) -> Ints:
    """With one executor fewer than the maximum of the stretch."""
    changed, part = plan.copy(), slice(max(0, first), end)
    if len(changed[part]):
        changed[part] = np.minimum(changed[part], max(1, int(changed[part].max()) - 1))
    return changed


def play_oracle(setting: Setting, load: ArenaLoad, most_replays: int = _MOST_REPLAYS) -> Run | None:
    """The best sequence found, graded by the simulator; None if even the largest pool misses the objective."""
    start = start_size(setting, load)
    replay = Replay.of(setting, load)
    search = Search(setting, replay, start)
    plan = _first_that_holds(search)
    if plan is None:
        return None
    best, _ = search.polish(plan, most_replays)
    return play_sizes(setting, load, search.requests(best), start, "oracle")


def _first_that_holds(search: Search) -> Ints | None:
    """The programme's plan for the boldest guess about the plant that holds there."""
    for busy, wait_s in _GUESSES:
        fluid = fluid_of(search.setting, search.replay, search.start, wait_s, busy)
        found = cheapest(fluid, Cells())
        if found is not None:
            plan = np.repeat(np.array(found, dtype=np.int64), round(fluid.step_s / _GRAIN_S))
            if search.grade(plan)[0]:
                return plan
    largest = np.full(int(search.replay.end_s // _GRAIN_S), search.setting.max_executors, dtype=np.int64)
    return largest if search.grade(largest)[0] else None
