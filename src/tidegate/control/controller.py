"""The controller: one pure step from what is seen to what is done. No clock, no I/O, no randomness."""

from __future__ import annotations

from tidegate.control.knowledge import Knowledge
from tidegate.domain import Assessment, Decision, Observation, Reason
from tidegate.domain.policy import Policy
from tidegate.monitor.quality import distrust
from tidegate.monitor.workload import WorkloadMemory, evaluate, learn
from tidegate.planning.capacity import CapacityPlanner
from tidegate.planning.guards import GuardContext, guard
from tidegate.planning.mestream import MeStreamPlanner
from tidegate.planning.mpc_planner import MpcPlanner
from tidegate.planning.planner import Known, Plan, Planner, Situation


class Controller:
    """Steps from observation to decision. Its whole state is `knowledge`, which can be saved and given to another.

    The same observations give the same decisions, on any machine.
    """

    def __init__(self, policy: Policy, knowledge: Knowledge | None = None) -> None:
        self.policy = policy
        self.knowledge = knowledge or Knowledge()
        self._planner = planner_of(policy, self.knowledge)

    def step(self, observation: Observation) -> Decision:
        """Monitor, plan, guard."""
        self.knowledge.step += 1
        situation = Situation(observation.time_s, self._known(observation), observation.pool, self.policy)
        plan = self._planner.plan(situation)
        context = GuardContext(observation.time_s, observation.pool, self.policy, self.knowledge.guards)
        actions, held = guard(plan.proposals, context)
        reasons = plan.reasons + tuple(
            proposal.reason for proposal in plan.proposals if proposal.reason not in plan.reasons
        )
        return Decision(
            step=self.knowledge.step,
            time_s=observation.time_s,
            actions=actions,
            held=held,
            reasons=reasons or (Reason("hold", "nothing to do"),),
            assessments=_assessments(situation, plan),
        )

    def _known(self, observation: Observation) -> tuple[Known, ...]:
        """Learn from every application; those that are watched only are left out of the plan."""
        known = []
        for sample in observation.applications:
            memory = self.knowledge.workloads.setdefault(sample.name, WorkloadMemory())
            learn(memory, sample, observation.pool, observation.time_s, self.policy.capacity)
            if self.policy.ignores(sample.name) or sample.bounded:
                continue
            doubt = distrust(sample, memory, observation.time_s, self.policy.guards.max_age_s)
            workload = evaluate(memory, sample, observation.time_s, self.policy.capacity)
            known.append(Known(sample, workload, doubt))
        return tuple(known)


def planner_of(policy: Policy, knowledge: Knowledge) -> Planner:
    """The planner that the policy names, with what is remembered of its earlier steps."""
    if policy.planner == "me-stream":
        return MeStreamPlanner(knowledge.operators)
    if policy.planner == "mpc":
        return MpcPlanner(knowledge.classes)
    return CapacityPlanner(knowledge.planner)


def _assessments(situation: Situation, plan: Plan) -> tuple[Assessment, ...]:
    assessed = []
    for known in situation.applications:
        name, workload = known.sample.name, known.workload
        if workload is None:
            assessed.append(Assessment(name, usable=False, reason=known.distrust))
            continue
        assessed.append(
            Assessment(
                application=name,
                usable=known.distrust is None,
                reason=known.distrust,
                arrival_rows_per_s=workload.arrival_rows_per_s,
                expected_rows_per_s=workload.expected_rows_per_s,
                service_s_per_row=workload.cost.row_s,
                overhead_s=workload.cost.overhead_s,
                backlog_rows=round(workload.pending_rows),
                latency_p99_s=workload.latency_p99_s,
                needed_slots=plan.needed_slots.get(name),
            )
        )
    return tuple(assessed)
