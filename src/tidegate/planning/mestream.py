"""The me-stream planner: finds the operator that holds an application back and gives it the tasks that help.

Metrics → bottlenecks → parameter plan → migration plan → instance schedule, after Me-Stream; then what the paper leaves
out: is more parallelism of any use, does the restart earn its pause, and did it keep its promise?
"""

from __future__ import annotations

from tidegate.analysis.bottleneck import (
    ApplicationMetrics,
    BottleneckTime,
    Rescaling,
    aggregate,
    held_slots,
    refit,
    worst_operator,
)
from tidegate.domain import Mode, Proposal, Reason, SetParallelism
from tidegate.planning.elasticmemory import ApplicationMemory, MeStreamMemory, Trial
from tidegate.planning.instances import live_assignment, plan_migration
from tidegate.planning.migration import agreement
from tidegate.planning.planner import Known, Plan, Situation
from tidegate.planning.pressure import take_in, trigger
from tidegate.planning.rescale import Change, Finding, allot, change_of, serve
from tidegate.planning.trial import JUDGED_BATCHES, expired, judge, refusals, settled, still_useless, unheard

_FORGET_AFTER_S = 60.0


class MeStreamPlanner:
    """Rescales operators, several of an application in one restart; says why where that cannot help."""

    def __init__(self, memory: MeStreamMemory) -> None:
        self._memory = memory

    def plan(self, situation: Situation) -> Plan:
        self._forget(situation)
        proposals: list[Proposal] = []
        reasons: list[Reason] = []
        findings: list[Finding] = []
        held: dict[str, float] = {}
        for known in situation.applications:
            memory, alarmed = self._watch(known, situation)
            held[known.sample.name] = held_slots(memory.batches)
            rolled_back = self._hear(known)
            if rolled_back is not None:
                reasons.append(rolled_back)
            elif known.sample.rebalancing:
                reasons.append(Reason("hold-restarting", f"{known.sample.name}: a restart is under way"))
            elif known.distrust is not None:
                reasons.append(known.distrust)
            elif memory.trial is not None:
                change, said = self._follow_up(known, memory, situation)
                reasons += said
                proposals += self._propose(change, said[-1], memory, situation) if change else []
            else:
                found, reason = self._look(known, memory, alarmed, situation)
                findings += [found] if found else []
                reasons += [reason] if reason else []
        for finding, most, level in allot(findings, held, situation):
            change, reason = serve(finding, most, level, situation, self._memory)
            reasons.append(reason)
            finding.memory.stuck = None if change else reason
            proposals += self._propose(change, reason, finding.memory, situation) if change else []
        if not reasons:
            reasons.append(Reason("hold-no-application", "no streaming query is running"))
        return Plan(tuple(proposals), tuple(reasons), held)

    # what is known

    def _forget(self, situation: Situation) -> None:
        """Models end with their application; a pool of another size makes old verdicts void."""
        kept = {known.sample.name for known in situation.applications if known.sample.running}
        for name, memory in list(self._memory.applications.items()):
            if name in kept:
                memory.seen_s = situation.time_s
            elif situation.time_s - memory.seen_s > _FORGET_AFTER_S:
                del self._memory.applications[name]
        slots = situation.pool.slots
        if self._memory.slots not in {None, slots}:
            for memory in self._memory.applications.values():
                memory.start_anew()
                memory.useless.clear()
                memory.trial = None  # what was promised was promised for other slots
        self._memory.slots = slots

    def _watch(self, known: Known, situation: Situation) -> tuple[ApplicationMemory, bool]:
        sample, policy = known.sample, situation.policy
        memory = self._memory.applications.setdefault(sample.name, ApplicationMemory(seen_s=situation.time_s))
        return memory, take_in(memory, sample.batches, policy.objective_of(sample.name), policy.operators)

    def _hear(self, known: Known) -> Reason | None:
        """Learn from the restart that ended since the last step; a reason where it was rolled back."""
        report, name = known.sample.rebalance, known.sample.name
        text = None if report is None else self._memory.learn_report(name, report)
        return None if text is None else Reason("rolled-back", text)

    def _follow_up(
        self, known: Known, memory: ApplicationMemory, situation: Situation
    ) -> tuple[Change | None, list[Reason]]:
        """A change was asked for: has it arrived, did it help, should it go back?"""
        trial, metrics = memory.trial, aggregate(known.sample, memory.batches)
        assert trial is not None
        if expired(trial, situation.time_s):
            memory.trial = None
            return None, [Reason("not-carried-out", "the last rescale was not carried out: it is planned anew")]
        if deaf := unheard(trial, metrics, situation.time_s):
            memory.count_unheard(deaf)
            return None, [Reason("unheard", f"{', '.join(deaf)}: the parallelism did not change when asked")]
        if metrics is None or not settled(trial, metrics):
            return None, [Reason("hold-trial", "a rescale is under way or too young to be judged")]
        memory.trial = None
        result = judge(trial, aggregate(known.sample, memory.batches[-JUDGED_BATCHES:]) or metrics)
        memory.useless |= result.useless
        reasons = [Reason("helped", f"{metrics.name}: {text}") for text in result.helped.values()]
        reasons += [Reason("useless", f"{metrics.name}: {verdict.text}") for verdict in result.useless.values()]
        reasons += self._compare_migration(metrics.name, memory, situation)
        if not result.back:
            return None, reasons
        back = Rescaling(
            before={name: trial.after[name] for name in result.back},
            after=result.back,
            execute_s={name: trial.execute_s[name] for name in result.back},
            gain_s=0.0,
        )
        change = change_of(metrics, back, self._memory, reversal=True)
        steps = ", ".join(f"{name} {trial.after[name]} → {tasks}" for name, tasks in result.back.items())
        reasons.append(Reason("reverse", f"{metrics.name}: back to what was better: {steps}"))
        return change, reasons

    # what is wrong

    def _look(
        self,
        known: Known,
        memory: ApplicationMemory,
        alarmed: bool,
        situation: Situation,
    ) -> tuple[Finding | None, Reason | None]:
        """The bottleneck test: fast while the latency's line moves, slowly when it is stable."""
        name, rule, now_s = known.sample.name, situation.policy.operators, situation.time_s
        if not situation.pool.slots:
            return None, Reason("hold-no-executors", f"{name}: no executor is registered")
        if len(memory.batches) < rule.recurrences:
            return None, Reason("hold-learning", f"{name}: too few warm batches seen yet")
        slow = memory.threshold.stable and not alarmed
        if slow and memory.looked_s is not None and now_s - memory.looked_s < rule.slow_watch_s:
            left_s = rule.slow_watch_s - (now_s - memory.looked_s)
            rate = f"stable, looked at every {rule.slow_watch_s:.0f} s, next in {left_s:.0f} s"
            if memory.stuck is not None:
                return None, Reason(memory.stuck.code, f"{memory.stuck.text} ({rate})")
            return None, Reason("hold-stable", f"{name}: {rate}")
        metrics = aggregate(known.sample, memory.batches)
        assert metrics is not None, "only batches that can be added up are kept"
        memory.looked_s, memory.stuck = now_s, None
        refit(memory.threshold, now_s)
        worst = worst_operator(metrics, situation.pool.slots)
        why = trigger(memory, metrics, worst, situation.policy.objective_of(name), rule, now_s)
        if why is None:
            rate = "stable" if memory.threshold.stable else f"looked at every {situation.policy.interval_s:g} s"
            return None, Reason("hold-met", f"{name}: no recurring bottleneck ({rate}; {_said(worst)})")
        if not known.sample.restartable:
            text = f"{name}: {why.text}, but it was not started in a way that lets it be restarted"
            return None, Reason("hold-not-restartable", text)
        useless = refusals(memory) | _verdicts(memory, metrics)
        return Finding(memory, metrics, worst, why, useless), None

    # what to do

    def _propose(
        self,
        change: Change,
        reason: Reason,
        memory: ApplicationMemory,
        situation: Situation,
    ) -> list[Proposal]:
        """Write down what is promised, plan the migration, and ask for it."""
        metrics, rescaling = change.metrics, change.rescaling
        touched = [operator for operator in metrics.operators if operator.name in rescaling.after]
        memory.trial = Trial(
            asked_s=situation.time_s,
            before=dict(rescaling.before),
            after=dict(rescaling.after),
            rows=metrics.rows,
            execute_s={operator.name: operator.execute_latency_s for operator in touched},
            predicted_s=dict(rescaling.execute_s),
            busy_s={operator.name: operator.busy_s for operator in touched},
            pause_s=change.pause_s,
            batch_s=metrics.batch_s,
            stateful=any(operator.stateful for operator in touched),
            reversal=change.reversal,
        )
        if situation.policy.mode is Mode.APPLY:
            latest = {name: known.batches[-1] for name, known in self._memory.applications.items() if known.batches}
            after = {metrics.name: rescaling.after}
            self._memory.keep(plan_migration(latest, after, situation.pool, situation.time_s))
        return [
            Proposal(SetParallelism(metrics.name, name, tasks), reason, change.pause_s)
            for name, tasks in rescaling.after.items()
        ]

    def _compare_migration(self, name: str, memory: ApplicationMemory, situation: Situation) -> list[Reason]:
        """How far the world followed the newest tables."""
        if not self._memory.tables:
            return []
        seen = live_assignment(name, memory.batches[-1], situation.pool)
        share = agreement(self._memory.tables[-1], seen)
        text = f"{name}: {share or 0:.0%} of the instances run on the executors that were planned for them"
        return [Reason("migration", text)] if share is not None else []


def _verdicts(memory: ApplicationMemory, metrics: ApplicationMetrics) -> dict[str, str]:
    """Operators for which more tasks are known to be useless; verdicts that load or cost have overtaken are dropped."""
    by_name = {operator.name: operator for operator in metrics.operators}
    memory.useless = {
        name: known
        for name, known in memory.useless.items()
        if name in by_name and still_useless(known, by_name[name], metrics)
    }
    return {name: known.text for name, known in memory.useless.items()}


def _said(worst: BottleneckTime) -> str:
    return f"most time goes to {worst.operator}, {worst.kind}, {worst.time_s:.2f} s a batch"
