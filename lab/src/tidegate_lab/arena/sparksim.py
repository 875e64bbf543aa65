"""The contestants of a tournament on Spark once more in the simulator: does it rank them alike?

The load, the largest pool, the trigger, the objective and the start-up are those of the tournament; the last was
measured. Rows and batches cost what they always cost in the simulator, so only shares and ratios can be compared. The
fixed pool is searched among all sizes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tidegate_lab.arena.judge import STATIC, TIDEGATE
from tidegate_lab.arena.play import Run, play_rival, play_tidegate
from tidegate_lab.arena.sparkplan import SparkPlan, rival_for
from tidegate_lab.arena.tournament import smallest_static


def play_simulated(plan: SparkPlan) -> tuple[Run, ...]:
    """One run for each name of the plan; the smallest fixed pool that holds is found again."""
    return tuple(_play(plan, name) for name in plan.names)


def summarised(runs: tuple[Run, ...]) -> dict[str, dict[str, Any]]:
    """By rival: the share over the objective, the cost relative to the fixed pool, and the changes.

    >>> costs = {STATIC: 900.0, "ds2": 600.0}
    >>> summarised(tuple(Run(name, "day", 1, 0.0, cost, 9.0, 2, 360.0) for name, cost in costs.items()))["ds2"]
    {'late': 0.0, 'cost_vs_static': 0.667, 'p99_s': 9.0, 'changes': 2}
    """
    static_s = next(run.executor_seconds for run in runs if run.rival == STATIC)
    return {
        run.rival: {
            "late": round(run.late, 5),
            "cost_vs_static": round(run.executor_seconds / static_s, 3),
            "p99_s": round(run.p99_s, 3),
            "changes": run.changes,
        }
        for run in runs
    }


def _play(plan: SparkPlan, name: str) -> Run:
    setting, load = replace(plan.setting, row_cost_s=None), plan.load
    if name == STATIC:
        return smallest_static(setting, load)
    if name == TIDEGATE:
        return play_tidegate(setting, load)
    return play_rival(setting, load, rival_for(name, load.compress))
