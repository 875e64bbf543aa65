"""`tidegate arena --world spark`: from the options to a tournament, with what was measured on the way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tidegate.adapters.spark.executorquota import executor_quota
from tidegate.domain import InvalidInput
from tidegate_lab.arena.loads import ArenaLoad
from tidegate_lab.arena.setting import Setting
from tidegate_lab.arena.sparkmeasure import Measured
from tidegate_lab.arena.sparkplan import (
    OBJECTIVE_S,
    PEAK_EXECUTORS,
    SparkPlan,
    Told,
    chosen_load,
    chosen_names,
    hold_on_spark,
)
from tidegate_lab.arena.sparkplay import RowWork, SparkGround
from tidegate_lab.arena.sparksim import play_simulated, summarised
from tidegate_lab.arena.tournament import Tournament

CPUS = 0.4
_ROUNDS = 400
"""Most of the cost of a row. With fewer, a run has more rows than can be counted afterwards."""
_LOOKUP_S = 0.0002
_INTERVAL_S = 4.0
"""With many tasks on few CPUs, the fixed cost of a batch is not small."""
_AROUND_RUN_S = 60.0
"""Starting a cluster, warming it up and counting rows."""


@dataclass(frozen=True, slots=True)
class SparkWishes:
    """The options. None stands for the default."""

    loads: Sequence[str] | None = None
    rivals: Sequence[str] | None = None
    sizes: Sequence[int] = ()
    cpus: float | None = None
    compress: float | None = None
    step_s: float | None = None
    peak_executors: int | None = None
    objective_s: float | None = None
    quick: bool = False

    def __post_init__(self) -> None:
        if self.cpus is not None and not 0.05 <= self.cpus <= 64:
            raise InvalidInput(f"--cpus: an executor gets 0.05 to 64 CPUs, not {self.cpus:g}")

    @property
    def load(self) -> ArenaLoad:
        return chosen_load(self.loads, self.quick, self.compress, self.step_s)

    def plan(self, measured: Measured | None = None) -> SparkPlan:
        """Without measurements it only shows whether the options fit together, and how long it will take."""
        objective_s = self.objective_s or OBJECTIVE_S
        peak = self.peak_executors or PEAK_EXECUTORS
        setting = Setting(
            objective_s=objective_s,
            peak_executors=peak,
            most_executors=peak + 1,
            slots_per_executor=1,
            interval_s=_INTERVAL_S,
        )
        if measured is not None:
            setting = replace(
                setting,
                startup_s=round(measured.startup_s, 1),
                warmup_s=round(measured.warmup_s, 1),
                row_cost_s=measured.row_s_in(objective_s / 4, peak),
            )
        return SparkPlan(setting, self.load, chosen_names(self.rivals, self.quick), tuple(self.sizes))


def row_work(cpus: float) -> RowWork:
    """Hashing, if executors can get a CPU quota here; a warning says why if not, and rows wait for a look-up."""
    with executor_quota(cpus, 1) as quota:
        able = quota.capability.able
    return RowWork(cpus, rounds=_ROUNDS) if able else RowWork(None, lookup_s=_LOOKUP_S)


def longest_s(plan: SparkPlan) -> float:
    """Approximately, for all runs."""
    return plan.most_runs * (plan.load.duration_s + plan.setting.objective_s + _AROUND_RUN_S)


def play_on_spark(plan: SparkPlan, work: RowWork, measured: Measured, folder: Path, told: Told) -> Tournament:
    """Play all runs of a plan that was made with these measurements."""
    tournament = hold_on_spark(plan, SparkGround(plan, work, folder), told)
    return replace(tournament, more=described(plan, work, measured))


def with_simulation(tournament: Tournament, plan: SparkPlan) -> Tournament:
    """The same, with what the contestants do in the simulator."""
    return replace(tournament, more={**tournament.more, "simulated": summarised(play_simulated(plan))})


def described(plan: SparkPlan, work: RowWork, measured: Measured) -> Mapping[str, Any]:
    """What the document says about a tournament on Spark beside the setting."""
    return {
        "world": "spark",
        "cpus_per_executor": work.cpus,
        "lookup_s": work.lookup_s,
        "row_s": round(measured.row_s, 7),
        "batch_s": round(measured.batch_s, 3),
        "peak_rows_per_s": round(plan.setting.peak_rows_per_s),
        "most_executors": plan.setting.max_executors,
        "duration_s": plan.load.duration_s,
    }
