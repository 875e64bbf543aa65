"""From findings to changes: how far each application may grow, what that gains, and whether it is worth a restart."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from tidegate.domain import Reason
from tidegate.evaluate.bottleneck import (
    LEAST_GAIN,
    ApplicationMetrics,
    BottleneckTime,
    Cause,
    Diagnosis,
    Rescaling,
    TaskLimits,
    best_rescaling,
    bottleneck_levels,
    diagnose,
    row_gain_s,
    stage_scaling,
)
from tidegate.evaluate.evaluation import Evaluation
from tidegate.plan.operators.memory import ApplicationMemory, OperatorsMemory
from tidegate.plan.operators.parameterplan import Demand, Rule, choose_rule, plan_parameters
from tidegate.plan.operators.payback import latency_after_s, payback_s, utilisation_after
from tidegate.plan.proposersettings import OperatorSettings

_SERIOUS = frozenset({"overload", "failures"})
_MOST_OF_IT = 0.5
_ROOM = 0.1  # share of the time between two batches that tasks for a larger pool may cost in the current one
_MORE_SOURCE_TASKS = 2  # factor when tasks fail: halved partitions need half of what failed


@dataclass(frozen=True, slots=True)
class Finding:
    """An application that passed the bottleneck test."""

    memory: ApplicationMemory
    metrics: ApplicationMetrics
    worst: BottleneckTime
    why: Reason
    useless: dict[str, str]
    rising: bool = False
    """Whether arrivals are expected to rise."""

    @property
    def serious(self) -> bool:
        """Rows pile up or tasks fail: the source's parallelism rises too, and the restart need not pay for itself."""
        return self.why.code in _SERIOUS

    @property
    def pressing(self) -> bool:
        """Without more tasks rows pile up without end, so the pause is justified whatever it costs."""
        return self.serious or self.why.code == "outlook"


@dataclass(frozen=True, slots=True)
class Change:
    """New parallelisms for operators of one application: one restart."""

    metrics: ApplicationMetrics
    rescaling: Rescaling
    pause_s: float
    failed_tasks: float = 0.0
    """Above zero if failures are the reason for the change."""
    reversal: bool = False


@dataclass(frozen=True, slots=True)
class Allotment:
    """The tasks that each application may have, highest level first, and the rule behind it."""

    rule: Rule
    others: int
    """Slots held by the other applications."""
    demands: dict[str, Demand]
    shares: tuple[tuple[Finding, int, str], ...]


def allot(
    findings: list[Finding], held: dict[str, float], evaluation: Evaluation, rule: OperatorSettings
) -> Allotment | None:
    """Assign levels, then free slots by one of the rules. None if there are no findings."""
    if not findings:
        return None
    slots = evaluation.pool.slots
    levels = bottleneck_levels({finding.metrics.name: finding.worst.time_s for finding in findings})
    demands = [demand_of(finding, levels[finding.metrics.name], slots, rule.task_overhead_s) for finding in findings]
    others = sum(int(slots_held + 0.5) for name, slots_held in in_the_way(held, levels, evaluation).items())
    free = slots - others - sum(demand.executors for demand in demands)
    chosen = choose_rule(demands) if rule.rule == "auto" else rule.rule
    grants = plan_parameters(demands, free, chosen, rule.phi)
    order = sorted(zip(findings, grants, strict=True), key=lambda pair: -levels[pair[0].metrics.name])
    shares = tuple(
        (
            finding,
            min(slots, grant.executors if chosen == "level" else grant.tasks),
            f"level {levels[finding.metrics.name]} of {len(findings)}, {chosen} priority",
        )
        for finding, grant in order
    )
    return Allotment(chosen, others, {demand.application: demand for demand in demands}, shares)


def in_the_way(held: Mapping[str, float], names: Collection[str], evaluation: Evaluation) -> dict[str, float]:
    """Slots held by other applications with at least the smallest weight of these. Lighter classes yield."""
    weight, places = evaluation.promises.weight, evaluation.places
    least = min(float(weight[places[name]]) for name in names)
    return {name: slots for name, slots in held.items() if name not in names and weight[places[name]] >= least}


def serve(
    finding: Finding, most: int, level: str, evaluation: Evaluation, memory: OperatorsMemory, rule: OperatorSettings
) -> tuple[Change | None, Reason]:
    """Rescale, or say why not."""
    metrics, objective = finding.metrics, evaluation.policy.objective_of(finding.metrics.name)
    slots, source = evaluation.pool.slots, finding.metrics.operators[0]
    failures = finding.why.code == "failures"
    limits = TaskLimits(
        most,
        finding.useless,
        reach_of(evaluation),
        always=source.name if finding.serious else None,
        least=min(slots, _MORE_SOURCE_TASKS * source.parallelism) if failures else 0,
    )
    rescaling = best_rescaling(metrics, slots, rule.task_overhead_s, limits)
    if change_of(metrics, rescaling, memory).pause_s > objective.latency_s:
        rescaling = _without_state(rescaling, metrics)
    if finding.rising and not failures:  # more executors will come, and they should find tasks without another restart
        rescaling = with_room(rescaling, metrics, slots, min(most, slots), reach_of(evaluation), rule.task_overhead_s)
    suffices = latency_after_s(metrics, rescaling.gain_s) <= objective.latency_s
    found = diagnose(metrics, finding.worst, rescaling, slots, finding.useless, suffices)
    if found.cause is Cause.NOTHING and most < slots:
        found = _hemmed_in(finding, slots, rule.task_overhead_s) or found
    more_source = failures and rescaling.after.get(source.name, 0) > source.parallelism
    change = change_of(metrics, rescaling, memory, failed_tasks=metrics.failed_tasks if more_source else 0.0)
    promise = _promise(rescaling, metrics, change.pause_s)
    if more_source:
        more = f"its source gets more, smaller tasks ({level})"
        text = f"{metrics.name}: {finding.why.text}; {more}: {promise} is accepted"
        return change, Reason("rescale-failures", text)
    said = f"{metrics.name}: {finding.why.text}; {found.text}"
    if not found.rescale:
        return None, Reason(f"hold-{found.cause}", said)
    back_s = payback_s(
        change.pause_s, row_gain_s(metrics, rescaling.gain_s), utilisation_after(metrics, rescaling.gain_s)
    )
    pressing = finding.pressing and found.cause is Cause.FEW_TASKS
    if back_s > rule.payback_s and not pressing:
        text = f"{said}; {promise} would be paid back in {back_s:.0f} s, {rule.payback_s:.0f} s allowed"
        return None, Reason("hold-payback", text)
    paid = f"is justified because {finding.why.text}" if pressing else f"is paid back in {back_s:.0f} s"
    return change, Reason(f"rescale-{found.cause}", f"{said} ({level}): {promise} {paid}")


def _without_state(rescaling: Rescaling, metrics: ApplicationMetrics) -> Rescaling:
    """If moving state pauses for longer than the objective, leave it out, provided the others gain most of the time."""
    stages = {operator.name: operator for operator in metrics.operators}
    kept = {name: tasks for name, tasks in rescaling.after.items() if not stages[name].stateful}
    gain_s = sum(stages[name].execute_latency_s - rescaling.execute_s[name] for name in kept)
    if not kept or gain_s < _MOST_OF_IT * rescaling.gain_s:
        return rescaling
    before, execute_s = ({name: values[name] for name in kept} for values in (rescaling.before, rescaling.execute_s))
    return Rescaling(before, kept, execute_s, gain_s)  # type: ignore[arg-type]


def reach_of(evaluation: Evaluation) -> int:
    """Slots that the pool may reach. Executors can be added without a restart, tasks for them cannot."""
    pool, policy = evaluation.pool, evaluation.policy
    if not (pool.scalable and policy.knobs.executors):
        return pool.slots
    return max(pool.slots, evaluation.executor_bounds[1] * pool.slots_per_executor)


def with_room(
    rescaling: Rescaling, metrics: ApplicationMetrics, slots: int, most: int, reach: int, task_overhead_s: float
) -> Rescaling:
    """The same, with tasks for a growing pool: adding executors needs no restart, adding tasks does.

    Operators that get their maximum, `most`, get several waves for the slots, as many as hardly lengthen a batch.
    """
    period_s = max(metrics.interval_s, metrics.batch_s)
    by_name = {operator.name: operator for operator in metrics.operators}
    after, execute_s, gain_s = dict(rescaling.after), dict(rescaling.execute_s), rescaling.gain_s
    for name, tasks in rescaling.after.items():
        if tasks < most or by_name[name].stateful:
            continue  # fewer were better, or the state would be split into more partitions than can ever be needed
        scaling = stage_scaling(by_name[name], min(task_overhead_s, by_name[name].busy_s / by_name[name].parallelism))
        for waves in range(reach // slots, 1, -1):
            longer_s = scaling.predict_s(waves * slots, slots) - execute_s[name]
            if longer_s <= _ROOM * period_s:
                after[name], execute_s[name] = waves * slots, execute_s[name] + longer_s
                gain_s -= longer_s
                break
    return replace(rescaling, after=after, execute_s=execute_s, gain_s=gain_s)


def _hemmed_in(finding: Finding, slots: int, task_overhead_s: float) -> Diagnosis | None:
    """More tasks would help if other applications did not hold the slots."""
    metrics, worst = finding.metrics, finding.worst
    wider = best_rescaling(metrics, slots, task_overhead_s, TaskLimits(slots, finding.useless))
    if wider.gain_s < LEAST_GAIN * metrics.batch_s:
        return None
    text = (
        f"{worst.operator} ({worst.kind}, {worst.time_s:.2f} s a batch) could save {wider.gain_s:.2f} s with more "
        f"tasks, but no more of the {slots} slots are free for it; more executors would help"
    )
    return Diagnosis(Cause.SLOTS, worst.operator, text)


def change_of(
    metrics: ApplicationMetrics,
    rescaling: Rescaling,
    memory: OperatorsMemory,
    failed_tasks: float = 0.0,
    reversal: bool = False,
) -> Change:
    """The rescaling as one restart, with its expected pause."""
    stateful = any(operator.stateful for operator in metrics.operators if operator.name in rescaling.after)
    pause_s = memory.pause_s(metrics.name, stateful, metrics.state_rows)
    return Change(metrics, rescaling, pause_s, failed_tasks, reversal)


def demand_of(finding: Finding, level: int, slots: int, task_overhead_s: float) -> Demand:
    """What an application holds, and how much it could use on a pool of `slots`."""
    tasks = next(known.parallelism for known in finding.metrics.operators if known.name == finding.worst.operator)
    best = best_rescaling(finding.metrics, slots, task_overhead_s, TaskLimits(slots, finding.useless))
    useful = max([tasks, *best.after.values()])
    return Demand(finding.metrics.name, max(1, min(tasks, slots)), tasks, level, finding.worst.time_s, useful)


def _promise(rescaling: Rescaling, metrics: ApplicationMetrics, pause_s: float) -> str:
    steps = ", ".join(f"{name} {rescaling.before[name]} → {tasks}" for name, tasks in rescaling.after.items())
    after_s = metrics.batch_s - rescaling.gain_s
    return (
        f"{steps}; a batch should take {after_s:.2f} s instead of {metrics.batch_s:.2f} s; the pause of {pause_s:.1f} s"
    )
