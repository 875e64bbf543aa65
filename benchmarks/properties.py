"""Properties of the autopilot over random simulated loads: `python benchmarks/properties.py [loads]`.

Every load is a job with random cost, objective and trigger under the default policy. Prints how many loads satisfy each
property. The exit code is 1 if a property that must always hold was violated.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

import numpy as np

from tidegate.adapters.sim import MetricsStale, SimApplication, SimCluster, SimOperator
from tidegate.control.controller import Controller
from tidegate.control.journal import Entry, MemoryJournal
from tidegate.control.runner import Runner
from tidegate.domain import ScaleExecutors
from tidegate.domain.policy import Policy
from tidegate.load import Constant, LoadProfile, Poisson, Sinusoid

MOST, SLOTS = 6, 2
LASTS_S, SETTLED_S = 240.0, 60.0
WINDOW_S = 60.0
STALE_S = (120.0, 200.0)
ALWAYS = ("within bounds", "nothing on bad metrics")


@dataclass(frozen=True, slots=True)
class Case:
    """A random job; `peak` is the largest share of the largest pool that its load keeps busy."""

    number: int
    row_s: float
    interval_s: float
    objective_s: float
    peak: float
    period_s: float

    @classmethod
    def draw(cls, number: int) -> Case:
        random = np.random.default_rng(number)
        interval_s = float(random.choice([1.0, 2.0, 5.0]))
        return cls(
            number=number,
            row_s=float(10 ** random.uniform(-3.0, -1.7)),
            interval_s=interval_s,
            objective_s=float(random.uniform(8.0, 30.0)) + 2 * interval_s,
            peak=float(random.uniform(0.1, 0.6)),
            period_s=float(random.uniform(120.0, 600.0)),
        )

    @property
    def rows_per_s(self) -> float:
        return self.peak * MOST * SLOTS / self.row_s

    def swinging(self, times: float = 1.0) -> LoadProfile:
        rate = times * self.rows_per_s
        return Poisson(Sinusoid(0.6 * rate, 0.4 * rate, self.period_s, phase=-np.pi / 2), seed=self.number)

    def noisy(self) -> LoadProfile:
        return Poisson(Constant(self.rows_per_s), seed=self.number)


def play(case: Case, load: LoadProfile, stale: bool = False) -> tuple[SimCluster, list[Entry]]:
    job = SimApplication(
        "job",
        load,
        interval_s=case.interval_s,
        operators=(SimOperator("work", case.row_s, parallelism=MOST * SLOTS),),
    )
    faults = (MetricsStale(*STALE_S),) if stale else ()
    cluster = SimCluster([job], executors=1, slots_per_executor=SLOTS, seed=case.number, faults=faults)
    policy = Policy.model_validate({"objective": {"latency_s": case.objective_s}, "executors": {"max": MOST}})
    journal = MemoryJournal()
    Runner(cluster, Controller(policy), cluster.clock, journal, journal).run(until_s=LASTS_S)
    return cluster, list(journal.entries)


def within_bounds(entries: list[Entry]) -> bool:
    return all(1 <= entry.observation.pool.requested <= MOST for entry in entries if entry.observation)


def resized(entries: list[Entry], from_s: float, to_s: float = LASTS_S) -> int:
    decided = [entry.decision for entry in entries if entry.decision and from_s <= entry.time_s <= to_s]
    return sum(isinstance(action, ScaleExecutors) for decision in decided for action in decision.actions)


def worst_window(cluster: SimCluster, objective_s: float) -> float:
    """The largest share of rows over the objective in any window, after the first one in which costs are learned."""
    ledger, shares = cluster.gates[0].ledger, []
    for from_s in np.arange(SETTLED_S, LASTS_S - WINDOW_S, WINDOW_S / 4):
        seen = ledger.latencies_of(float(from_s), float(from_s) + WINDOW_S, LASTS_S)
        shares.append(seen.late_share(objective_s) or 0.0)
    return max(shares)


def check(case: Case) -> dict[str, bool]:
    """Return whether each property holds."""
    swinging, entries = play(case, case.swinging())
    steady = play(case, case.noisy())[1]
    blind = play(case, case.swinging(), stale=True)[1]
    found = {
        "within bounds": all(within_bounds(one) for one in (entries, steady, blind)),
        "nothing on bad metrics": resized(blind, STALE_S[0] + 31.0, STALE_S[1]) == 0,
        "no flapping on noise": resized(steady, 2 * SETTLED_S) <= 1,
        "error budget in every window": worst_window(swinging, case.objective_s) <= 0.01,
    }
    if case.number % 4 == 0:  # the dearest: another run
        more = play(case, case.swinging(times=1.5))[0]
        found["monotone in load"] = more.executors.seconds >= 0.95 * swinging.executors.seconds
    return found


def main(loads: int) -> int:
    kept: dict[str, int] = {}
    tried: dict[str, int] = {}
    for number in range(loads):
        for name, holds in check(Case.draw(number)).items():
            kept[name], tried[name] = kept.get(name, 0) + holds, tried.get(name, 0) + 1
    for name, count in tried.items():
        print(f"{name:30} {kept[name]:4} of {count}")
    return int(any(kept[name] < tried[name] for name in ALWAYS))


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 200))
