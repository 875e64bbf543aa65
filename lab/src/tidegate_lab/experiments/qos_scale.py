"""Service classes with hundreds of applications on one pool: three rates and a burst, under three ways to share it.

The lowest class bursts from 100 to 300 rows/s, and the cost of a row is such that this saturates the pool. Under high
traffic the pool is full on average, and a wave of 15 % overloads it. Rates are the paper's; the cost of a row is chosen
for each case. The controller is the production one, on the simulated micro-batch cluster.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tidegate.control.controller import Controller
from tidegate.load import Burst, Constant, LoadProfile, Sinusoid
from tidegate_lab.experiments.class_world import CLASSES, INTERVAL_S, Run, Told, World, over_time, play, world
from tidegate_lab.experiments.qos_figures import draw_classes

APPLICATIONS, SLOTS = 300, 32
_BURST = (60.0, 100.0)
_WEIGHTS = {name: rule["weight"] for name, rule in CLASSES.items()}
_SHARES = {name: weight / sum(_WEIGHTS.values()) for name, weight in _WEIGHTS.items()}


@dataclass(frozen=True, slots=True)
class Scenario:
    """A load, and the part of the run that is measured."""

    name: str
    rate: float
    """Rows per second of every application, on average outside of bursts."""
    busy: float
    """Of the slots, at that rate."""
    until_s: float
    measured: tuple[float, float]
    wave: float = 0.0
    bursts: bool = False

    def profiles(self) -> Mapping[str, LoadProfile]:
        """Arrivals of each application, by class."""
        steady = Sinusoid(self.rate, self.wave * self.rate, 40.0) if self.wave else Constant(self.rate)
        burst = Burst(self.rate, 3 * self.rate, _BURST[0], _BURST[1] - _BURST[0])
        return {name: burst if self.bursts and name == list(CLASSES)[-1] else steady for name in CLASSES}


SCENARIOS = (
    Scenario("low", 100, 1 / 16, until_s=40, measured=(20, 35)),
    Scenario("middle", 400, 1 / 4, until_s=40, measured=(20, 35)),
    Scenario("high", 1600, 1.0, until_s=120, measured=(50, 100), wave=0.15),
    Scenario("burst", 100, 0.9, until_s=130, measured=_BURST, bursts=True),
)
POLICIES = ("round-robin", "weighted-fair", "mpc")


def run(
    seed: int = 1,
    out: Path | None = None,
    told: Told | None = None,
    applications: int = APPLICATIONS,
    scenarios: tuple[Scenario, ...] = SCENARIOS,
) -> dict[str, Any]:
    """Every scenario under every policy, with the same arrivals; figures of the burst where `out` is given."""
    found: dict[str, Any] = {}
    burst: dict[str, Run] = {}
    total = len(scenarios) * len(POLICIES)
    for s, scenario in enumerate(scenarios):
        of = world(applications, SLOTS, scenario.busy, scenario.rate, scenario.profiles(), seed)
        found[scenario.name] = {}
        for p, policy in enumerate(POLICIES):
            if told:
                told(s * len(POLICIES) + p, total, f"{scenario.name}, {policy}")
            played = _play(of, scenario, policy)
            found[scenario.name][policy] = played.by_class(*scenario.measured)
            if scenario.bursts:
                burst[policy] = played
    if told:
        told(total, total, "done")
    document = {
        "hosts": 1,
        "cpus": float(SLOTS),
        "applications": applications,
        "seed": seed,
        "resolution_s": INTERVAL_S,
        "scenarios": found,
        "ratios": _ratios(found) if {"burst", "high"} <= found.keys() else {},
    }
    if out is not None:
        targets = {name: rule["latency_s"] for name, rule in CLASSES.items()}
        series = {policy: over_time(played) for policy, played in burst.items()}
        document["figures"] = [str(draw_classes(series, targets, out / "qos-burst.png"))]
    return document


def _play(of: World, scenario: Scenario, policy: str) -> Run:
    """Round-robin knows no classes; weighted fair has the weights as fixed shares; mpc is the controller."""
    if policy == "mpc":
        return play(of, scenario.until_s, Controller(of.policy()))
    return play(of, scenario.until_s, shares=_SHARES if policy == "weighted-fair" else None)


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
