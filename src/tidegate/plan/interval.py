"""The batch interval: longer where the fixed cost of batches takes needed slots, shorter where latency counts.

Whatever its size, a batch costs `a` slot-seconds and `o` seconds of the driver. At an interval I, `a/I` slots and `o/I`
of the driver are spent on this fixed cost (`model/microbatch.py`). A longer interval saves some of it, but rows wait
longer for their batch. Half and twice the interval are rolled out along the forecast:

- twice is chosen if it saves half an executor or relieves a busy driver, and rows stay within half of their objective;
- half is chosen if the objective is in danger and batches would still fit, or if a QoS graph says it is worth it.

The bound of a row of a QoS table is treated like the objective, at the row's own share of the rows (`requirements`).
Nothing less justifies changing a trigger that the user chose. Through a gate the interval only grows: batches cannot
come more often than the query's own trigger.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import ceil

import numpy as np

from tidegate.domain import Decision, Outcome, Prediction, Proposal, Reason, Receipt, SetBatchInterval
from tidegate.domain.cost import BatchCost
from tidegate.evaluate.evaluation import ApplicationEvaluation, Evaluation
from tidegate.model.rollout import Candidate, rollout
from tidegate.plan.demand import path_of, query_of, room_for, without_backlog
from tidegate.plan.planner import NOTHING, Plan, Proposer
from tidegate.plan.requirements import CountedRow, all_requirements_of

_LOOK_EVERY_S = 30.0
_SETTLES_S = 120.0
"""Minimum time between two changes of an interval."""
_MOST_APPLICATIONS = 64
"""With more applications, no single trigger affects the size of the pool."""
_STEP_S, _HORIZON_S = 2.0, 60.0
_MEAN, _UPPER = 1, 2
"""Paths of the forecast. An interval must suit the upper edge; what to expect of it is predicted along the mean."""
_LEAST_S = 0.5
_SLACK = 0.5
"""Share of the objective that the slowest rows may take with a longer interval."""
_DANGER = 0.8
"""Share of the objective from which the slowest rows put it in danger."""
_HELPS = 0.85
"""A shorter interval must reduce the latency to at most this share."""
_DRIVER_BUSY = 0.8
_EXECUTOR = 0.5
"""Share of an executor's slots that a longer interval must save."""
_WORTH = 0.05
"""Utility that a shorter interval must add."""


@dataclass(slots=True)
class IntervalMemory:
    """Requested intervals with their times, and the triggers as first seen."""

    asked: dict[str, tuple[float, float]] = field(default_factory=dict)
    """`(time_s, interval_s)` by application."""
    triggers_s: dict[str, float] = field(default_factory=dict)
    looked_s: float = -1e9


@dataclass(frozen=True, slots=True)
class Option:
    """An interval and its predicted outcome."""

    interval_s: float
    p99_s: float
    late_share: float
    batch_slots: float
    """Slots that the fixed cost of batches keeps busy."""
    driver_busy: float
    utility: float | None
    """Mean utility of the QoS graphs; None without any that count."""
    rows: tuple[tuple[CountedRow, float], ...] = ()
    """Each row of the QoS table that counts, with the latency at its share of the rows."""

    @property
    def strain(self) -> float:
        """The largest latency of a row of the QoS table, as a share of its bound."""
        return max([row.strain(latency_s) for row, latency_s in self.rows], default=0.0)


class BatchInterval(Proposer):
    """Doubles or halves the interval of one application at a time, if that is worth a change."""

    name = "interval"

    def __init__(self, memory: IntervalMemory | None = None) -> None:
        self.memory: IntervalMemory = memory or IntervalMemory()
        self._found: tuple[Proposal, Prediction] | None = None

    def watch(self, evaluation: Evaluation) -> None:
        """Examine the intervals from time to time. The result depends only on observations."""
        memory, now_s = self.memory, evaluation.time_s
        self._found = None
        if now_s - memory.looked_s < _LOOK_EVERY_S or len(evaluation.samples) > _MOST_APPLICATIONS:
            return
        if not evaluation.pool.slots or evaluation.pool.registered < evaluation.pool.requested:
            return
        memory.looked_s = now_s
        memory.asked = {name: known for name, known in memory.asked.items() if name in evaluation.places}
        for seen in evaluation.applications:
            trigger_s = memory.triggers_s.setdefault(seen.name, seen.sample.interval_s)
            changed_s = memory.asked.get(seen.name, (-1e9, 0.0))[0]
            steerable = seen.sample.gated or seen.sample.restartable
            if self._found or not seen.usable or not steerable or seen.sample.rebalancing or trigger_s <= 0:
                continue
            if now_s - changed_s >= _SETTLES_S:
                self._found = self._look(seen, evaluation, trigger_s)

    def propose(self, evaluation: Evaluation) -> Plan:
        if self._found is None:
            return NOTHING
        proposal, prediction = self._found
        return Plan((proposal,), predictions=(prediction,))

    def learn(self, decision: Decision, receipt: Receipt) -> None:
        """A refused request counts as tried and is not repeated at once."""
        outcomes = {answer.action: answer.outcome for answer in receipt.actions}
        for action in decision.actions:
            if isinstance(action, SetBatchInterval):
                refused = outcomes.get(action) in {Outcome.REFUSED, Outcome.FAILED}
                before_s = self.memory.asked.get(action.application, (0.0, 0.0))[1]
                self.memory.asked[action.application] = decision.time_s, before_s if refused else action.interval_s

    def _look(
        self, seen: ApplicationEvaluation, evaluation: Evaluation, trigger_s: float
    ) -> tuple[Proposal, Prediction] | None:
        now_s = max(seen.sample.interval_s, self.memory.asked.get(seen.name, (0.0, 0.0))[1])
        least_s = trigger_s if seen.sample.gated else min(_LEAST_S, trigger_s)
        intervals = [now_s, 2 * now_s, *([now_s / 2] if now_s / 2 >= least_s else [])]
        seen.expected.path(seen.place)  # the journal shows the forecast of every look
        if len(intervals) == 2 and not _may_save(seen, evaluation, now_s):
            return None
        now, longer, *shorter = _options(seen, evaluation, intervals)
        chosen = _saves(seen, evaluation, now, longer) or next(
            (found for option in shorter if (found := _speeds_up(seen, now, option)) is not None), None
        )
        if chosen is None:
            return None
        option, reason = chosen
        (likely,) = _options(seen, evaluation, [option.interval_s], path=_MEAN)
        prediction = Prediction(
            application=seen.name,
            due_s=evaluation.time_s + _HORIZON_S,
            p99_s=round(likely.p99_s, 3),
            late_share=round(likely.late_share, 5),
            executors=evaluation.pool.requested,
            interval_s=option.interval_s,
        )
        return Proposal(SetBatchInterval(seen.name, option.interval_s), reason), prediction


def _may_save(seen: ApplicationEvaluation, evaluation: Evaluation, now_s: float) -> bool:
    """Could twice the interval be worth it? The costs alone usually rule it out, and then no rollout is needed.

    A rollout starts at most one batch per interval. Halving the driver's threshold allows for the error of a jump
    (`model/batchwalk.py`).
    """
    assert seen.workload is not None
    cost = seen.workload.cost
    saved = _batch_slots(cost, now_s) - _batch_slots(cost, 2 * now_s)
    return saved >= _EXECUTOR * evaluation.pool.slots_per_executor or cost.overhead_s > _DRIVER_BUSY / 2 * now_s


def _batch_slots(cost: BatchCost, interval_s: float) -> float:
    return cost.batch_s / max(interval_s, cost.overhead_s)


def _options(
    seen: ApplicationEvaluation, evaluation: Evaluation, intervals: list[float], path: int = _UPPER
) -> list[Option]:
    """The long-run outcome of every interval: no backlog, and arrivals along one path of the forecast."""
    assert seen.workload is not None
    steps, slots = ceil(_HORIZON_S / _STEP_S), float(evaluation.pool.slots)
    needs = all_requirements_of(seen, evaluation)
    query = needs.asked_of(without_backlog(query_of(seen, evaluation.time_s)))
    share = room_for(seen.place, evaluation, slots)
    candidates = [Candidate(np.full(steps, slots), interval_s=interval_s, share=share) for interval_s in intervals]
    found = rollout(query, path_of(seen, steps, _STEP_S, _HORIZON_S)[path], candidates, _HORIZON_S, _STEP_S)
    cost = seen.workload.cost
    utility = needs.utility(found)[:, 0].tolist() if needs.graphs else [None] * len(intervals)
    return [
        Option(
            interval_s=interval_s,
            p99_s=float(found.p99_s[at, 0]),
            late_share=float(found.late_share[at, 0]),
            batch_slots=_batch_slots(cost, interval_s),
            driver_busy=float(found.driver_busy[at, 0]),
            utility=utility[at],
            rows=tuple([(row, float(found.at_share_s[number][at, 0])) for number, row in enumerate(needs.rows)]),
        )
        for at, interval_s in enumerate(intervals)
    ]


def _saves(
    seen: ApplicationEvaluation, evaluation: Evaluation, now: Option, longer: Option
) -> tuple[Option, Reason] | None:
    """The longer interval, if the objective has room for it and it saves enough."""
    saved = now.batch_slots - longer.batch_slots
    enough = saved >= _EXECUTOR * evaluation.pool.slots_per_executor
    eases = now.driver_busy > _DRIVER_BUSY and longer.driver_busy < now.driver_busy
    worse = now.utility is not None and longer.utility is not None and longer.utility < now.utility - _WORTH
    tight = longer.p99_s > _SLACK * seen.objective.latency_s or longer.strain > _SLACK
    if worse or not (enough or eases) or tight:
        return None
    what = f"{saved:.1f} slots" if enough else f"{now.driver_busy - longer.driver_busy:.0%} of the driver"
    text = (
        f"{seen.name}: batches every {longer.interval_s:g} s instead of {now.interval_s:g} s save {what}; "
        f"99 % of the rows would take up to {longer.p99_s:.1f} s, {seen.objective.latency_s:g} s are allowed"
    )
    return longer, Reason("longer-interval", text)


def _speeds_up(seen: ApplicationEvaluation, now: Option, shorter: Option) -> tuple[Option, Reason] | None:
    """The shorter interval, if the objective is in danger or lower latency has a value."""
    in_danger = now.p99_s > _DANGER * seen.objective.latency_s and shorter.p99_s < _HELPS * now.p99_s
    strained = now.strain > _DANGER and shorter.strain < _HELPS * now.strain
    gained = (shorter.utility or 0.0) - (now.utility or 0.0)
    if not (in_danger or strained or gained >= _WORTH) or shorter.late_share > now.late_share:
        return None
    why = f"worth {gained:.2f} more by its QoS graphs"
    if in_danger:
        why = f"{seen.objective.latency_s:g} s are allowed"
    elif strained:
        why = f"its QoS table has {max(now.rows, key=lambda one: one[0].strain(one[1]))[0].row}"
    text = (
        f"{seen.name}: batches every {shorter.interval_s:g} s instead of {now.interval_s:g} s; 99 % of the rows would "
        f"take up to {shorter.p99_s:.1f} s instead of {now.p99_s:.1f} s, {why}"
    )
    return shorter, Reason("shorter-interval", text)
