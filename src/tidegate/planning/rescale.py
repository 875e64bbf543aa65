"""From findings to changes: which application may grow how far, what that gains, and whether it is worth a restart."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.analysis.bottleneck import (
    ApplicationMetrics,
    BottleneckTime,
    Rescaling,
    best_rescaling,
    bottleneck_levels,
    diagnose,
    row_gain_s,
)
from tidegate.domain import Reason
from tidegate.planning.elasticmemory import ApplicationMemory, MeStreamMemory
from tidegate.planning.parameterplan import Demand, choose_rule, plan_parameters
from tidegate.planning.payback import latency_after_s, payback_s, utilisation_after
from tidegate.planning.planner import Situation


@dataclass(frozen=True, slots=True)
class Finding:
    """An application that passed the bottleneck test."""

    memory: ApplicationMemory
    metrics: ApplicationMetrics
    worst: BottleneckTime
    why: Reason
    useless: dict[str, str]


@dataclass(frozen=True, slots=True)
class Change:
    """Another parallelism for operators of one application: one restart."""

    metrics: ApplicationMetrics
    rescaling: Rescaling
    pause_s: float
    reversal: bool = False


def allot(findings: list[Finding], held: dict[str, float], situation: Situation) -> list[tuple[Finding, int, str]]:
    """Levels, then free slots by either rule: the tasks that each application may have, and how that came about."""
    if not findings:
        return []
    slots, rule = situation.pool.slots, situation.policy.operators
    levels = bottleneck_levels({finding.metrics.name: finding.worst.time_s for finding in findings})
    demands = [_demand(finding, levels[finding.metrics.name], slots, rule.task_overhead_s) for finding in findings]
    others = sum(int(slots_held + 0.5) for name, slots_held in held.items() if name not in levels)
    free = slots - others - sum(demand.executors for demand in demands)
    chosen = choose_rule(demands) if rule.rule == "auto" else rule.rule
    grants = plan_parameters(demands, free, chosen, rule.phi)
    order = sorted(zip(findings, grants, strict=True), key=lambda pair: -levels[pair[0].metrics.name])
    return [
        (
            finding,
            min(slots, grant.executors if chosen == "level" else grant.tasks),
            f"level {levels[finding.metrics.name]} of {len(findings)}, {chosen} priority",
        )
        for finding, grant in order
    ]


def serve(
    finding: Finding, most: int, level: str, situation: Situation, memory: MeStreamMemory
) -> tuple[Change | None, Reason]:
    """Rescale, or say why not."""
    metrics, policy = finding.metrics, situation.policy
    rule, objective = policy.operators, policy.objective_of(metrics.name)
    overloaded = finding.why.code == "overload"
    rescaling = best_rescaling(
        metrics,
        situation.pool.slots,
        most,
        rule.task_overhead_s,
        frozen=finding.useless,
        # serious overload: the source's parallelism rises too
        always=metrics.operators[0].name if overloaded else None,
    )
    suffices = latency_after_s(metrics, rescaling.gain_s) <= objective.latency_s
    found = diagnose(metrics, finding.worst, rescaling, situation.pool.slots, finding.useless, suffices)
    said = f"{metrics.name}: {finding.why.text}; {found.text}"
    if not found.rescale:
        return None, Reason(f"hold-{found.cause}", said)
    change = change_of(metrics, rescaling, memory)
    back_s = payback_s(
        change.pause_s, row_gain_s(metrics, rescaling.gain_s), utilisation_after(metrics, rescaling.gain_s)
    )
    promise = _promise(rescaling, metrics, change.pause_s)
    if back_s > rule.payback_s and not overloaded:
        text = f"{said}; {promise} would be paid back in {back_s:.0f} s, {rule.payback_s:.0f} s allowed"
        return None, Reason("hold-payback", text)
    paid = "which a growing backlog justifies" if overloaded else f"paid back in {back_s:.0f} s"
    return change, Reason(f"rescale-{found.cause}", f"{said} ({level}): {promise}, {paid}")


def change_of(
    metrics: ApplicationMetrics, rescaling: Rescaling, memory: MeStreamMemory, reversal: bool = False
) -> Change:
    """The rescaling as one restart, with the pause that it will take."""
    stateful = any(operator.stateful for operator in metrics.operators if operator.name in rescaling.after)
    return Change(metrics, rescaling, memory.pause_s(metrics.name, stateful, metrics.state_rows), reversal)


def _demand(finding: Finding, level: int, slots: int, task_overhead_s: float) -> Demand:
    tasks = next(known.parallelism for known in finding.metrics.operators if known.name == finding.worst.operator)
    best = best_rescaling(finding.metrics, slots, slots, task_overhead_s, frozen=finding.useless)
    useful = max([tasks, *best.after.values()])
    return Demand(finding.metrics.name, max(1, min(tasks, slots)), tasks, level, finding.worst.time_s, useful)


def _promise(rescaling: Rescaling, metrics: ApplicationMetrics, pause_s: float) -> str:
    steps = ", ".join(f"{name} {rescaling.before[name]} → {tasks}" for name, tasks in rescaling.after.items())
    after_s = metrics.batch_s - rescaling.gain_s
    return (
        f"{steps}; a batch should take {after_s:.2f} s instead of {metrics.batch_s:.2f} s; the pause of {pause_s:.1f} s"
    )
