"""The operators proposer: finds the operator that limits an application, and rescales it.

It follows Me-Stream: metrics → bottlenecks → parameter plan → migration plan → instance schedule. It adds what the
paper leaves out: does more parallelism help, is the restart worth its pause, and did the change have the predicted
effect?
"""

from __future__ import annotations

from tidegate.domain import Decision, ExecutorPool, Outcome, Proposal, Reason, Receipt, SetParallelism
from tidegate.evaluate.bottleneck import (
    ApplicationMetrics,
    BottleneckTime,
    Rescaling,
    aggregate,
    held_slots,
    refit,
    worst_operator,
)
from tidegate.evaluate.evaluation import ApplicationEvaluation, Evaluation
from tidegate.plan.demand import all_warm_s
from tidegate.plan.operators.executorplan import wanted_executors
from tidegate.plan.operators.instances import live_assignment, plan_migration
from tidegate.plan.operators.memory import ApplicationMemory, OperatorsMemory, Reversal
from tidegate.plan.operators.migration import agreement
from tidegate.plan.operators.pressure import Circumstances, RisingLoad, take_in, trigger
from tidegate.plan.operators.rescale import Change, Finding, allot, change_of, serve
from tidegate.plan.operators.trial import JUDGED_BATCHES, begin, ignoring, judge, refusals, settled, still_useless
from tidegate.plan.planner import Plan, Proposer
from tidegate.plan.proposersettings import OperatorSettings

_FORGET_AFTER_S = 60.0
_MOST_APPLICATIONS = 64
_RISES, _RISES_ON = 1.1, 1.15
"""The newest rate relative to the usual one if arrivals rise, and what they are expected to rise by until a restart is
over. A restart cannot wait until the rise has proven to be a steady one."""
_TAKEN_UP = frozenset({Outcome.DONE, Outcome.UNDER_WAY})


class Operators(Proposer):
    """Rescales operators, several of an application in one restart. If that cannot help, it says why."""

    name = "operators"

    def __init__(self, memory: OperatorsMemory | None = None, settings: OperatorSettings | None = None) -> None:
        self.memory: OperatorsMemory = memory or OperatorsMemory()
        self.settings = settings or OperatorSettings()
        self._seen: tuple[ExecutorPool, float] | None = None
        """The pool and the time of the last look."""
        # Result of the last look. Not part of the memory, because every step computes it again.
        self._changes: dict[str, tuple[Change, Reason]] = {}
        self._growth: Proposal | None = None
        self._reasons: list[Reason] = []

    def watch(self, evaluation: Evaluation) -> None:
        """Take in new batches and the results of earlier changes. The result depends only on observations."""
        self._seen = evaluation.pool, evaluation.time_s
        self._changes, self._growth, self._reasons = {}, None, []
        self._forget(evaluation)
        findings: list[Finding] = []
        looked_into, warm_s = _looked_into(evaluation), all_warm_s(evaluation.pool)
        for seen in looked_into:
            memory = self.memory.applications.get(seen.name)
            if memory is None:
                memory = self.memory.applications[seen.name] = ApplicationMemory(seen_s=evaluation.time_s)
            # A batch beside cold executors is slow for a reason that more tasks do not remove.
            batches = [one for one in seen.sample.batches if one.warming or one.started_s >= warm_s]
            alarmed = take_in(memory, batches, seen.objective, self.settings)
            alarmed = alarmed or _rises(seen)
            report = seen.sample.rebalance
            rolled_back = None if report is None else self.memory.learn_report(seen.name, report)
            if rolled_back is not None:
                self._reasons.append(Reason("rolled-back", rolled_back))
            elif seen.sample.rebalancing:
                self._reasons.append(Reason("hold-restarting", f"{seen.name}: a restart is under way"))
            elif seen.distrust is not None:
                continue  # the pool proposer reports it
            elif memory.trial is not None:
                self._reasons += self._follow_up(seen, memory, evaluation)
            elif memory.reversal is None:
                found, reason = self._look(seen, memory, alarmed, evaluation)
                findings += [found] if found else []
                self._reasons += [reason] if reason else []
            if memory.reversal is not None and not seen.sample.rebalancing and seen.distrust is None:
                self._go_back(seen, memory, memory.reversal)
        if findings:
            held = {seen.name: held_slots(self.memory.applications[seen.name].batches) for seen in looked_into}
            self._serve(findings, held, evaluation)

    def propose(self, evaluation: Evaluation) -> Plan:
        """All changes found by the last look. Several operators of an application are one restart."""
        proposals = [
            Proposal(SetParallelism(name, operator, tasks), reason, change.pause_s)
            for name, (change, reason) in self._changes.items()
            for operator, tasks in change.rescaling.after.items()
        ]
        proposals += [self._growth] if self._growth else []
        return Plan(tuple(proposals), tuple(self._reasons))

    def learn(self, decision: Decision, receipt: Receipt) -> None:
        """Accepted changes are on trial from now on. A change refused twice is not requested again."""
        answers = {answer.action: answer.outcome for answer in receipt.actions}
        taken_up: dict[str, dict[str, int]] = {}
        for action in decision.actions:
            if not isinstance(action, SetParallelism) or action.application not in self.memory.applications:
                continue
            if answers.get(action) in _TAKEN_UP:
                taken_up.setdefault(action.application, {})[action.operator] = action.parallelism
            else:  # refused, failed, or no answer: the world considers it reached although the operator runs otherwise
                self.memory.applications[action.application].count_ignored([action.operator])
        if self._seen is None:
            return
        pool, time_s = self._seen
        for name, after in taken_up.items():
            if name in self._changes:
                memory, (change, _) = self.memory.applications[name], self._changes[name]
                memory.trial, memory.reversal = begin(change, after, time_s), None
                latest = {
                    other: known.batches[-1] for other, known in self.memory.applications.items() if known.batches
                }
                self.memory.keep(plan_migration(latest, {name: after}, pool, time_s))

    # memory

    def _forget(self, evaluation: Evaluation) -> None:
        """Models end with their application. A change of the pool's size invalidates predictions."""
        for name, memory in list(self.memory.applications.items()):
            place = evaluation.places.get(name)
            if place is not None and evaluation.status.running[place]:
                memory.seen_s = evaluation.time_s
            elif evaluation.time_s - memory.seen_s > _FORGET_AFTER_S:
                del self.memory.applications[name]
        before, slots = self.memory.slots, evaluation.pool.slots
        if before is not None and before != slots:
            for memory in self.memory.applications.values():
                memory.take_other_slots(before, slots)
        self.memory.slots = slots

    def _follow_up(
        self, seen: ApplicationEvaluation, memory: ApplicationMemory, evaluation: Evaluation
    ) -> list[Reason]:
        """A change was requested: has it taken effect, did it help, should it be reverted?"""
        trial, metrics, slots = memory.trial, self._metrics(seen, memory), evaluation.pool.slots
        assert trial is not None
        if names := ignoring(trial, metrics, evaluation.time_s):
            memory.count_ignored(names)
            text = f"{seen.name}: {', '.join(names)} ignored the requested parallelism"
            return [Reason("parallelism-ignored", text)]
        if metrics is None or not settled(trial, metrics):
            return [Reason("hold-trial", f"{seen.name}: a rescale is under way or too recent to be judged")]
        memory.trial = None
        judged = aggregate(seen.sample, memory.batches[-JUDGED_BATCHES:], memory.links) or metrics
        result = judge(trial, judged, slots)
        memory.useless |= result.useless
        if result.back:
            memory.reversal = Reversal(result.back, {name: trial.execute_s[name] for name in result.back})
        reasons = [Reason("helped", f"{seen.name}: {text}") for text in result.helped.values()]
        reasons += [Reason("useless", f"{seen.name}: {verdict.text}") for verdict in result.useless.values()]
        return reasons + self._compare_migration(seen.name, memory, evaluation)

    def _go_back(self, seen: ApplicationEvaluation, memory: ApplicationMemory, due: Reversal) -> None:
        """Request the previous parallelism, again at every step, because guards may hold it back for a while."""
        metrics = self._metrics(seen, memory)
        if metrics is None:
            return
        now = {operator.name: operator.parallelism for operator in metrics.operators}
        after = {name: tasks for name, tasks in due.after.items() if now.get(name, tasks) != tasks}
        if not after:
            memory.reversal = None  # it has already been reverted
            return
        execute_s = {name: due.execute_s[name] for name in after}
        rescaling = Rescaling({name: now[name] for name in after}, after, execute_s, gain_s=0.0)
        steps = ", ".join(f"{name} {now[name]} → {tasks}" for name, tasks in after.items())
        reason = Reason("reverse", f"{seen.name}: undoing a change that did harm: {steps}")
        self._changes[seen.name] = (change_of(metrics, rescaling, self.memory, reversal=True), reason)

    def _metrics(self, seen: ApplicationEvaluation, memory: ApplicationMemory) -> ApplicationMetrics | None:
        return aggregate(seen.sample, memory.batches, memory.links)

    # diagnosis

    def _look(
        self,
        seen: ApplicationEvaluation,
        memory: ApplicationMemory,
        alarmed: bool,
        evaluation: Evaluation,
    ) -> tuple[Finding | None, Reason | None]:
        """The bottleneck test: often while the latency line moves, rarely when it is stable."""
        name, rule, now_s = seen.name, self.settings, evaluation.time_s
        if not evaluation.pool.slots:
            return None, Reason("hold-no-executors", f"{name}: no executor is registered")
        if len(memory.batches) < rule.recurrences:
            return None, Reason("hold-learning", f"{name}: too few warm batches seen yet")
        slow = memory.threshold.stable and not alarmed
        if slow and memory.looked_s is not None and now_s - memory.looked_s < rule.slow_watch_s:
            rate = f"stable, checked every {rule.slow_watch_s:.0f} s"
            if memory.stuck is not None:
                return None, Reason(memory.stuck.code, f"{memory.stuck.text} ({rate})")
            return None, Reason("hold-stable", f"{name}: {rate}")
        metrics = self._metrics(seen, memory)
        assert metrics is not None, "only batches that can be added up are kept"
        memory.looked_s, memory.stuck = now_s, None
        refit(memory.threshold, now_s)
        worst = worst_operator(metrics, evaluation.pool.slots)
        rising = _rises(seen)
        outlook = RisingLoad(_RISES_ON * _expected(seen), evaluation.pool.slots) if rising else None
        why = trigger(memory, Circumstances(now_s, metrics, worst, seen.objective, outlook), rule)
        if why is None:
            rate = "stable" if memory.threshold.stable else f"looked at every {evaluation.policy.interval_s:g} s"
            return None, Reason("hold-met", f"{name}: no recurring bottleneck ({rate}; {_said(worst)})")
        if not seen.sample.restartable:
            text = f"{name}: {why.text}, but it cannot be restarted, because it was not started by gate.start"
            return None, Reason("hold-not-restartable", text)
        useless = refusals(memory) | _verdicts(memory, metrics, evaluation.pool.slots)
        return Finding(memory, metrics, worst, why, useless, rising), None

    # changes

    def _serve(self, findings: list[Finding], held: dict[str, float], evaluation: Evaluation) -> None:
        """Compute the changes, highest level first, and the executors that they need."""
        allotment = allot(findings, held, evaluation, self.settings)
        if allotment is None:
            return
        served: list[Finding] = []
        for finding, most, level in allotment.shares:
            change, reason = serve(finding, most, level, evaluation, self.memory, self.settings)
            self._reasons.append(reason)
            finding.memory.stuck = None if change else reason
            if change is not None:
                self._changes[finding.metrics.name] = (change, reason)
            if change is not None or reason.code == "hold-no-free-slots":
                served.append(finding)
        self._growth = wanted_executors(allotment, served, evaluation, self.settings)

    def _compare_migration(self, name: str, memory: ApplicationMemory, evaluation: Evaluation) -> list[Reason]:
        """How far the world followed the newest tables."""
        if not self.memory.tables:
            return []
        seen = live_assignment(name, memory.batches[-1], evaluation.pool)
        share = agreement(self.memory.tables[-1], seen)
        text = f"{name}: {share or 0:.0%} of the instances run on the executors that were planned for them"
        return [Reason("migration", text)] if share is not None else []


def _verdicts(memory: ApplicationMemory, metrics: ApplicationMetrics, slots: int) -> dict[str, str]:
    """Operators for which more tasks are known to be useless. Outdated verdicts are dropped."""
    by_name = {operator.name: operator for operator in metrics.operators}
    memory.useless = {
        name: known
        for name, known in memory.useless.items()
        if name in by_name and still_useless(known, by_name[name], metrics, slots)
    }
    return {name: known.text for name, known in memory.useless.items()}


def _expected(seen: ApplicationEvaluation) -> float:
    """Rows per second according to the recent trend; 0 if unknown."""
    return seen.workload.expected_rows_per_s if seen.workload else 0.0


def _rises(seen: ApplicationEvaluation) -> bool:
    """Is the expected rate higher than the current arrivals?"""
    return seen.workload is not None and _expected(seen) > _RISES * seen.workload.arrival_rows_per_s


def _looked_into(evaluation: Evaluation) -> tuple[ApplicationEvaluation, ...]:
    """Applications that can be restarted. If there are very many, only those whose turn it is."""
    if len(evaluation.samples) <= _MOST_APPLICATIONS:
        return evaluation.applications
    places = [evaluation.places[name] for name in evaluation.details]
    return tuple(evaluation.of(place) for place in places if evaluation.samples[place].restartable)


def _said(worst: BottleneckTime) -> str:
    return f"most time goes to {worst.operator}, {worst.kind}, {worst.time_s:.2f} s a batch"
