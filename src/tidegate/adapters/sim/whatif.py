"""What if: checks an advice in the simulator, which knows nothing of the model that the advice comes from.

The application runs with the pool, the objective or the load that is advised, and once more with a little less than
that; nobody steers. Advice is sound where the first holds the objective, and sharp where the second does not.
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
"""In the counter-check the objective is this much tighter, or the load as much larger; of executors it is one fewer."""


@dataclass(frozen=True, slots=True)
class Trial:
    """One run of the application: what was tried, and the share of rows that came too late."""

    executors: int
    latency_s: float
    rows_per_s: float | None
    late: float
    held: bool


@dataclass(frozen=True, slots=True)
class AdviceCheck:
    """An advice as it was tried, and the run with a little less; None where there is no less."""

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
    *,
    executors: int,
    slots_per_executor: int,
    duration_s: float = 300.0,
    seed: int = 0,
) -> AdviceCheck:
    """Try what is advised for `application`, which has `executors` to itself today."""
    world = _World(slots_per_executor, duration_s, seed)
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
    raise InvalidInput(f"advice {advice.reason.code!r} has no number that could be tried")


@dataclass(frozen=True, slots=True)
class _World:
    slots_per_executor: int
    duration_s: float
    seed: int

    def trial(self, application: SimApplication, executors: int, objective: Objective) -> Trial:
        """Rows that arrive after the start has settled, and how many of them are late."""
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
    """Every operator with at least so many tasks."""
    if parallelism is None:
        return application
    return replace(
        application,
        operators=tuple(
            replace(operator, parallelism=max(parallelism, operator.parallelism)) for operator in application.operators
        ),
    )


def replica(name: str, batches: Sequence[BatchSample], interval_s: float, rows_per_s: float) -> SimApplication:
    """A simulated twin of an application, from batches that were observed of it; warm batches with rows count."""
    warm = [batch for batch in batches if batch.rows and not batch.warming and batch.busy_s is not None]
    shapes = [tuple(operator.name for operator in batch.operators) for batch in warm if batch.operators]
    if not shapes:
        raise InvalidInput(f"{name}: no batch with task times was observed; nothing can be built from that")
    alike = [batch for batch in warm if tuple(operator.name for operator in batch.operators) == shapes[-1]]
    operators = []
    for index, operator in enumerate(alike[-1].operators):
        seen = [batch.operators[index] for batch in alike]
        # Operators count rows each in its own way, and some not at all: costs are per row of the query's source.
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
