"""The controller: one pure step from observation to decision. No clock, no I/O, no randomness."""

from __future__ import annotations

from collections.abc import Sequence

from tidegate.control import predictions
from tidegate.control.knowledge import Knowledge
from tidegate.domain import Action, Assessment, Decision, Observation, Outcome, QosReading, Reason, Receipt, Targets
from tidegate.domain.codec import from_tree
from tidegate.domain.policy import Policy
from tidegate.domain.qostables import row_of
from tidegate.domain.resolution import told
from tidegate.evaluate.evaluation import ApplicationEvaluation, Evaluation
from tidegate.evaluate.evaluator import Evaluator
from tidegate.plan.arbiter import Arbiter
from tidegate.plan.guards import Guard, GuardContext, WatchfulGuard, all_guards, guard, remember, watch
from tidegate.plan.mainreason import main_first
from tidegate.plan.memorypressure import MemoryWatch
from tidegate.plan.planner import Plan, Planner, Proposer
from tidegate.plan.tuning import Tuning

MOST_ASSESSED = 64
"""Maximum number of assessments in a decision. With more applications, only those that were examined are assessed."""


class Controller:
    """Steps from observation to decision. Its whole state is `knowledge`, which can be saved and given to another one.

    The same observations and receipts give the same decisions on any machine. `planner` replaces arbiter and guards.
    `proposers` are those that the arbiter asks, by default all of them. `guards` are asked last.
    """

    def __init__(
        self,
        policy: Policy,
        knowledge: Knowledge | None = None,
        planner: Planner | None = None,
        proposers: Sequence[Proposer] | None = None,
        guards: Sequence[WatchfulGuard] = (),
    ) -> None:
        self.policy = policy
        self.knowledge = knowledge or Knowledge()
        self.evaluator = Evaluator(policy, self.knowledge.evaluation)
        self._arbiter = Arbiter(self.knowledge.parts, proposers) if planner is None else None
        self._planner: Planner = planner or self._arbiter  # type: ignore[assignment]
        self._watcher = self._planner if isinstance(self._planner, Arbiter | Proposer) else None
        """The planner, if it has a memory."""
        self._tuning = Tuning(self.knowledge.parts)
        self._memory = MemoryWatch(self.knowledge.parts)
        self._watchful = tuple(guards)
        self._guards: dict[str, Guard] = {**all_guards(), **{one.name: one.check for one in self._watchful}}
        for one in self._watchful:
            saved = self.knowledge.parts.get(one.name)
            if one.memory is not None:
                one.memory = from_tree(type(one.memory), saved) if isinstance(saved, dict) else one.memory
                self.knowledge.parts[one.name] = one.memory
        self._context: GuardContext | None = None
        self._evaluation: Evaluation | None = None

    def step(self, observation: Observation) -> Decision:
        """Evaluate, plan and guard. If nothing can be done, say what would help."""
        memory = self.knowledge.guards
        watch(memory, observation.time_s, observation.pool, self.policy)
        if observation.fleet is not None:
            self.knowledge.targets = self.knowledge.targets.still_standing(observation.fleet)
        evaluation = self._evaluation = self.evaluator.evaluate(observation, memory.spent_s)
        judged = predictions.judge(self.knowledge.outstanding, evaluation, self.knowledge.evaluation.table)
        if self._watcher is not None:
            self._watcher.watch(evaluation)
        for one in self._watchful:
            one.watch(evaluation)
        plan = self._planner.plan(evaluation)
        context = self._context = self._guard_context(evaluation, plan)
        # A plugged-in planner decides for itself: it is compared with Tidegate, not corrected.
        actions, held = guard(plan.proposals, context, self._guards) if self._arbiter else (_actions(plan), ())
        reasons = main_first(plan, actions, held)
        self._tuning.watch(evaluation, actions, held)
        self._memory.watch(evaluation)
        return Decision(
            step=evaluation.step,
            time_s=observation.time_s,
            actions=actions,
            held=held,
            reasons=reasons or (Reason("hold", "nothing to do"),),
            assessments=_assessments(evaluation, plan),
            qos=_readings(evaluation),
            set_aside=evaluation.set_aside,
            advice=self._tuning.advice(evaluation) + self._memory.advice(evaluation),
            predictions=plan.predictions,
            judged=judged,
            moved=plan.moved,
            rolled_out=plan.rolled_out,
        )

    def learn(self, decision: Decision, receipt: Receipt) -> None:
        """Learn the world's answers. Refused actions are not requested again."""
        knowledge = self.knowledge
        answers = {answer.action: answer.outcome for answer in receipt.actions}
        refused = [action for action, outcome in answers.items() if outcome in {Outcome.REFUSED, Outcome.FAILED}]
        knowledge.targets = knowledge.targets.after(decision.actions).without(refused)
        if self._evaluation is not None:
            for place in self._evaluation.status.stopped:
                name = self._evaluation.samples[place].name
                knowledge.targets = knowledge.targets.without_application(name)
        if self._context is not None:
            for action in decision.actions:
                if answers.get(action, Outcome.DONE) in {Outcome.DONE, Outcome.UNDER_WAY}:
                    remember(action, self._context)
        if self._watcher is not None:
            self._watcher.learn(decision, receipt)
        for one in self._watchful:
            one.learn(decision, receipt)
        if decision.actions and self._evaluation is not None:
            table = knowledge.evaluation.table
            predictions.expect(knowledge.outstanding, decision, self._evaluation, table, refused)
        self._evaluation = None  # thousands of samples are released here, not in the middle of the next step

    def take_policy(self, policy: Policy) -> None:
        """Continue under another policy. What was learned stays."""
        self.policy = policy
        self.evaluator = Evaluator(policy, self.knowledge.evaluation)

    def forget_targets(self) -> None:
        """Everything was restored, so nothing is requested any more."""
        self.knowledge.targets = Targets()

    def _guard_context(self, evaluation: Evaluation, plan: Plan) -> GuardContext:
        memory, time_s, pool = self.knowledge.guards, evaluation.time_s, evaluation.pool
        urgent = frozenset([proposal.action for proposal in plan.proposals if proposal.urgent])
        return GuardContext(
            time_s,
            pool,
            self.policy,
            memory,
            evaluation.spent_s,
            evaluation.fleet,
            evaluation.standing,
            urgent,
        )


def _actions(plan: Plan) -> tuple[Action, ...]:
    return tuple(proposal.action for proposal in plan.proposals)


def _readings(evaluation: Evaluation) -> tuple[QosReading, ...]:
    """The rows and graphs of the policy, and the latency objectives that are missed."""
    readings = []
    for place in evaluation.budgets.missed(least_rows=5, among=evaluation.planned):
        seen = evaluation.of(place)
        kept = 1.0 - seen.late_share
        p99_s = seen.workload.latency_p99_s if seen.workload else None
        readings.append(QosReading(seen.name, str(row_of(seen.objective)), False, told(kept), told(p99_s)))
    return (*readings, *(reading for detail in evaluation.details.values() for reading in detail.qos))


def _assessments(evaluation: Evaluation, plan: Plan) -> tuple[Assessment, ...]:
    """What is believed about the applications: about all if there are few, otherwise about those that were examined."""
    if len(evaluation.samples) <= MOST_ASSESSED:
        looked_into = evaluation.applications
    else:
        names = {prediction.application for prediction in plan.predictions}
        places = sorted(evaluation.places[name] for name in names if name in evaluation.places)
        looked_into = tuple(evaluation.of(place) for place in places[:MOST_ASSESSED])
    assessed = []
    for seen in looked_into:
        workload = seen.workload
        if workload is None:
            assessed.append(Assessment(seen.name, usable=False, reason=seen.distrust))
            continue
        low, high = _edges(seen)
        assessed.append(
            Assessment(
                application=seen.name,
                usable=seen.distrust is None,
                reason=seen.distrust,
                arrival_rows_per_s=told(workload.arrival_rows_per_s),
                expected_rows_per_s=told(workload.expected_rows_per_s),
                service_s_per_row=told(workload.cost.row_s),
                overhead_s=told(workload.cost.overhead_s),
                backlog_rows=round(workload.pending_rows),
                latency_p99_s=told(workload.latency_p99_s),
                needed_slots=told(plan.needed_slots.get(seen.name)),
                objective_s=seen.objective.latency_s,
                budget_left=told(seen.budget_left),
                expected_low_rows_per_s=told(low),
                expected_high_rows_per_s=told(high),
            )
        )
    return tuple(assessed)


def _edges(seen: ApplicationEvaluation) -> tuple[float | None, float | None]:
    """The forecast's lower and upper edge for the next minute, if it was computed in this step."""
    path = seen.expected.known(seen.place)
    if path is None:
        return None, None
    steps = max(1, round(60.0 / path.step_s))
    return float(path.lower[:steps].mean()), float(path.upper[:steps].mean())
