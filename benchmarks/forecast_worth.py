"""What a forecast is worth to the pool: weeks with Tidegate's forecaster, with none, and with a perfect one.

    python benchmarks/forecast_worth.py                  the arena's weeks (six minutes on two cores)
    python benchmarks/forecast_worth.py --only taxi      only those with this word in their name

Setting, loads and policy are the arena's. Without a forecast the controller knows the recent trend and what followed in
similar situations of the last hour. Prints JSON: by load, executor-seconds relative to no forecast, the share of rows
over the objective, and changes of the pool per hour.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from statistics import mean
from typing import Any

from numpy.typing import ArrayLike

from tidegate.evaluate.forecast.arrivals import ArrivalForecaster
from tidegate_lab.arena.loads import ArenaLoad
from tidegate_lab.arena.play import Run, play_tidegate
from tidegate_lab.arena.program import default_loads
from tidegate_lab.arena.setting import APPLICATION, Setting
from tidegate_lab.experiments.sensitivity import Blind, Erring

NONE, OWN, PERFECT = "none", "tidegate", "perfect"
FIGURES = ("cost_vs_none", "late", "changes_per_hour")


class Perfect(Erring):
    """Knows the future, and remembers the past as the others do: the pool also looks back at it."""

    def tell(self, now_s: float, names: Sequence[str], arrived_rows: ArrayLike, near_from: int = 0) -> None:
        ArrivalForecaster.tell(self, now_s, names, arrived_rows, near_from)
        super().tell(now_s, names, arrived_rows, near_from)


def forecaster(kind: str, setting: Setting, load: ArenaLoad) -> ArrivalForecaster:
    if kind == NONE:
        return Blind()
    if kind == OWN:
        return ArrivalForecaster()
    return Perfect({APPLICATION: load.profile(setting.peak_rows_per_s)}, error=0.0, common=False, seed=1)


def play(task: tuple[str, ArenaLoad]) -> Run:
    kind, load = task
    setting = Setting()
    return play_tidegate(setting, load, kind, forecaster(kind, setting, load))


def figures(runs: list[Run]) -> dict[str, Any]:
    none = next(run for run in runs if run.rival == NONE)
    return {
        run.rival: {
            "cost_vs_none": round(run.executor_seconds / none.executor_seconds, 3),
            "late": round(run.late, 5),
            "changes_per_hour": round(run.changes / run.duration_s * 3600, 2),
        }
        for run in runs
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="play only loads with this word in their name")
    given = parser.parse_args()
    weeks = [load for load in default_loads("q1", 1, None, quick=False) if "week" in load.name]
    chosen = [load for load in weeks if given.only.lower() in load.name]
    if not chosen:
        parser.error(f"no load has {given.only!r} in its name; there are {', '.join(load.name for load in weeks)}")
    tasks = [(kind, load) for load in chosen for kind in (NONE, OWN, PERFECT)]
    runs: list[Run] = []
    with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn")) as pool:
        for run in pool.map(play, tasks):
            runs.append(run)
            print(f"{len(runs)} of {len(tasks)}: {run.load}, {run.rival}", file=sys.stderr)
    by_load = {load.name: figures([run for run in runs if run.load == load.name]) for load in chosen}
    means = {
        kind: {name: round(mean(found[kind][name] for found in by_load.values()), 4) for name in FIGURES}
        for kind in (NONE, OWN, PERFECT)
    }
    print(json.dumps({"loads": by_load, "means": means}, indent=2))


if __name__ == "__main__":
    main()
