"""The Operator Manager as a proposer: how many tasks each elastic operator needs, by the policy in the fleet's file.

`threshold`, `q-learning` and `model-based` (Russo Russo, Nardelli, Cardellini, Lo Presti) look at one operator alone:
its tasks, its arrival rate, its utilisation. What the learners know about an application moves with it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from tidegate.domain import (
    ApplicationSample,
    InvalidInput,
    MoveApplication,
    Proposal,
    Reason,
    SetParallelism,
)
from tidegate.evaluate.evaluation import Evaluation
from tidegate.fleet.applicationfigures import ApplicationFigures, OperatorFigures
from tidegate.managers.policies import (
    DecisionProcess,
    Experience,
    LearnedModel,
    LocalPolicy,
    ModelBased,
    OperatorLimits,
    OperatorView,
    QLearning,
    Threshold,
    rescued,
)
from tidegate.plan.planner import Plan, Proposer

PolicyName = Literal["operators", "threshold", "q-learning", "model-based"]
"""`operators` is the proposer of a single job, which considers all operators of a job together."""
Learned = dict[str, Any]
_REMEMBER_EVERY = 12
"""Periods after which what was learned is written down; plain values of whole tables are costly."""


@dataclass(slots=True)
class PolicyMemory:
    """What the policies have learned, by application and operator, as plain values."""

    learned: dict[str, dict[str, Learned]] = field(default_factory=dict)
    stepped_s: float | None = None
    steps: int = 0


class OperatorPolicies(Proposer):
    """Examines every elastic operator once per period. Its proposals stand until the next period."""

    name = "operator-policies"

    def __init__(self, policy: PolicyName = "threshold", period_s: float = 5.0) -> None:
        self.memory: PolicyMemory = PolicyMemory()
        self._policy = policy
        self._period_s = period_s
        self._figures: dict[str, ApplicationFigures] = {}
        self._policies: dict[tuple[str, str], tuple[OperatorLimits, LocalPolicy]] = {}
        self._settled_s: dict[str, float] = {}
        self._tasks: dict[str, dict[str, int]] = {}
        self._wanted: tuple[Proposal, ...] = ()
        self._reasons: tuple[Reason, ...] = ()

    def know(self, application: str, learned: dict[str, Learned]) -> None:
        """Take over what was learned about an application on another host."""
        self.memory.learned[application] = learned
        for key in [key for key in self._policies if key[0] == application]:
            del self._policies[key]

    def learned(self, application: str) -> dict[str, Learned]:
        """What is known about an application now, for the next host that runs it."""
        for (name, operator), (_, policy) in self._policies.items():
            if name == application:
                self._remember(name, operator, policy)
        return self.memory.learned.get(application, {})

    def watch(self, evaluation: Evaluation) -> None:
        now_s, standing = evaluation.time_s, evaluation.standing
        samples = {sample.name: sample for sample in evaluation.samples if sample.running}
        for gone in self._figures.keys() - samples.keys():
            del self._figures[gone]
            self._tasks.pop(gone, None)
        for name, sample in samples.items():
            self._figures.setdefault(name, ApplicationFigures()).take(sample, now_s)
        if self.memory.stepped_s is not None and 0 <= now_s - self.memory.stepped_s < self._period_s:
            return
        self.memory.stepped_s = now_s
        self.memory.steps += 1
        wanted: list[Proposal] = []
        reasons: list[Reason] = []
        for name, most in standing.most_tasks.items() if standing is not None else ():
            if name in samples and not samples[name].rebalancing:
                objective_s = evaluation.policy.objective_of(name).latency_s
                self._step(samples[name], dict(most), objective_s, evaluation, wanted, reasons)
        self._wanted, self._reasons = tuple(_one_leaves(wanted)), tuple(reasons)

    def propose(self, evaluation: Evaluation) -> Plan:
        there = {sample.name for sample in evaluation.samples if sample.running and not sample.rebalancing}
        return Plan(
            tuple(one for one in self._wanted if getattr(one.action, "application", "") in there), self._reasons
        )

    def _step(
        self,
        sample: ApplicationSample,
        most: dict[str, int],
        objective_s: float,
        evaluation: Evaluation,
        wanted: list[Proposal],
        reasons: list[Reason],
    ) -> None:
        now_s, figures = evaluation.time_s, self._figures[sample.name]
        # A micro-batch ends as a whole, so its latency is the latency of every operator.
        summary = figures.summary(now_s)
        response_s, settling = summary.latency_p99_s or 0.0, self._settling(sample.name, summary.parallelism, now_s)
        for operator, least_most in most.items():
            seen = figures.operator(operator, now_s)
            if seen is None or not seen.busy_s_per_row:
                continue
            limits, policy = self._policy_of(sample.name, operator, least_most, objective_s, seen)
            replicas = min(max(seen.replicas, limits.least), limits.most)
            view = OperatorView(
                replicas, seen.rows_per_s, seen.utilisation, response_s, settling, seen.newest_rows_per_s
            )
            policy.watch(view)
            if self.memory.steps % _REMEMBER_EVERY == 0:
                self._remember(sample.name, operator, policy)
            wish, urgent = rescued(policy.propose(view), view, limits)
            text = f"{sample.name}.{operator}: {seen.replicas} tasks, {seen.utilisation:.0%} busy, "
            text += f"{seen.rows_per_s:.0f} rows/s; {wish.reason}"
            if wish.change:
                target = min(max(seen.replicas + wish.change, limits.least), limits.most)
                action = SetParallelism(sample.name, operator, target)
                wanted.append(Proposal(action, Reason(self._policy, text), score=wish.score, urgent=urgent))
            else:
                reasons.append(Reason("hold-policy", text))
                wanted += self._move_away(sample.name, view, limits, evaluation)

    def _settling(self, name: str, tasks: dict[str, int], now_s: float) -> bool:
        """Does the window still contain a restart? Its latency then says nothing about the number of tasks."""
        if tasks != self._tasks.get(name):
            self._tasks[name] = tasks
            self._settled_s[name] = now_s + self._figures[name].window_s
        return now_s < self._settled_s[name]

    def _move_away(
        self, name: str, view: OperatorView, limits: OperatorLimits, evaluation: Evaluation
    ) -> list[Proposal]:
        """If the host has no slots for more tasks, request another host for the application."""
        full = evaluation.all_busy_slots >= evaluation.pool.slots > 0
        if view.settling or view.response_s <= limits.objective_s or not full or len(self._figures) < 2:
            return []
        text = (
            f"{name} takes {view.response_s:.1f} s (objective {limits.objective_s:g} s), and its host has no free slot"
        )
        score = view.response_s / limits.objective_s
        return [Proposal(MoveApplication(name, None), Reason("crowded", text), score=score, urgent=True)]

    def _policy_of(
        self, application: str, operator: str, most: int, objective_s: float, seen: OperatorFigures
    ) -> tuple[OperatorLimits, LocalPolicy]:
        """A learner keeps its limits while the cost per row stays within a third of the value they were made for."""
        limits = OperatorLimits(1, most, objective_s, most / (seen.busy_s_per_row or 1.0))
        known = self._policies.get((application, operator))
        if known is not None and known[0].most == most and known[0].objective_s == objective_s:
            ratio = known[0].full_rate_rows_per_s / limits.full_rate_rows_per_s
            if isinstance(known[1], QLearning | ModelBased) and 0.75 < ratio < 1.33:
                return known
        made = self._make(limits, self.memory.learned.get(application, {}).get(operator))
        self._policies[application, operator] = limits, made
        return limits, made

    def _make(self, limits: OperatorLimits, learned: Learned | None) -> LocalPolicy:
        if self._policy == "threshold":
            return Threshold(limits)
        process = DecisionProcess(limits)
        saved = learned if learned is not None and learned.get("policy") == self._policy else None
        try:
            if self._policy == "q-learning":
                experience = Experience.empty(process) if saved is None else Experience.from_plain(saved, process)
                # Nothing is tried at random on a real job: the learner observes the threshold policy.
                return QLearning(process, experience, np.random.default_rng(0), explore=False)
            model = LearnedModel.empty(process) if saved is None else LearnedModel.from_plain(saved, process)
            return ModelBased(process, model)
        except InvalidInput:  # learned with another number of tasks: start over
            return self._make(limits, None)

    def _remember(self, application: str, operator: str, policy: LocalPolicy) -> None:
        if isinstance(policy, QLearning):
            plain = policy.experience.to_plain()
        elif isinstance(policy, ModelBased):
            plain = policy.model.to_plain()
        else:
            return
        self.memory.learned.setdefault(application, {})[operator] = {"policy": self._policy, **plain}


def _one_leaves(wanted: list[Proposal]) -> list[Proposal]:
    """Only the slowest application leaves a full host. If all left, they would crowd the next one."""
    leaving = [one for one in wanted if isinstance(one.action, MoveApplication)]
    first = max(leaving, key=lambda one: one.score, default=None)
    return [one for one in wanted if one is first or not isinstance(one.action, MoveApplication)]
