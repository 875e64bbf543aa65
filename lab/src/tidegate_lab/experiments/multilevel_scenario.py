"""The scenario of the multi-level experiment: applications, load, the fleet's file, and the size of a static fleet."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime

import numpy as np

from tidegate.adapters.sim.fleet import FleetOperator, FleetPlant, FleetSpec, HostKind, SimFleetApplication
from tidegate.adapters.sim.fleet_kernel import Floats
from tidegate.adapters.sim.fleet_load import arrivals, made_up_days, per_second, regional_shares
from tidegate.fleet.config import FleetConfig
from tidegate_lab.experiments.multilevel_loads import RecordedLoad, read_minutes

REGIONS = ("europe", "asia", "america")
WANDER = 0.7  # a region's share of the load lies between 0.3 and 1.7 times its mean
TOP_ROWS_PER_S = 3000.0
NETWORK_S = 0.04  # results are read in another region
ALLOWED = 0.01  # share of an application's rows that may be over the objective
SLOTS = 4
SIZES = (0.8, 1.0, 1.2)
KINDS: Mapping[str, tuple[float, tuple[tuple[str, float], ...]]] = {
    # name: objective in seconds, operators with core-seconds a row
    "clicks": (10.0, (("parse", 0.0004), ("count", 0.0008))),
    "sessions": (15.0, (("join", 0.0007), ("window", 0.0009))),
    "alerts": (8.0, (("score", 0.0009),)),
    "totals": (15.0, (("parse", 0.0005), ("sum", 0.0006))),
    "fraud": (8.0, (("enrich", 0.0006), ("judge", 0.0008))),
}
HOST_S, CENTRE_S = 300, 60  # hosts step rarely, because there are many; regions and the centre are cheap


def fleet(regions: tuple[str, ...] = REGIONS, sizes: tuple[float, ...] = SIZES) -> FleetSpec:
    """Every kind of application, in every size, in every region."""
    return FleetSpec(
        tuple(
            SimFleetApplication(
                f"{kind}-{number}-{region}",
                region,
                objective_s,
                tuple(FleetOperator(name, size * cost_s) for name, cost_s in chain),
                NETWORK_S,
            )
            for region in regions
            for kind, (objective_s, chain) in KINDS.items()
            for number, size in enumerate(sizes, 1)
        ),
        HostKind(slots=SLOTS),
    )


def top_rate(spec: FleetSpec) -> float:
    """The peak load of a region in rows per second."""
    return TOP_ROWS_PER_S * (1 + WANDER) / len(REGIONS) if len(spec.regions) > 1 else TOP_ROWS_PER_S / 2


def most_tasks(spec: FleetSpec) -> dict[str, dict[str, int]]:
    """Return 1.5 times the tasks that the peak load of a region would keep busy, by application and operator."""
    top = top_rate(spec)
    return {
        app.name: {operator.name: int(np.ceil(1.5 * top * operator.cost_s_per_row)) for operator in app.operators}
        for app in spec.applications
    }


def fleet_file(spec: FleetSpec, policy: str, hosts: Mapping[str, int], elastic: bool) -> FleetConfig:
    """The fleet's file. If hosts are elastic, a region may have up to twice the static number.

    Besides sizes and objectives it sets only what depends on how often runners step; all else are a user's defaults.
    """
    rules = {
        region: {"min_hosts": 1 if elastic else count, "max_hosts": 2 * count if elastic else count}
        for region, count in hosts.items()
    }
    return FleetConfig.model_validate(
        {
            "regions": rules,
            "most_hosts": sum(rule["max_hosts"] for rule in rules.values()),
            "host": {"slots": SLOTS},
            "timing": {"poll_s": CENTRE_S},
            "managers": {
                "policy": policy,
                "period_s": HOST_S,
                "silence_s": 2 * CENTRE_S,
                "alone_pause_s": HOST_S,
            },
            "policy": {
                "mode": "apply",
                "applications": {app.name: {"objective": {"latency_s": app.objective_s}} for app in spec.applications},
            },
        }
    )


def load(spec: FleetSpec, source: RecordedLoad | None, first: datetime, days: int, rng: np.random.Generator) -> Floats:
    """application × second: the total split over the regions; every application of a region sees all of its rows."""
    path = source.find() if source is not None else None
    minutes = made_up_days(days, rng) if path is None else read_minutes(path, first, days)
    if len(spec.regions) == 1:
        total = per_second(minutes, top_rate(spec))
        return arrivals(np.broadcast_to(total, (len(spec.applications), len(total))), rng)
    total = per_second(minutes, TOP_ROWS_PER_S)
    shares = regional_shares(len(total), len(REGIONS), WANDER)
    regions = [REGIONS.index(app.region) for app in spec.applications]
    return arrivals((total * shares)[regions], rng)


@dataclass(frozen=True, slots=True)
class Size:
    """Tasks per operator, the work to place applications by, and hosts per region."""

    tasks: dict[str, dict[str, int]]
    work: dict[str, float]
    hosts: dict[str, int]

    def plant(self, spec: FleetSpec, rows: Floats) -> FleetPlant:
        """The largest application first, each on the least loaded host of its region."""
        plant, busy = FleetPlant(spec, rows), dict[str, float]()
        for region, count in self.hosts.items():
            for number in range(1, count + 1):
                plant.add_host(f"{region}-{number}", region)
        for app in sorted(spec.applications, key=lambda app: -self.work[app.name]):
            host = min(
                (name for name, host in plant.hosts.items() if host.region == app.region),
                key=lambda name: (busy.get(name, 0.0), name),
            )
            busy[host] = busy.get(host, 0.0) + self.work[app.name]
            plant.change(app.name, host, self.tasks[app.name])
        return plant


def static_size(spec: FleetSpec, rows: Floats, told: Callable[[str], None] = lambda _: None) -> Size:
    """Find the fewest hosts in every region at which no application has more than 1 % of its rows over the objective.

    Tasks suffice for all but one minute in a thousand. The regions are independent, so one run tries a size in each.
    """
    minutes = rows[:, : rows.shape[1] // 60 * 60].reshape(len(rows), -1, 60).mean(axis=2)
    peaks = dict(zip((app.name for app in spec.applications), np.quantile(minutes, 0.999, axis=1), strict=True))
    tasks = {
        app.name: {one.name: max(1, int(np.ceil(peaks[app.name] * one.cost_s_per_row))) for one in app.operators}
        for app in spec.applications
    }
    work = {
        app.name: float(peaks[app.name]) * app.unloaded_s + spec.task_cores * sum(tasks[app.name].values())
        for app in spec.applications
    }
    low, high, most = dict.fromkeys(spec.regions, 0), dict[str, int](), dict[str, int]()
    for region in spec.regions:
        own = [app for app in spec.applications if app.region == region]
        most[region] = len(own)
        high[region] = min(len(own), int(np.ceil(2 * sum(work[app.name] for app in own) / spec.host.slots)))

    def suffices(tried: dict[str, int]) -> dict[str, bool]:
        told(f"static: {' + '.join(str(n) for n in tried.values())} hosts")
        plant = Size(tasks, work, tried).plant(spec, rows)
        plant.advance(rows.shape[1])
        rates = plant.totals().violation_rates
        within = {app.name: rates[app.name] <= ALLOWED for app in spec.applications}
        return {r: all(within[app.name] for app in spec.applications if app.region == r) for r in spec.regions}

    kept = suffices(high)
    while short := [region for region in spec.regions if not kept[region] and high[region] < most[region]]:
        for region in short:
            low[region], high[region] = high[region], min(most[region], 2 * high[region])
        kept = suffices(high)
    for region in [region for region in spec.regions if not kept[region]]:
        # An application runs on one host, so more hosts would stay empty.
        told(f"static: {region} misses its objectives even with a host for every application")
        low[region] = high[region] - 1
    while any(high[region] - low[region] > 1 for region in spec.regions):
        tried = {r: (low[r] + high[r]) // 2 if high[r] - low[r] > 1 else high[r] for r in spec.regions}
        for region, enough in suffices(tried).items():
            if high[region] - low[region] > 1:
                (high if enough else low)[region] = tried[region]
    return Size(tasks, work, high)
