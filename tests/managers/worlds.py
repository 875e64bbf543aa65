"""Small fleets for tests."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tidegate.adapters.sim.fleet import FleetOperator, FleetPlant, FleetSpec, HostKind, SimFleetApplication, spread
from tidegate.adapters.sim.fleet_kernel import Floats
from tidegate.adapters.sim.fleet_loop import FleetLoop, LoopSettings
from tidegate.managers import Budget
from tidegate.managers.policies import LocalPolicy, OperatorLimits, Threshold

REGIONS = ("north", "south")
SPEC = FleetSpec(
    tuple(
        SimFleetApplication(f"app-{region}", region, 4.0, (FleetOperator("parse", 0.01), FleetOperator("count", 0.02)))
        for region in REGIONS
    ),
    HostKind(cores=2, slots=5, boot_s=60),
    places_per_region=12,
)
MOST = dict.fromkeys(SPEC.operator_names(), 10)


def rows(seconds: int, rate: float | Floats, seed: int = 1) -> Floats:
    """Poisson arrivals for every application of the small fleet."""
    rates = np.broadcast_to(np.asarray(rate, dtype=float), (len(SPEC.applications), seconds))
    return np.random.default_rng(seed).poisson(rates).astype(float)


def seated(arrivals: Floats, replicas: int | Mapping[str, int] = 2, hosts: int = 3) -> FleetPlant:
    """The small fleet with its replicas spread over its hosts."""
    plant = FleetPlant(SPEC, arrivals)
    for region in REGIONS:
        plant.have_hosts(region, hosts)
    counts = dict.fromkeys(plant.operators, replicas) if isinstance(replicas, int) else dict(replicas)
    for operator, seats in spread(SPEC, counts, {region: plant.hosts_of(region) for region in REGIONS}).items():
        plant.seat(operator, seats)
    return plant


def threshold(_: str, limits: OperatorLimits) -> LocalPolicy:
    return Threshold(limits)


def steered(plant: FleetPlant, **changes: object) -> FleetLoop:
    """A loop with every manager over the plant."""
    settings = {"budget": Budget(12), "most_replicas": MOST} | changes
    return FleetLoop(plant, LoopSettings(**settings), threshold)  # type: ignore[arg-type]
