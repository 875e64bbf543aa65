"""How far a twin can be trusted: calibrated on one run, it predicts another with a different load and pool size.

The first run has one executor and a modest load. The simulator is calibrated from its journal (`twin/calibrate.py`) and
predicts the second run: two executors and a peak beyond their capacity, so that some rows miss the objective. The
prediction is compared with the measurement, on Spark or in a simulated world that the twin knows only from the journal.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import mean
from typing import Protocol

from tidegate.adapters.sim import SimApplication, SimCluster, SimOperator
from tidegate.adapters.sim.simulation import PoolRun
from tidegate.control.controller import Controller
from tidegate.control.journal import SqliteJournal
from tidegate.control.runner import Runner
from tidegate.domain.policy import Policy
from tidegate.load import Burst, LoadProfile
from tidegate.twin.calibrate import calibrate
from tidegate.twin.recordings import read_recording

ROWS_PER_EXECUTOR = 1600
"""Maximum rows of a batch, per executor: about four seconds of work."""
APPLICATION = "wordcount"
Told = Callable[[str, float], None]
"""Reports what is run and for how many seconds."""


@dataclass(frozen=True, slots=True)
class FixedRun:
    """A load on a pool of a fixed size. Rows that arrive during the warm-up are not counted."""

    name: str
    peak: Burst
    executors: int
    lasts_s: float
    objective_s: float
    warm_up_s: float = 15.0

    @property
    def end_s(self) -> float:
        """Rows that come last get the time of the objective."""
        return self.lasts_s + self.objective_s

    @property
    def played(self) -> LoadProfile:
        """The usual load while executors warm up, then the plan's."""
        return replace(self.peak, start_s=self.peak.start_s + self.warm_up_s)


KNOWN = FixedRun("known", Burst(base=120, peak=330, start_s=10, duration_s=40), 1, lasts_s=70, objective_s=20)
OTHER = FixedRun("other", Burst(base=200, peak=1350, start_s=10, duration_s=20), 2, lasts_s=90, objective_s=20)
"""A short peak of about twice the capacity of two executors: a queue grows and is drained."""


@dataclass(frozen=True, slots=True)
class Figures:
    """The result of a run."""

    late: float
    executor_seconds: float
    p99_s: float


class World(Protocol):
    """Where runs take place; each leaves its journal behind."""

    def run(self, plan: FixedRun, journal: Path) -> Figures: ...


@dataclass(frozen=True, slots=True)
class SimTwinWorld:
    """A world whose costs the twin has to learn."""

    seed: int = 1

    def run(self, plan: FixedRun, journal: Path) -> Figures:
        application = SimApplication(
            APPLICATION,
            plan.played,
            overhead_s=0.45,
            operators=(
                SimOperator("look-up", 0.005, 8, task_overhead_s=0.01),
                SimOperator("count", 0.0004, 8, task_overhead_s=0.005),
            ),
            admission_rows=plan.executors * ROWS_PER_EXECUTOR,
        )
        cluster = SimCluster([application], plan.executors, 2, seed=self.seed + plan.executors)
        policy = Policy.model_validate({"mode": "off", "objective": {"latency_s": plan.objective_s}})
        book, until_s = SqliteJournal(journal), plan.warm_up_s + plan.end_s
        try:
            cluster.clock.until_s = until_s
            Runner(cluster, Controller(policy), cluster.clock, book, book).run(until_s)
        finally:
            book.close()
        cluster.advance_to(until_s)
        return _judged(cluster, plan)


def predict(journal: Path, plan: FixedRun, seeds: Sequence[int] = range(1, 10)) -> Figures:
    """Return the twin's prediction of another run: the mean over several noise samples."""
    scenario = calibrate(read_recording(journal))
    assert scenario.pool is not None
    (query,) = scenario.pool.applications
    query = query.model_copy(update={"load": plan.played, "admission_rows": plan.executors * ROWS_PER_EXECUTOR})
    pool = scenario.pool.model_copy(update={"executors": plan.executors, "applications": (query,)})
    found = []
    for seed in seeds:
        run = PoolRun(pool, seed)
        run.advance_to(plan.warm_up_s + plan.end_s)
        found.append(_judged(run.cluster, plan))
    return Figures(
        late=mean(one.late for one in found),
        executor_seconds=mean(one.executor_seconds for one in found),
        p99_s=mean(one.p99_s for one in found),
    )


def check(world: World, folder: Path, told: Told = lambda what, seconds: None) -> dict[str, dict[str, float]]:
    """`predicted` and `measured`, each with the share of rows over the objective, executor-seconds and p99."""
    folder.mkdir(parents=True, exist_ok=True)
    journal, another = folder / f"{KNOWN.name}.db", folder / f"{OTHER.name}.db"
    for leftover in (*folder.glob(f"{journal.name}*"), *folder.glob(f"{another.name}*")):
        leftover.unlink()
    told("the run to calibrate on", KNOWN.warm_up_s + KNOWN.end_s)
    world.run(KNOWN, journal)
    predicted = predict(journal, OTHER)
    told("the run that was predicted", OTHER.warm_up_s + OTHER.end_s)
    measured = world.run(OTHER, another)
    return {"predicted": asdict(predicted), "measured": asdict(measured)}


def _judged(cluster: SimCluster, plan: FixedRun) -> Figures:
    ledger, end_s = cluster.gates[0].ledger, plan.warm_up_s + plan.end_s
    seen = ledger.latencies_of(plan.warm_up_s, plan.warm_up_s + plan.lasts_s, end_s)
    return Figures(
        late=seen.late_share(plan.objective_s) or 0.0,
        executor_seconds=plan.executors * plan.end_s,
        p99_s=seen.quantile_s(0.99) or 0.0,
    )
