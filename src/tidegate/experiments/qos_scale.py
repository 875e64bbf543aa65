"""Service classes at the paper's scale: 4 hosts of 8 cores, 4 000 applications, three rates and a burst.

The lowest class bursts from 100 to 300 rows/s; rows are so long that the hosts saturate in it. Under high traffic hosts
are full on average and a wave of 15 % takes them above. Rates are the paper's, the work of a row is chosen for either.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tidegate.experiments.qos_figures import draw_classes
from tidegate.experiments.qos_world import CLASSES, RULES, PredictiveSharing, Told, by_class, tenants
from tidegate.sim.shared import Interval, RoundRobin, SharedHosts, SharingPolicy, Tenants, WeightedFair
from tidegate.sim.state import Floats

HOSTS, CPUS, APPLICATIONS = 4, 8.0, 4000
STEP_S = 0.025
_RAMP_S = 3.0
_BURST = (40.0, 70.0)


@dataclass(frozen=True, slots=True)
class Scenario:
    """A load, and the part of the run that is measured."""

    name: str
    rate: float
    """Rows per second of every application, on average outside of bursts."""
    busy: float
    """Of the hosts, at that rate."""
    until_s: float
    measured: tuple[float, float]
    wave: float = 0.0
    bursts: bool = False

    def rates(self, of: Tenants) -> Callable[[float], Floats]:
        """Rows per second of each application over time."""
        lowest = of.group == len(RULES) - 1

        def at(time_s: float) -> Floats:
            level = self.rate * (1 + self.wave * np.sin(2 * np.pi * time_s / 40))
            rates: Floats = np.full(len(lowest), level)
            if not self.bursts:
                return rates
            up = np.interp(time_s, [_BURST[0], _BURST[0] + _RAMP_S, _BURST[1], _BURST[1] + _RAMP_S], [0, 1, 1, 0])
            rates[lowest] *= 1 + 2 * up
            return rates

        return at


SCENARIOS = (
    Scenario("low", 100, 1 / 16, until_s=30, measured=(10, 30)),
    Scenario("middle", 400, 1 / 4, until_s=30, measured=(10, 30)),
    Scenario("high", 1600, 1.0, until_s=80, measured=(40, 80), wave=0.15),
    Scenario("burst", 100, 0.9, until_s=110, measured=_BURST, bursts=True),
)
POLICIES: dict[str, Callable[[Tenants], SharingPolicy]] = {
    "round-robin": lambda of: RoundRobin(),
    "weighted-fair": lambda of: WeightedFair(np.array([rule.weight for rule in RULES])[of.group]),
    "mpc": lambda of: PredictiveSharing(of, HOSTS, CPUS),
}


def run(seed: int = 1, out: Path | None = None, told: Told | None = None) -> dict[str, Any]:
    """Every scenario under every policy, with the same arrivals; figures of the burst where `out` is given."""
    scenarios: dict[str, Any] = {}
    burst: dict[str, list[Interval]] = {}
    total = len(SCENARIOS) * len(POLICIES)
    for s, scenario in enumerate(SCENARIOS):
        of = tenants(APPLICATIONS, HOSTS, CPUS, scenario.busy, scenario.rate, seed)
        policies = {}
        for p, (name, policy) in enumerate(POLICIES.items()):
            if told:
                told(s * len(POLICIES) + p, total, f"{scenario.name}, {name}")
            hosts = SharedHosts(of, HOSTS, CPUS, step_s=STEP_S, seed=seed)
            record = hosts.run(scenario.rates(of), policy(of), scenario.until_s)
            policies[name] = by_class(record, *scenario.measured)
            if scenario.bursts:
                burst[name] = record
        scenarios[scenario.name] = policies
    if told:
        told(total, total, "done")
    document = {
        "hosts": HOSTS,
        "cpus": CPUS,
        "applications": APPLICATIONS,
        "seed": seed,
        "resolution_s": STEP_S,
        "scenarios": scenarios,
        "ratios": _ratios(scenarios),
    }
    if out is not None:
        targets = {name: rule.latency_s for name, rule in CLASSES.items()}
        document["figures"] = [str(draw_classes(burst, targets, out / "qos-burst.png"))]
    return document


def _ratios(scenarios: dict[str, Any]) -> dict[str, float]:
    """The paper's claims, before ÷ after: round-robin against model-predictive control."""
    before, after = scenarios["burst"]["round-robin"], scenarios["burst"]["mpc"]
    high_before, high_after = scenarios["high"]["round-robin"], scenarios["high"]["mpc"]

    def work(classes: dict[str, dict[str, float]]) -> float:
        return sum(each["cpus"] for each in classes.values())

    return {
        "burst_mean_q1": before["q1"]["mean_s"] / after["q1"]["mean_s"],
        "burst_p99_q1": before["q1"]["p99_s"] / after["q1"]["p99_s"],
        "high_p99_q1": high_before["q1"]["p99_s"] / high_after["q1"]["p99_s"],
        "high_p99_q2": high_before["q2"]["p99_s"] / high_after["q2"]["p99_s"],
        "burst_share_q3_before": before["q3"]["cpu_share"],
        "burst_share_q3_after": after["q3"]["cpu_share"],
        "burst_work_after_to_before": work(after) / work(before),
    }
