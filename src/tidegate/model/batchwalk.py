"""Simulates the micro-batches of many columns (candidate and path) at once, several per step if nothing changes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tidegate.model.curves import FAR_S, Curves, Floats

_TICK = 1e-9
_MOST_STEPS = 2000
_JUMPS = 5
"""A jump covers at most one part in this many of the horizon."""
_LEAST_JUMP = 2.0
_CLOSE = 0.005
"""Tolerated error of a batch time at the end of a jump, relative to the batch time; doubled, because of m²/2."""
_MOST_GROWTH = 0.1
"""Maximum relative growth of a batch time over a jump."""
_LEAST_PERIOD_S = 0.01


@dataclass(frozen=True, slots=True)
class BatchWalk:
    """Steps by columns: one batch each, or `count` similar batches. Rows are counted from the oldest waiting one."""

    start_s: Floats
    commit_s: Floats
    last_commit_s: Floats
    """Commit of the last batch in the step."""
    first_row: Floats
    end_row: Floats
    """Both clipped to the rows that have arrived by the horizon."""
    batch_rows: Floats
    """Rows of one batch, not clipped."""
    busy_s: Floats
    """Part of the batch's time in which its tasks run."""
    count: Floats


@dataclass(frozen=True, slots=True)
class Columns:
    """The conditions for the batches of each column."""

    arrived: Curves
    """Rows that have arrived by a time."""
    power: Curves
    """Slot-seconds available up to a time."""
    both: Curves
    """The two together, arrivals first: one lookup instead of two."""
    steady_until_s: Floats
    """By column and model step: until when arrivals and slots continue as in this step."""
    step_s: float
    batch_s: float
    row_s: float
    overhead_s: float
    interval_s: Floats
    admission_rows: Floats
    first_trigger_s: float


class _Pace(NamedTuple):
    """The latest batch of each column, and how it differs from the one before."""

    apart_s: Floats
    """From its start to the next one."""
    took_s: Floats
    late_s: Floats
    """By how much it overran the next trigger; negative if it did not."""
    growth_s: Floats
    """By how much longer it took, per batch since the one before."""
    growth_before_s: Floats


def walk(world: Columns, batch_left_s: float, batch_rows: float, pause_s: Floats, horizon_s: float) -> BatchWalk:
    """All batches that start within the horizon, and one more. Rows still waiting then continue at its rate."""
    arrived, interval_s, trigger_s = world.arrived, world.interval_s, world.first_trigger_s
    columns = len(interval_s)
    zeros, ones = np.zeros(columns), np.ones(columns)
    total = arrived.at(np.full(columns, horizon_s))
    period_s = np.maximum(interval_s, _LEAST_PERIOD_S)
    period_less_s = period_s * (1 - _TICK)
    at_once = interval_s <= 0
    always_triggered = not at_once.any()
    limited = bool(np.isfinite(world.admission_rows).any())
    until_s = np.zeros(columns)
    most_s = np.full(columns, horizon_s / _JUMPS)
    work_from = np.array([[0.0], [world.overhead_s]])
    steps: list[tuple[Floats, ...]] = []
    first = np.minimum(batch_rows, arrived.at(zeros))
    if batch_rows > 0:
        left_s = np.full(columns, batch_left_s)
        steps.append((zeros, left_s, left_s, zeros, first, first, left_s, ones))
    next_s = np.where(pause_s > 0, batch_left_s + pause_s, max(batch_left_s, trigger_s))
    since_s, took_s, growth_s, count = zeros, zeros, np.full(columns, np.inf), ones
    for _ in range(_MOST_STEPS):
        before_s, start_s = since_s, next_s
        came, worked = world.both.at(start_s + work_from)
        end = np.minimum(came, first + world.admission_rows) if limited else came
        rows = end - first
        commit_s = world.power.when(worked + (rows * world.row_s + world.batch_s))
        # The next trigger is a whole number of intervals after the first. If a batch overran it, the next one follows
        # at once.
        next_s = (np.floor((start_s - trigger_s) / period_less_s) + 1) * period_s + trigger_s
        if not always_triggered:
            next_s = np.where(at_once, start_s + period_s, next_s)
        late_s = commit_s - next_s
        next_s = np.minimum(np.maximum(commit_s, next_s), FAR_S / 2)  # a finished column may continue, but not forever
        apart_s = next_s - start_s
        took_before_s, growth_before_s = took_s, growth_s
        took_s = commit_s - start_s
        growth_s = (took_s - took_before_s) / count
        since_s, last, last_commit_s, count = start_s, end, commit_s, ones
        going = (end < total) & (start_s < horizon_s)
        more = np.count_nonzero(going)
        if more:
            ended = before_s >= until_s
            if np.count_nonzero(ended):  # the rows of this batch arrived since `before_s`
                until_s = np.where(ended, _lookup(world, before_s), until_s)
            # Rows left waiting by a limit arrived at another rate than current ones, so jumps are short.
            longest_s = np.where(came > end, horizon_s / _JUMPS / 2, horizon_s / _JUMPS) if limited else most_s
            pace = _Pace(apart_s, took_s, late_s, growth_s, growth_before_s)
            jump = _jump(pace, np.minimum(until_s - next_s, longest_s), period_s)
            jump *= going
            if np.count_nonzero(jump):
                # The last of these batches takes all rows that have arrived by its start, or its limit.
                grown_s = jump * growth_s
                last_apart_s = apart_s + grown_s * (late_s > 0)
                next_s = next_s + jump * (apart_s + last_apart_s + (last_apart_s - apart_s) / np.maximum(jump, 1.0)) / 2
                since_s = next_s - last_apart_s
                jumps = jump > 0
                last = np.where(jumps, arrived.at(since_s), end)
                if limited:
                    last = np.minimum(last, end + np.maximum(jump, 1.0) * world.admission_rows)
                last_commit_s = np.where(jumps, since_s + took_s + grown_s, commit_s)
                since_s = np.where(jumps, since_s, start_s)
                count = ones + jump
        steps.append(
            (start_s, commit_s, last_commit_s, first, last, rows, commit_s - start_s - world.overhead_s, count)
        )
        first = last
        if not more:
            break
    left = np.maximum(total - first, 0.0)
    if left.any():
        batches = left / np.maximum(rows, 1e-9)
        commit_s = next_s + took_s
        busy_s = steps[-1][6]
        steps.append((next_s, commit_s, commit_s + batches * apart_s, first, total, rows, busy_s, batches))
    fields = [np.array(values) for values in zip(*steps, strict=True)]
    fields[3], fields[4] = np.minimum(fields[3], total), np.minimum(fields[4], total)
    return BatchWalk(*fields)


def _lookup(world: Columns, time_s: Floats) -> Floats:
    columns, model_steps = world.steady_until_s.shape
    last = model_steps - 1
    model_step: NDArray[np.int64] = np.minimum(np.maximum(time_s / world.step_s, 0), last).astype(np.int64)
    return world.steady_until_s[np.arange(columns), model_step]


def _jump(pace: _Pace, room_s: Floats, period_s: Floats) -> Floats:
    """How many batches may follow within `room_s` whose times keep growing at the same rate.

    Over m batches the error is m²/2 of the change in growth, which bounds m. So do the time until arrivals or slots
    change, and the time at which overrunning batches are in step with their triggers again, or the reverse.
    """
    apart_s, took_s, late_s, growth_s, growth_before_s = pace
    slope_s = np.abs(growth_s) + _TICK
    spare_s = period_s - took_s
    overran = late_s > 0
    jump = room_s / (apart_s + slope_s)
    jump = np.minimum(jump, np.sqrt(_CLOSE * took_s / (np.abs(growth_s - growth_before_s) + _TICK)))
    jump = np.minimum(jump, np.minimum(_MOST_GROWTH * took_s, np.abs(spare_s)) / slope_s)
    slips = overran & (spare_s > 0)
    if np.count_nonzero(slips):
        jump = np.where(slips, np.minimum(jump, late_s / np.maximum(spare_s, _TICK)), jump)
    # A batch that starts off the trigger and does not overrun is neither in step nor back to back.
    return np.floor(jump) * ((jump >= _LEAST_JUMP) & (overran | (apart_s > period_s - _TICK)))


def steady_level(edges_s: Floats, levels: Floats, tolerance: float) -> Floats:
    """For each step of each path: until when its level stays the same.

    >>> steady_level(np.arange(5.0), np.array([[2.0, 2.0, 3.0, 3.0]]), tolerance=0.01).tolist()
    [[2.0, 2.0, 4.0, 4.0]]
    """
    return _until(edges_s, np.abs(np.diff(levels, axis=1)) > tolerance * levels[:, 1:])


def steady_slope(edges_s: Floats, levels: Floats, tolerance: float) -> Floats:
    """For each step of each path: until when its level keeps its slope.

    Slopes are distinguished to `tolerance` of the level, so a straight ramp is one stretch, and a jump ends a stretch.

    >>> steady_slope(np.arange(7.0), np.array([[10.0, 10.0, 10.0, 20.0, 21.0, 22.0]]), tolerance=0.02).tolist()
    [[2.0, 2.0, 3.0, 6.0, 6.0, 6.0]]
    """
    slopes = np.diff(levels, axis=1)
    bends = np.abs(np.diff(slopes, axis=1)) > tolerance * levels[:, 1:-1]
    return _until(edges_s, np.concatenate((bends, np.abs(slopes[:, -1:]) > levels[:, -1:]), axis=1))


def _until(edges_s: Floats, changes: NDArray[np.bool_]) -> Floats:
    """The end of the stretch that each step is in. `changes`: does something change after each step but the last?"""
    ends_s = np.where(changes, edges_s[1:-1], edges_s[-1])
    ends_s = np.concatenate((ends_s, np.full((len(changes), 1), edges_s[-1])), axis=1)
    return np.minimum.accumulate(ends_s[:, ::-1], axis=1)[:, ::-1]
