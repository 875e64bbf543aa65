"""Multi-level elasticity (Nardelli et al., E2DF) on a simulated fleet: static, applications, infrastructure, both.

Three regions, 45 applications, and a load that moves between the regions over five days. The fleet is controlled by the
product's own hosts, regions and centre. The learning policies are trained on the week before the evaluated one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
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


def run(seed: int = 1, out: Path | None = None, told: Told | None = None, days: int = DAYS) -> dict[str, Any]:
    """Size the static fleet, train, and run every variant on the same rows; with `out`, draw the results."""
    steps, done = 19, 0

    def tell(what: str) -> None:
        nonlocal done
        if told:
            told(min(done, steps - 1), steps, what)
        done += 1

    spec, source = fleet(), LOADS[0]
    tell("load")
    rows = load(spec, source, JUDGED_WEEK, days, np.random.default_rng([seed, 1]))
    earlier = load(spec, source, TRAINING_WEEK, days, np.random.default_rng([seed, 2]))
    size = static_size(spec, rows, tell)
    trial = Trial(spec, rows, size)
    tell("static")
    outcomes = {"static": trial.static()}
    tell("application")
    outcomes["application"], _ = trial.run("threshold", hosts=False)
    tell("infrastructure")
    outcomes["infrastructure"], _ = trial.run("threshold", tasks=False)
    tell("both")
    outcomes["both"], _ = trial.run("threshold")
    policies = {"threshold": outcomes["both"]}
    for name in LEARNERS:
        tell(f"{name}: training")
        _, learned = Trial(spec, earlier, size).run(name)
        tell(f"both, {name}")
        policies[name], _ = trial.run(name, learned=learned)
    loads: dict[str, Any] = {}
    for one in LOADS if source.find() else ():
        tell(f"policies on {one.name}")
        loads[one.name] = compare(one, seed)
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
    if told:
        told(steps, steps, "done")
    return document
