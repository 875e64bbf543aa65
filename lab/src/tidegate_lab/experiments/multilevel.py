"""Multi-level elasticity (Nardelli et al., E2DF) on a simulated fleet: static, applications, infrastructure, both.

Three regions, nine applications, and a load that moves between the regions over five days. The learning policies are
trained on the week before the evaluated one.
"""

from __future__ import annotations

import copy
import csv
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from tidegate.adapters.sim.fleet import FleetOperator, FleetPlant, FleetSpec, FleetTotals, SimFleetApplication, spread
from tidegate.adapters.sim.fleet_kernel import Floats
from tidegate.adapters.sim.fleet_load import arrivals, made_up_days, per_second, regional_shares
from tidegate.adapters.sim.fleet_loop import FleetLoop, FleetTimeline, LoopSettings, PolicyMaker, leave_alone, limits_of
from tidegate.domain.errors import InvalidInput
from tidegate.domain.python310 import iso_time
from tidegate.managers import ApplicationSettings, Budget, RegionSettings, TokenRule
from tidegate.managers.policies import (
    Apprentice,
    DecisionProcess,
    Experience,
    LearnedModel,
    LocalPolicy,
    ModelBased,
    OperatorLimits,
    QLearning,
    Threshold,
    Weights,
)
from tidegate_lab.experiments.recorded import recorded

Told = Callable[[int, int, str], None]  # done, total, what comes next

REGIONS = ("europe", "asia", "america")
WANDER = 0.7  # a region's share of the load lies between 0.3 and 1.7 times its mean
TOP_ROWS_PER_S = 3000.0
NETWORK_S = 0.04  # results are read in another region
DAYS = 5
TRAINING_WEEK, JUDGED_WEEK = datetime(1998, 5, 18), datetime(1998, 5, 25)  # Mondays; the later one is evaluated
ALLOWED = 0.01  # share of an application's rows that may be over the objective
KINDS: Mapping[str, tuple[float, tuple[tuple[str, float], ...]]] = {
    # name: objective in seconds, operators with core-seconds a row
    "clicks": (4.0, (("parse", 0.003), ("enrich", 0.006), ("count", 0.004))),
    "sessions": (6.0, (("parse", 0.003), ("join", 0.006), ("window", 0.005), ("write", 0.003))),
    "alerts": (4.0, (("filter", 0.004), ("score", 0.006))),
}
PLENTY = 26  # hosts a region has while policies train
ENOUGH_TRIES = 10


def fleet() -> FleetSpec:
    """Every kind of application in every region."""
    return FleetSpec(
        tuple(
            SimFleetApplication(
                f"{kind}-{region}",
                region,
                objective_s,
                tuple(FleetOperator(*operator) for operator in chain),
                NETWORK_S,
            )
            for region in REGIONS
            for kind, (objective_s, chain) in KINDS.items()
        )
    )


def most_replicas(spec: FleetSpec) -> dict[str, int]:
    """Return 1.5 times the replicas that the peak load of a region would keep busy."""
    top = TOP_ROWS_PER_S * (1 + WANDER) / len(REGIONS)
    return {
        f"{app.name}.{operator.name}": int(np.ceil(1.5 * top * operator.cost_s_per_row))
        for app in spec.applications
        for operator in app.operators
    }


def find_trace() -> Path | None:
    """Return the World Cup trace, or None if it is not available."""
    return recorded("worldcup98/requests_per_minute.csv")


def read_minutes(path: Path, first: datetime, days: int) -> Floats:
    """Read requests per minute of whole days. The few missing minutes are interpolated."""
    times_s, counts = [], []
    with path.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            at = iso_time(row["period"])
            if first <= at < first + timedelta(days=days):
                times_s.append((at - first).total_seconds())
                counts.append(float(row["count"]))
    if len(counts) < 0.99 * days * 1440:
        raise InvalidInput(f"{path}: {len(counts)} minutes from {first:%d %B %Y} on; {days * 1440} are needed")
    minutes: Floats = np.interp(60.0 * np.arange(days * 1440), times_s, counts)
    return minutes


def load(spec: FleetSpec, trace: Path | None, first: datetime, days: int, rng: np.random.Generator) -> Floats:
    """application × second: the total split over the regions; every application of a region sees all of its rows."""
    minutes = made_up_days(days, rng) if trace is None else read_minutes(trace, first, days)
    total = per_second(minutes, TOP_ROWS_PER_S)
    shares = regional_shares(len(total), len(REGIONS), WANDER)
    regions = [REGIONS.index(app.region) for app in spec.applications]
    return arrivals((total * shares)[regions], rng)


@dataclass(frozen=True, slots=True)
class Size:
    """Replicas per operator and hosts per region."""

    replicas: dict[str, int]
    hosts: dict[str, int]

    def plant(self, spec: FleetSpec, rows: Floats) -> FleetPlant:
        plant = FleetPlant(spec, rows)
        for region, hosts in self.hosts.items():
            plant.have_hosts(region, hosts)
        for operator, seats in spread(spec, self.replicas, {r: plant.hosts_of(r) for r in self.hosts}).items():
            plant.seat(operator, seats)
        return plant


def static_size(spec: FleetSpec, rows: Floats, told: Callable[[str], None]) -> Size:
    """Find the fewest hosts in every region at which no application has more than 1 % of its rows over the objective.

    Replicas suffice for all but one minute in a thousand. More would not save a host, because hosts share their cores
    by
    demand. The regions are independent, so one run tries a size in each.
    """
    minutes = rows[:, : rows.shape[1] // 60 * 60].reshape(len(rows), -1, 60).mean(axis=2)
    replicas = {
        f"{app.name}.{operator.name}": max(1, int(np.ceil(np.quantile(rates, 0.999) * operator.cost_s_per_row)))
        for app, rates in zip(spec.applications, minutes, strict=True)
        for operator in app.operators
    }
    work = {r: _regional_work(spec, minutes, r) for r in spec.regions}
    slots, cores = spec.host.slots, spec.host.cores
    seats = {r: sum(replicas[name] for name in _operators_of(spec, r)) for r in spec.regions}
    low = {r: max(int(work[r].mean() / cores), -(-seats[r] // slots)) - 1 for r in spec.regions}  # too few
    high = {r: max(low[r] + 1, int(np.ceil(work[r].max() / cores)) + 1) for r in spec.regions}  # enough
    while any(high[r] - low[r] > 1 for r in spec.regions):
        tried = {r: (low[r] + high[r]) // 2 if high[r] - low[r] > 1 else high[r] for r in spec.regions}
        told(f"static: {' + '.join(str(n) for n in tried.values())} hosts")
        plant = Size(replicas, tried).plant(spec, rows)
        plant.advance(rows.shape[1])
        rates = plant.totals().violation_rates
        for r in spec.regions:
            kept = all(rates[app.name] <= ALLOWED for app in spec.applications if app.region == r)
            (high if kept else low)[r] = tried[r]
    return Size(replicas, high)


def _operators_of(spec: FleetSpec, region: str) -> list[str]:
    return [f"{app.name}.{o.name}" for app in spec.applications if app.region == region for o in app.operators]


def _regional_work(spec: FleetSpec, minutes: Floats, region: str) -> Floats:
    """Cores' worth of work by the minute."""
    work = np.zeros(minutes.shape[1])
    for app, rates in zip(spec.applications, minutes, strict=True):
        work += rates * app.unloaded_s * (app.region == region)
    return work


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
            "replica_hours": totals.replica_hours,
            "most_hosts": totals.most_hosts,
            "cost": self.cost,
        }


def judge(plant: FleetPlant, timeline: FleetTimeline, most: Mapping[str, int]) -> Outcome:
    """The figures of a finished run."""
    totals, w = plant.totals(), Weights()
    limits = limits_of(plant.spec, most)
    late = np.array(timeline.response_s) > [limits[name].objective_s for name in plant.operators]
    sizes = np.array(timeline.replicas) / [most[name] for name in plant.operators]
    changes = totals.reconfigurations / sizes.size
    cost = w.reconfiguration * changes + w.objective * late.mean() + w.resources * sizes.mean()
    return Outcome(totals, timeline, float(cost))


class Trained:
    """What the learning policies know after the training week: one table and one model per size class of operators.

    Operators with the same most replicas have the same states, so they learn together; then each gets its own copy.
    """

    def __init__(self, spec: FleetSpec, rows: Floats, seed: int) -> None:
        self.tables: dict[int, Experience] = {}
        self.models: dict[int, LearnedModel] = {}
        self._seed = seed
        rng = np.random.default_rng([seed, 3])
        most = most_replicas(spec)
        free = TokenRule(size=1000, refill_s=1)
        settings = LoopSettings(
            Budget(PLENTY * len(REGIONS)),
            most,
            application=ApplicationSettings(operator=free, application=free),
            region=RegionSettings(elastic=False),
        )

        def apprentice(_: str, limits: OperatorLimits) -> LocalPolicy:
            process = DecisionProcess(limits)
            if limits.most not in self.tables:
                self.tables[limits.most] = replace(Experience.empty(process), samples=[])
                self.models[limits.most] = LearnedModel.empty(process)
            learners = (
                QLearning(process, self.tables[limits.most], rng),
                ModelBased(process, self.models[limits.most], backup_every=1000),
            )
            return Apprentice(process, Threshold(limits), learners, rng)

        hosts = dict.fromkeys(REGIONS, PLENTY)
        replicas = {name: -(-n // 3) for name, n in most.items()}
        FleetLoop(Size(replicas, hosts).plant(spec, rows), settings, apprentice).run(rows.shape[1])
        for limits in {limits.most: limits for limits in limits_of(spec, most).values()}.values():
            process = DecisionProcess(limits)
            self.tables[limits.most].replay(process, ENOUGH_TRIES)
            ModelBased(process, self.models[limits.most]).backup(sweeps=1500)

    def q_learning(self, name: str, limits: OperatorLimits) -> LocalPolicy:
        rng = np.random.default_rng([self._seed, 4, *name.encode()])
        table = copy.deepcopy(self.tables[limits.most])
        return QLearning(
            DecisionProcess(limits), table, rng, explore=False, least_alpha=0.01, enough_tries=ENOUGH_TRIES
        )

    def model_based(self, _: str, limits: OperatorLimits) -> LocalPolicy:
        return ModelBased(DecisionProcess(limits), copy.deepcopy(self.models[limits.most]))


def threshold(_: str, limits: OperatorLimits) -> LocalPolicy:
    """The simple policy of the paper."""
    return Threshold(limits)


def run(seed: int = 1, out: Path | None = None, told: Told | None = None, days: int = DAYS) -> dict[str, Any]:
    """Size the static fleet, train, and run every variant on the same rows; with `out`, draw the results."""
    steps, done = 14, 0

    def tell(what: str) -> None:
        nonlocal done
        if told:
            told(min(done, steps - 1), steps, what)
        done += 1

    spec, trace = fleet(), find_trace()
    tell("load")
    rows = load(spec, trace, JUDGED_WEEK, days, np.random.default_rng([seed, 1]))
    earlier = load(spec, trace, TRAINING_WEEK, days, np.random.default_rng([seed, 2]))
    most = most_replicas(spec)
    size = static_size(spec, rows, tell)
    budget = Budget(2 * sum(size.hosts.values()))

    def steer(policy: PolicyMaker, operators: bool, hosts: bool) -> Outcome:
        settings = LoopSettings(budget, most, operators, region=RegionSettings(elastic=hosts))
        loop = FleetLoop(size.plant(spec, rows), settings, policy)
        return judge(loop.plant, loop.run(rows.shape[1]), most)

    tell("static")
    plant = size.plant(spec, rows)
    outcomes = {"static": judge(plant, leave_alone(plant, rows.shape[1]), most)}
    tell("application")
    outcomes["application"] = steer(threshold, operators=True, hosts=False)
    tell("infrastructure")
    outcomes["infrastructure"] = steer(threshold, operators=False, hosts=True)
    tell("both")
    outcomes["both"] = steer(threshold, operators=True, hosts=True)
    tell("training")
    trained = Trained(spec, earlier, seed)
    policies = {"threshold": outcomes["both"]}
    for name, policy in (("q-learning", trained.q_learning), ("model-based", trained.model_based)):
        tell(f"both, {name}")
        policies[name] = steer(policy, operators=True, hosts=True)
    document = {
        "simulated": {name: outcome.figures() for name, outcome in outcomes.items()},
        "policies": {name: outcome.figures() for name, outcome in policies.items()},
        "static_size": {"hosts": size.hosts, "replicas": sum(size.replicas.values())},
        "load": "worldcup98" if trace else "made up",
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
