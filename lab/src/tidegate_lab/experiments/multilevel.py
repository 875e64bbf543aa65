"""Multi-level elasticity (Nardelli et al., E2DF) on a simulated fleet: static, applications, infrastructure, both.

Three regions, 45 applications, and a load that moves between the regions over five days. The fleet is controlled by the
product's own hosts, regions and centre. The learning policies are trained on the week before the evaluated one.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from tidegate.adapters.sim.fleet import FleetPlant, FleetSpec, FleetTotals
from tidegate.adapters.sim.fleet_kernel import Floats
from tidegate.managers.policies import Weights
from tidegate_lab.experiments.multilevel_fleet import FleetTimeline, Learned, Levels, SimulatedFleet, leave_alone
from tidegate_lab.experiments.multilevel_loads import LOADS, RecordedLoad
from tidegate_lab.experiments.multilevel_scenario import (
    CENTRE_S,
    Size,
    fleet,
    fleet_file,
    load,
    most_tasks,
    static_size,
)

Told = Callable[[int, int, str], None]  # done, total, what comes next

DAYS = 5
TRAINING_WEEK, JUDGED_WEEK = datetime(1998, 5, 18), datetime(1998, 5, 25)  # Mondays; the later one is evaluated
VARIANTS = ("static", "application", "infrastructure", "both")
LEARNERS = ("q-learning", "model-based")


@dataclass(frozen=True, slots=True)
class Outcome:
    """One run: its figures and its course."""

    totals: FleetTotals
    timeline: FleetTimeline
    cost: float
    """Mean cost of an operator and period as the learning policies count it."""

    def figures(self) -> dict[str, float]:
        totals = self.totals
        return {
            "utilisation": totals.utilisation,
            "mean_s": totals.latencies.mean_s or 0.0,
            "p99_s": totals.latencies.quantile_s(0.99) or 0.0,
            "violation_rate": totals.violation_rate,
            "host_hours": totals.host_hours,
            "reconfigurations": totals.reconfigurations,
            "downtime_s": totals.downtime_s,
            "replica_hours": totals.task_hours,
            "most_hosts": totals.most_hosts,
            "moves": totals.moves,
            "cost": self.cost,
        }


def judge(plant: FleetPlant, timeline: FleetTimeline, most: Mapping[str, Mapping[str, int]]) -> Outcome:
    """The figures of a finished run. A period in which an application is late counts for each of its operators."""
    totals, w = plant.totals(), Weights()
    late = np.array(timeline.late)[:, [plant.index[name] for name, _ in plant.spec.operators]]
    sizes = np.array(timeline.tasks) / [most[name][operator] for name, operator in plant.spec.operators]
    changes = plant.rescaled / sizes.size
    cost = w.reconfiguration * changes + w.objective * late.mean() + w.resources * sizes.mean()
    return Outcome(totals, timeline, float(cost))


@dataclass(frozen=True, slots=True)
class Trial:
    """A fleet, its rows, and the size that it starts with."""

    spec: FleetSpec
    rows: Floats
    size: Size

    def static(self) -> Outcome:
        plant = self.size.plant(self.spec, self.rows)
        return judge(plant, leave_alone(plant, self.rows.shape[1], CENTRE_S), most_tasks(self.spec))

    def run(
        self, policy: str, *, tasks: bool = True, hosts: bool = True, learned: dict[str, Learned] | None = None
    ) -> tuple[Outcome, dict[str, Learned]]:
        """Control it. Returns what came of it, and what the policy has learned by the end."""
        most = most_tasks(self.spec)
        file = fleet_file(self.spec, policy, self.size.hosts, elastic=hosts)
        plant = self.size.plant(self.spec, self.rows)
        controlled = SimulatedFleet(plant, file, Levels(most if tasks else {}, hosts), learned)
        return judge(plant, controlled.run(self.rows.shape[1]), most), controlled.know()


def compare(source: RecordedLoad, seed: int) -> dict[str, dict[str, float]]:
    """Threshold against model-based on one recorded load, in one region with as many hosts as its peak needs."""
    spec = fleet(("europe",), (1.0,))
    rows = load(spec, source, source.judged, source.days, np.random.default_rng([seed, 1]))
    earlier = load(spec, source, source.training, source.days, np.random.default_rng([seed, 2]))
    size = static_size(spec, rows)
    _, learned = Trial(spec, earlier, static_size(spec, earlier)).run("model-based", hosts=False)
    trial = Trial(spec, rows, size)
    runs = {
        "threshold": trial.run("threshold", hosts=False)[0],
        "model-based": trial.run("model-based", hosts=False, learned=learned)[0],
    }
    keys = ("cost", "violation_rate", "replica_hours", "reconfigurations")
    return {name: {key: outcome.figures()[key] for key in keys} for name, outcome in runs.items()}


def judged_rows(spec: FleetSpec, seed: int, days: int) -> Floats:
    return load(spec, LOADS[0], JUDGED_WEEK, days, np.random.default_rng([seed, 1]))


def vary(variant: str, size: Size, seed: int, days: int) -> Outcome:
    """One of the four ways to control the fleet."""
    spec = fleet()
    trial = Trial(spec, judged_rows(spec, seed, days), size)
    if variant == "static":
        return trial.static()
    return trial.run("threshold", tasks=variant != "infrastructure", hosts=variant != "application")[0]


def train_and_run(policy: str, size: Size, seed: int, days: int) -> Outcome:
    """Both levels elastic, with a policy that has learned from the week before."""
    spec = fleet()
    earlier = load(spec, LOADS[0], TRAINING_WEEK, days, np.random.default_rng([seed, 2]))
    _, learned = Trial(spec, earlier, size).run(policy)
    del earlier
    return Trial(spec, judged_rows(spec, seed, days), size).run(policy, learned=learned)[0]


def run(
    seed: int = 1, out: Path | None = None, told: Told | None = None, days: int = DAYS, cores: int | None = None
) -> dict[str, Any]:
    """Size the static fleet and run every variant on the same rows; with `out`, draw the results.

    Runs are independent of each other, so they use all cores. The result does not depend on how many there are.
    """
    tell = told or (lambda done, total, what: None)
    spec, source = fleet(), LOADS[0]
    tell(0, 1, "load")
    size = static_size(spec, judged_rows(spec, seed, days), lambda what: tell(0, 1, what))
    jobs: dict[str, Callable[[], Any]] = {name: partial(train_and_run, name, size, seed, days) for name in LEARNERS}
    jobs |= {name: partial(vary, name, size, seed, days) for name in VARIANTS}
    jobs |= {one.name: partial(compare, one, seed) for one in (LOADS if source.find() else ())}
    found = run_all(jobs, tell, cores)
    outcomes: dict[str, Outcome] = {name: found[name] for name in VARIANTS}
    policies: dict[str, Outcome] = {"threshold": outcomes["both"], **{name: found[name] for name in LEARNERS}}
    loads = {one.name: found[one.name] for one in LOADS if one.name in found}
    document = {
        "simulated": {name: outcome.figures() for name, outcome in outcomes.items()},
        "policies": {name: outcome.figures() for name, outcome in policies.items()},
        "loads": loads,
        "model_based_cheaper": sum(one["model-based"]["cost"] < one["threshold"]["cost"] for one in loads.values()),
        "static_size": {
            "hosts": size.hosts,
            "replicas": sum(sum(tasks.values()) for tasks in size.tasks.values()),
        },
        "load": "worldcup98" if source.find() else "made up",
        "days": days,
        "seed": seed,
    }
    if out is not None:
        from tidegate_lab.experiments.multilevel_figures import draw_courses, draw_policies

        draw_courses({name: o.timeline for name, o in outcomes.items()}, spec, out / "multilevel.png")
        draw_policies({name: o.timeline for name, o in policies.items()}, spec, out / "multilevel-policies.png")
    return document


def run_all(jobs: Mapping[str, Callable[[], Any]], tell: Told, cores: int | None = None) -> dict[str, Any]:
    """Run every job, in processes if there are several cores. List the longest first, so that none waits for it."""
    results: dict[str, Any] = {}
    workers = min(cores or usable_cores(), len(jobs))
    if workers <= 1:
        for name, job in jobs.items():
            tell(len(results), len(jobs), name)
            results[name] = job()
        return results
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        names = {pool.submit(job): name for name, job in jobs.items()}
        tell(0, len(jobs), f"{len(jobs)} runs on {workers} cores")
        for future in as_completed(names):
            results[names[future]] = future.result()
            tell(len(results), len(jobs), f"{names[future]} is done")
    return results


def usable_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
