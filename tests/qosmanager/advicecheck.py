"""Checks advice in the simulator, which is independent of the model behind the advice.

The application runs, without a controller, with the advised pool, objective or load, and once more with slightly less.
Advice is sound if the first run holds the objective, and sharp if the second does not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median

from tidegate.adapters.sim.application import SimApplication, SimOperator
from tidegate.adapters.sim.cluster import SimCluster
from tidegate.domain import Advice, BatchSample, InvalidInput, Objective
from tidegate.load import Constant

_SETTLE_S = 60.0
_LESS = 0.75
"""In the counter-check the objective is tighter or the load larger by this factor, or there is one executor fewer."""


@dataclass(frozen=True, slots=True)
class Trial:
    """One run of the application: its configuration, and the share of rows over the objective."""

    executors: int
    latency_s: float
    rows_per_s: float | None
    late: float
    held: bool


@dataclass(frozen=True, slots=True)
class AdviceCheck:
    """The run with the advice, and the run with slightly less; None if there is no less."""

    advice: Advice
    tried: Trial
    less: Trial | None

    @property
    def sound(self) -> bool:
        return self.tried.held

    @property
    def sharp(self) -> bool:
        return self.less is None or not self.less.held


def check_advice(
    advice: Advice,
    application: SimApplication,
    objective: Objective,
    executors: int,
    world: TrialWorld,
) -> AdviceCheck:
    """Try the advice for `application`, which currently has `executors` to itself."""
    if advice.executors is not None:
        wide = _widened(application, advice.parallelism)
        fewer = advice.executors - 1
        less = world.trial(wide, fewer, objective) if fewer else None
        return AdviceCheck(advice, world.trial(wide, advice.executors, objective), less)
    if advice.latency_s is not None:
        relaxed = replace(objective, latency_s=advice.latency_s)
        tighter = replace(objective, latency_s=_LESS * advice.latency_s)
        return AdviceCheck(
            advice, world.trial(application, executors, relaxed), world.trial(application, executors, tighter)
        )
    if advice.rows_per_s is not None:
        light = replace(application, load=Constant(rate=advice.rows_per_s))
        heavy = replace(application, load=Constant(rate=advice.rows_per_s / _LESS))
        return AdviceCheck(advice, world.trial(light, executors, objective), world.trial(heavy, executors, objective))
    raise InvalidInput(f"advice {advice.reason.code!r} has no number to try")


@dataclass(frozen=True, slots=True)
class TrialWorld:
    """Where advice is tried, and for how long."""

    slots_per_executor: int
    duration_s: float = 300.0
    seed: int = 0

    def trial(self, application: SimApplication, executors: int, objective: Objective) -> Trial:
        """Counts the rows that arrive after the start has settled, and those over the objective."""
        cluster = SimCluster([application], executors, self.slots_per_executor, seed=self.seed)
        cluster.advance_to(_SETTLE_S)
        (gate,) = cluster.gates
        rows, late = gate.rows_arrived(_SETTLE_S), gate.ledger.late_rows(objective.latency_s, _SETTLE_S)
        cluster.advance_to(_SETTLE_S + self.duration_s)
        now_s = cluster.now_s
        came = gate.rows_arrived(now_s) - rows
        share = max(0.0, (gate.ledger.late_rows(objective.latency_s, now_s) - late) / came) if came else 0.0
        load = application.profile
        rate = load.rate if isinstance(load, Constant) else None
        return Trial(executors, objective.latency_s, rate, share, share <= objective.violation_bound)


def _widened(application: SimApplication, parallelism: int | None) -> SimApplication:
    """The application with at least this many tasks per operator."""
    if parallelism is None:
        return application
    return replace(
        application,
        operators=tuple(
            replace(operator, parallelism=max(parallelism, operator.parallelism)) for operator in application.operators
        ),
    )


def replica(name: str, batches: Sequence[BatchSample], interval_s: float, rows_per_s: float) -> SimApplication:
    """A simulated twin of an application, built from its observed warm batches with rows."""
    warm = [batch for batch in batches if batch.rows and not batch.warming and batch.busy_s is not None]
    shapes = [tuple(operator.name for operator in batch.operators) for batch in warm if batch.operators]
    if not shapes:
        raise InvalidInput(f"{name}: no batch with task times was observed, so no twin can be built")
    alike = [batch for batch in warm if tuple(operator.name for operator in batch.operators) == shapes[-1]]
    operators = []
    for index, operator in enumerate(alike[-1].operators):
        seen = [batch.operators[index] for batch in alike]
        # Operators count rows in different ways, and some not at all, so costs are per source row of the query.
        cost_s = median(one.busy_s / batch.rows for one, batch in zip(seen, alike, strict=True))
        operators.append(SimOperator(operator.name, cost_s, parallelism=operator.parallelism))
    return SimApplication(
        name,
        Constant(rate=rows_per_s),
        interval_s=interval_s,
        overhead_s=median(batch.overhead_s or 0.0 for batch in alike),
        operators=tuple(operators),
        gated=False,
    )
