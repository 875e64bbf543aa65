"""Shared parts of the experiments on service classes: classes, micro-batch applications on a simulated pool, and runs.

The controller is the production one. Its policy contains only objectives, classes and bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tidegate.adapters.sim import SimApplication, SimCluster, SimOperator
from tidegate.adapters.sim.latencybins import Latencies
from tidegate.control.controller import Controller
from tidegate.domain import Targets
from tidegate.domain.policy import Policy
from tidegate.evaluate.table import Floats
from tidegate.load import LoadProfile

Told = Callable[[int, int, str], None]
"""Reports progress: done, total, what comes next."""

INTERVAL_S = 2.0
OVERHEAD_S = 0.2
SLOTS_PER_EXECUTOR = 4
# The paper's weights; its delays of 0.3, 0.5 and 0.8 s are below what a batch takes here, so they are 20 times as long.
CLASSES: dict[str, dict[str, float]] = {
    "q1": {"latency_s": 6.0, "weight": 6},
    "q2": {"latency_s": 10.0, "weight": 3},
    "q3": {"latency_s": 16.0, "weight": 1},
}
_TASKS = 8
_KINDS = (0.3, 1.0, 3.0)  # work of a row: grep, MD5, sort
_SPREAD = 0.8  # of the logarithm of that work, from one application to the next


@dataclass(frozen=True, slots=True)
class World:
    """Applications with different costs, assigned to classes at random, on one pool."""

    jobs: tuple[SimApplication, ...]
    groups: Mapping[str, str]
    slots: int
    seed: int

    def cluster(self) -> SimCluster:
        executors = self.slots // SLOTS_PER_EXECUTOR
        return SimCluster(
            self.jobs, executors, SLOTS_PER_EXECUTOR, max_executors=executors, groups=self.groups, seed=self.seed
        )

    def policy(self, **settings: object) -> Policy:
        """Objectives, classes and bounds; the pool is all there is."""
        executors = self.slots // SLOTS_PER_EXECUTOR
        applications = {name: {"class": group} for name, group in self.groups.items()}
        return Policy.model_validate(
            {
                "executors": {"min": executors, "max": executors},
                "classes": CLASSES,
                "applications": applications,
                **settings,
            }
        )


def world(count: int, slots: int, busy: float, rate: float, profiles: Mapping[str, LoadProfile], seed: int) -> World:
    """Rows so long that `rate` rows/s at every application keep the slots `busy`; arrivals are by class."""
    random = np.random.default_rng([seed, 1])
    row_s = random.choice(_KINDS, count) * random.lognormal(0.0, _SPREAD, count)
    row_s *= busy * slots / (rate * row_s.sum())
    group = random.permutation(np.arange(count) % len(CLASSES))
    names = [f"app-{number}" for number in range(count)]
    groups = {name: list(CLASSES)[int(index)] for name, index in zip(names, group, strict=True)}
    jobs = tuple(
        SimApplication(
            name, profiles[groups[name]], interval_s=INTERVAL_S, overhead_s=OVERHEAD_S, cold_s=0.0,
            operators=(SimOperator("work", cost_s_per_row=float(cost), parallelism=_TASKS),),
        )
        for name, cost in zip(names, row_s, strict=True)
    )  # fmt: skip
    return World(jobs, groups, slots, seed)


@dataclass(frozen=True, slots=True)
class Run:
    """A completed run of a world."""

    world: World
    cluster: SimCluster
    busy_s: Mapping[str, Floats]
    """Slot-seconds of the batches committed in each second, by class."""
    until_s: float

    def latencies(self, group: str, from_s: float, to_s: float) -> Latencies:
        """Return the latencies of a class's rows that arrived in a span. Rows still waiting at the end count at their
        age."""
        total = Latencies.empty()
        for gate in self.cluster.gates:
            if self.world.groups[gate.name] == group:
                total = total.merge(gate.ledger.latencies_of(from_s, to_s, self.until_s))
        return total

    def by_class(self, from_s: float, to_s: float) -> dict[str, dict[str, float]]:
        """Latency, violations and resources of every class over a part of the run."""
        span, all_busy_s = slice(int(from_s), int(to_s)), sum(float(each.sum()) for each in self._spent(from_s, to_s))
        summary = {}
        for name, rule in CLASSES.items():
            latencies, busy_s = self.latencies(name, from_s, to_s), float(self.busy_s[name][span].sum())
            summary[name] = {
                "mean_s": latencies.mean_s or 0.0,
                "p50_s": latencies.quantile_s(0.5) or 0.0,
                "p99_s": latencies.quantile_s(0.99) or 0.0,
                "violations": latencies.late_share(rule["latency_s"]) or 0.0,
                "rows_per_s": latencies.rows / (to_s - from_s),
                "cpus": busy_s / (to_s - from_s),
                "cpu_share": busy_s / max(all_busy_s, 1e-9),
            }
        return summary

    def _spent(self, from_s: float, to_s: float) -> list[Floats]:
        return [each[int(from_s) : int(to_s)] for each in self.busy_s.values()]


def play(
    of: World, until_s: float, controller: Controller | None = None, shares: Mapping[str, float] | None = None
) -> Run:
    """Observe, decide and converge once a second; without a controller, run under these shares or none."""
    cluster = of.cluster()
    if shares:
        cluster.converge(Targets(shares=shares))
    busy_s = {name: np.zeros(int(until_s) + 2) for name in CLASSES}
    for second in range(int(until_s) + 1):
        cluster.clock.sleep_until(float(second))
        observation = cluster.observe()
        for sample in observation.applications:
            for batch in sample.batches:
                busy_s[of.groups[sample.name]][second] += batch.busy_s or 0.0
        if controller is not None:
            decision = controller.step(observation)
            receipt = cluster.converge(controller.knowledge.targets.after(decision.actions))
            controller.learn(decision, receipt)
    return Run(of, cluster, busy_s, float(int(until_s)))


def over_time(run: Run, step_s: float = 5.0) -> dict[str, list[tuple[float, float | None]]]:
    """The 99th percentile of the rows that arrived in each few seconds, by class."""
    times: Sequence[float] = np.arange(0.0, run.until_s, step_s).tolist()
    return {
        name: [(at_s, run.latencies(name, at_s, at_s + step_s).quantile_s(0.99)) for at_s in times] for name in CLASSES
    }
