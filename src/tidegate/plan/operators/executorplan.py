"""Executors of a parameter plan (Me-Stream, section 3.2): the slots for `N_executor + φ·level`.

An executor of the paper is a slot here, so the plan's executors are added up over the applications and divided by the
slots per executor. If the free slots are enough, the pool stays as it is. The arbiter weighs the size against other
proposals.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

from tidegate.domain import Proposal, Reason, ScaleExecutors
from tidegate.evaluate.evaluation import Evaluation
from tidegate.plan.operators.parameterplan import plan_parameters
from tidegate.plan.operators.rescale import Allotment, Finding, demand_of
from tidegate.plan.proposersettings import OperatorSettings


def wanted_executors(
    allotment: Allotment, served: Sequence[Finding], evaluation: Evaluation, rule: OperatorSettings
) -> Proposal | None:
    """A larger pool, if the parameter plan of applications that benefit from more tasks does not fit into this one."""
    policy, pool = evaluation.policy, evaluation.pool
    if not served or not policy.knobs.executors or not pool.scalable:
        return None
    if allotment.rule != "parameter":
        return _one_more([finding for finding in served if _hemmed_in(finding, pool.slots)], evaluation)
    reach = max(pool.slots, policy.executors.max * pool.slots_per_executor)
    demands = [
        demand_of(finding, allotment.demands[finding.metrics.name].level, reach, rule.task_overhead_s)
        for finding in served
    ]
    names = {demand.application for demand in demands}
    held = allotment.others + sum(one.executors for name, one in allotment.demands.items() if name not in names)
    free = reach - held - sum(demand.executors for demand in demands)
    grants = plan_parameters(demands, free, "parameter", rule.phi)
    slots = held + sum(grant.executors for grant in grants)
    target = min(ceil(slots / pool.slots_per_executor), policy.executors.max)
    if target <= pool.requested:
        return None
    parts = ", ".join(
        f"{grant.application} {demand.executors} → {grant.executors}"
        for grant, demand in zip(grants, demands, strict=True)
    )
    text = (
        f"parameter plan: {parts} slots, plus {held} of other applications, make {slots}: "
        f"growing from {pool.requested} to {target} executors of {pool.slots_per_executor} slots"
    )
    return Proposal(ScaleExecutors(target), Reason("grow-parameter-plan", text))


def _hemmed_in(finding: Finding, slots: int) -> bool:
    """Does its worst operator have fewer tasks than slots, with no slot free for more? If not, the pool decides."""
    tasks = next(known.parallelism for known in finding.metrics.operators if known.name == finding.worst.operator)
    return finding.memory.stuck is not None and tasks < slots


def _one_more(hemmed_in: Sequence[Finding], evaluation: Evaluation) -> Proposal | None:
    """One more executor, for applications that would benefit from more tasks if slots were free for them."""
    target = evaluation.pool.requested + 1
    if not hemmed_in or target > evaluation.executor_bounds[1]:
        return None
    stuck = hemmed_in[0].memory.stuck
    assert stuck is not None
    return Proposal(ScaleExecutors(target), Reason("grow-for-tasks", f"{stuck.text}: growing to {target} executors"))
