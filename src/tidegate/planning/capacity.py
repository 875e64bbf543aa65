"""The capacity planner: enough slots for the load that is coming and the backlog that is there, and no more.

Target rate = expected arrival + backlog ÷ catch-up time; slots = target rate × cost of a row ÷ utilisation target,
and no fewer than the latency objective asks. It grows at once and shrinks to the largest size wanted over a while,
as the Flink autoscaler and Kubernetes' HPA do, because growing late costs the objective and shrinking late only money.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import ceil, inf, isfinite

from tidegate.domain import Objective, Proposal, Reason, ScaleExecutors, SetAdmission
from tidegate.domain.policy import CapacityRule
from tidegate.model.microbatch import rows_in, slots_for_latency, slots_for_rate, slots_in_waves
from tidegate.monitor.workload import Workload
from tidegate.planning.planner import Known, Plan, Situation

_ADMISSION_BAND = 0.2  # a limit is moved only when it is off by more than this
_CEIL_SLACK = 1e-6
_MOST_OVERHEAD = 0.9
_REPORT_LAG_S = 2.0


@dataclass(slots=True)
class PlannerMemory:
    """Sizes wanted lately, `(time_s, executors)`: the pool shrinks to the largest of them."""

    wanted: list[tuple[float, int]] = field(default_factory=list)


class CapacityPlanner:
    """Sizes the executor pool, and bounds the batches of sources that have a gate."""

    def __init__(self, memory: PlannerMemory) -> None:
        self._memory = memory

    def plan(self, situation: Situation) -> Plan:
        planned = [known for known in situation.applications if known.distrust is None and known.workload is not None]
        blind = [known for known in situation.applications if known.distrust is not None]
        if not planned:
            return Plan((), (_nothing_to_plan(situation),), {})
        rule = situation.policy.capacity
        needs = {known.sample.name: self._slots(known, situation, rule.utilisation) for known in planned}
        pool_proposals, reasons = self._size(situation, planned, needs, blind=bool(blind))
        proposals = pool_proposals + tuple(
            proposal for known in planned if (proposal := _admission(known, situation, needs)) is not None
        )
        return Plan(proposals, reasons + tuple(known.distrust for known in blind if known.distrust), needs)

    def _slots(self, known: Known, situation: Situation, utilisation: float) -> float:
        assert known.workload is not None
        return slots_needed(
            known.workload,
            known.sample.interval_s,
            situation.policy.objective_of(known.sample.name),
            situation.policy.capacity,
            utilisation,
        )

    def _size(
        self, situation: Situation, planned: list[Known], needs: dict[str, float], blind: bool
    ) -> tuple[tuple[Proposal, ...], tuple[Reason, ...]]:
        pool, policy = situation.pool, situation.policy
        rule, bounds = policy.capacity, policy.executors
        wanted = max(bounds.min, _executors(sum(needs.values()), pool.slots_per_executor, bounds.max))
        # Shrinking has to clear a margin, so that a load at the edge of a size does not swing between two.
        easy = _executors(
            sum(self._slots(known, situation, rule.utilisation * (1 - rule.shrink_margin)) for known in planned),
            pool.slots_per_executor,
            bounds.max,
        )
        shrink_to = self._largest_lately(situation.time_s, max(wanted, easy), rule.shrink_after_s)
        why = _account(planned, needs, pool.slots_per_executor)
        if wanted > pool.requested:
            reason = Reason("grow", f"{why}: {wanted} executors wanted, {pool.requested} there")
            return (Proposal(ScaleExecutors(wanted), reason),), (reason,)
        if blind:
            return (), (Reason("hold-blind", "some applications cannot be seen: the pool is not shrunk"),)
        if shrink_to is None:
            return (), (Reason("hold-watching", f"{why}: watched for less than {rule.shrink_after_s:.0f} s"),)
        smaller = max(shrink_to, bounds.min)
        if smaller < pool.requested:
            reason = Reason("shrink", f"{why}: {shrink_to} executors were enough for {rule.shrink_after_s:.0f} s")
            return (Proposal(ScaleExecutors(smaller), reason),), (reason,)
        return (), (Reason("hold-fits", f"{why}: {pool.requested} executors fit"),)

    def _largest_lately(self, now_s: float, wanted: int, span_s: float) -> int | None:
        """The largest size wanted in the last `span_s`, or None while that long has not been watched."""
        history = self._memory.wanted
        if history and now_s - history[-1][0] > max(span_s, 1.0):
            history.clear()  # a gap in the watch (a restart, a long silence) is not evidence of little load
        history.append((now_s, wanted))
        watched = now_s - history[0][0] >= span_s
        # One entry older than the span stays, as the proof that the span was watched.
        while len(history) > 1 and history[1][0] <= now_s - span_s:
            history.pop(0)
        return max(size for _, size in history) if watched else None


def slots_needed(
    workload: Workload, interval_s: float, objective: Objective, rule: CapacityRule, utilisation: float
) -> float:
    """Slots for the expected rate, the backlog within the catch-up time, and the objective; monotone in the load."""
    batch_s = max(interval_s, rule.batch_share * objective.latency_s)
    # Rows wait for their batch, then in it, then for its report: only what is beyond that is a backlog.
    usual_s = max(interval_s, min(workload.batch_s, batch_s)) + min(workload.batch_s, batch_s) + _REPORT_LAG_S
    excess_rows = max(0.0, workload.pending_rows - workload.expected_rows_per_s * usual_s)
    target = workload.expected_rows_per_s + excess_rows / rule.catch_up_s
    # Batches that are nothing but overhead ask for more time, not for more slots.
    cost = replace(workload.cost, overhead_s=min(workload.cost.overhead_s, _MOST_OVERHEAD * batch_s))
    latency_floor = slots_for_latency(workload.expected_rows_per_s, cost, interval_s, objective.latency_s)
    by_rate = slots_for_rate(target, cost, batch_s, utilisation)
    # An objective that no size can hold (the fixed cost of a batch eats it) must not buy the largest pool.
    needed = max(by_rate, latency_floor if isfinite(latency_floor) else 0.0)
    return needed if workload.parallelism is None else float(slots_in_waves(needed, workload.parallelism))


def _executors(slots: float, slots_per_executor: int, most: int) -> int:
    if slots == inf:
        return most
    return max(1, ceil(slots / slots_per_executor - _CEIL_SLACK))


def _account(planned: list[Known], needs: dict[str, float], slots_per_executor: int) -> str:
    parts = []
    for known in planned:
        workload = known.workload
        assert workload is not None
        parts.append(
            f"{known.sample.name}: {workload.expected_rows_per_s:.0f} rows/s × {workload.cost.row_s * 1e3:.2f} ms"
            f", {workload.pending_rows:.0f} pending → {needs[known.sample.name]:.1f} slots"
        )
    return "; ".join(parts) + f" of {slots_per_executor} per executor"


def _admission(known: Known, situation: Situation, needs: dict[str, float]) -> Proposal | None:
    """Bound the batches of a gated source, so that one long batch does not hide a growing backlog."""
    workload, sample = known.workload, known.sample
    if not sample.gated or workload is None or not situation.pool.slots:
        return None
    objective, rule = situation.policy.objective_of(sample.name), situation.policy.capacity
    batch_s = max(sample.interval_s, rule.batch_share * objective.latency_s)
    slots = _warm_slots(situation)
    slots = min(slots, workload.parallelism or slots)
    share = needs[sample.name] / max(sum(needs.values()), needs[sample.name], 1e-9)
    limit = rows_in(batch_s, max(1, round(slots * share)), workload.cost)
    if limit is None:
        return None
    # The bound is there to keep batches short, never to turn rows away that the pool could take.
    limit = max(limit, ceil(workload.expected_rows_per_s * max(sample.interval_s, workload.cost.overhead_s)), 1)
    now = sample.admission_rows
    if now is not None and abs(limit - now) <= _ADMISSION_BAND * now:
        return None
    text = f"{sample.name}: {slots} slots finish {limit} rows in {batch_s:.1f} s"
    return Proposal(SetAdmission(sample.name, limit), Reason("bound-batch", text))


def _warm_slots(situation: Situation) -> int:
    """Slots of executors that have been there for a while: a cold one would sit on its share of a batch."""
    pool, since_s = situation.pool, situation.time_s - situation.policy.capacity.lead_s
    return sum(executor.slots for executor in pool.executors if executor.since_s <= since_s) or pool.slots_per_executor


def _nothing_to_plan(situation: Situation) -> Reason:
    for known in situation.applications:
        if known.distrust is not None:
            return known.distrust
    if situation.applications:
        return Reason("hold-learning", "too few batches seen yet")
    return Reason("hold-no-application", "no streaming query is running")
