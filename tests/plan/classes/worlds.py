"""Applications after a minute of steady load, as the evaluator knows them, and what the proposer makes of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.core.worlds import application, batch, pool
from tidegate.domain import (
    ApplicationSample,
    ArrivalSample,
    BatchSample,
    HostSample,
    HostSignal,
    Observation,
    OperatorSample,
    SetAdmission,
    SetShare,
)
from tidegate.domain.policy import Policy
from tidegate.evaluate.evaluation import Evaluation
from tidegate.evaluate.evaluator import EvaluationMemory, Evaluator
from tidegate.plan.classes import Classes
from tidegate.plan.planner import Plan

POLICY = Policy.model_validate(
    {
        "executors": {"min": 1, "max": 1},
        "classes": {
            "q1": {"latency_s": 12, "weight": 6},
            "q2": {"latency_s": 15, "weight": 3},
            "q3": {"latency_s": 20, "weight": 1, "floor": 0.2},
        },
        "applications": {f"q{c}-{i}": {"class": f"q{c}"} for c in (1, 2, 3) for i in range(3)},
    }
)
INTERVAL_S, BATCHES, NOW_S = 5.0, 12, 1000.0


@dataclass(frozen=True)
class Job:
    """A query with triggers of 5 s and batches of 2 s; `rate` rows/s for a minute, and `pending` rows now."""

    name: str
    rate: int
    pending: int | None = None
    row_s: float = 0.01
    busy_s: float | None = None
    """Of its last batch, where it took more than its rows cost."""
    batches: int = BATCHES
    tasks: int | None = None
    """Of its one operator; left out: not known."""
    changes: tuple[tuple[str, Any], ...] = ()

    def samples(self, now_s: float) -> tuple[ApplicationSample, ApplicationSample]:
        """The minute before, and the last batch."""
        rows = int(self.rate * INTERVAL_S)
        starts = [now_s - INTERVAL_S * (self.batches - k) for k in range(self.batches)]
        done = [self._batch(k, at_s, rows) for k, at_s in enumerate(starts)]
        first_s = now_s - INTERVAL_S * (BATCHES + 1)
        early = ArrivalSample(now_s - INTERVAL_S, int(self.rate * (now_s - INTERVAL_S - first_s)))
        late = ArrivalSample(now_s, int(self.rate * (now_s - first_s)))
        shape: dict[str, Any] = {"name": self.name, "interval_s": INTERVAL_S, "gated": True, **dict(self.changes)}
        began = ArrivalSample(first_s, 0)
        before = application(tuple(done[:-1]), arrival=began if self.batches == 1 else early, **shape)
        return before, application(tuple(done[-1:]), arrival=late, **shape)

    def _batch(self, number: int, started_s: float, rows: int) -> BatchSample:
        last = number == self.batches - 1
        busy_s = self.busy_s if last and self.busy_s is not None else rows * self.row_s
        waiting = max(0, (self.pending or 0) - rows) if last else 0
        operators = (OperatorSample("work", self.tasks, rows, busy_s, busy_s, 0.0, 1.0, rows),) if self.tasks else ()
        return batch(
            number, started_s, rows, duration_s=2.0, busy_s=busy_s, overhead_s=0.3, backlog_rows=waiting,
            operators=operators,
        )  # fmt: skip


def job(name: str, rate: int, pending: int | None = None, row_s: float = 0.01, **changes: Any) -> Job:
    own = {key: changes.pop(key) for key in ("busy_s", "batches", "tasks") if key in changes}
    return Job(name, rate, pending, row_s, changes=tuple(changes.items()), **own)


def evaluated(
    *jobs: Job,
    time_s: float = NOW_S,
    signal: HostSignal | None = None,
    memory: EvaluationMemory | None = None,
    policy: Policy = POLICY,
) -> Evaluation:
    """What the evaluator says at `time_s`, after it has seen the minute before."""
    evaluator = Evaluator(policy, memory or EvaluationMemory())
    before, now = zip(*(one.samples(time_s) for one in jobs), strict=True)
    first = [ApplicationSample(one.name, (), None, INTERVAL_S, arrival=ArrivalSample(time_s - 65.0, 0)) for one in jobs]
    hosts = (HostSample("here", 2, None, signal=signal),)
    evaluator.evaluate(Observation(time_s - 65.0, tuple(first), pool(1, slots=2), hosts))
    evaluator.evaluate(Observation(time_s - INTERVAL_S, before, pool(1, slots=2), hosts))
    return evaluator.evaluate(Observation(time_s, now, pool(1, slots=2), hosts))


def plan(*jobs: Job, proposer: Classes | None = None, **changes: Any) -> Plan:
    evaluation, proposer = evaluated(*jobs, **changes), proposer or Classes()
    proposer.watch(evaluation)
    return proposer.propose(evaluation)


def limits(decided: Plan) -> dict[str, int | None]:
    actions = [proposal.action for proposal in decided.proposals]
    return {action.application: action.rows_per_trigger for action in actions if isinstance(action, SetAdmission)}


def shares(decided: Plan) -> dict[str, float]:
    actions = [proposal.action for proposal in decided.proposals]
    return {action.group: action.share for action in actions if isinstance(action, SetShare)}
