"""The controller: one pure step from what is seen to what is done. No clock, no I/O, no randomness."""

from __future__ import annotations

from tidegate.control.costwatch import CostWatch
from tidegate.control.knowledge import Knowledge
from tidegate.domain import Assessment, Decision, Observation, QosReading, Reason, Receipt
from tidegate.domain.policy import Policy
from tidegate.monitor import qos
from tidegate.monitor.quality import distrust
from tidegate.monitor.workload import WorkloadMemory, evaluate, learn
from tidegate.planning.capacity import CapacityPlanner
from tidegate.planning.guards import GuardContext, guard
from tidegate.planning.mestream import MeStreamPlanner
from tidegate.planning.mpc_planner import MpcPlanner
from tidegate.planning.planner import Known, Plan, Planner, Situation
from tidegate.planning.tuning import advise

_MOST_ABSENT = 64


class Controller:
    """Steps from observation to decision. Its whole state is `knowledge`, which can be saved and given to another.

    The same observations give the same decisions, on any machine.
    """

    def __init__(self, policy: Policy, knowledge: Knowledge | None = None) -> None:
        self.policy = policy
        self.knowledge = knowledge or Knowledge()
        self._planner = planner_of(policy, self.knowledge)
        self._costs = CostWatch(self.knowledge.costs)

    def step(self, observation: Observation) -> Decision:
        """Monitor, plan, guard, and say what would do where nothing can be done."""
        self.knowledge.step += 1
        known, abnormal = self._known(observation)
        situation = Situation(observation.time_s, known, observation.pool, self.policy, observation.hosts)
        plan = self._planner.plan(situation)
        limited = frozenset(sample.name for sample in observation.applications if sample.limited)
        context = GuardContext(observation.time_s, observation.pool, self.policy, self.knowledge.guards, limited)
        actions, held = guard(plan.proposals, context)
        reasons = plan.reasons + tuple(
            proposal.reason for proposal in plan.proposals if proposal.reason not in plan.reasons
        )
        readings, late = self._qos(observation)
        return Decision(
            step=self.knowledge.step,
            time_s=observation.time_s,
            actions=actions,
            held=held,
            reasons=reasons or (Reason("hold", "nothing to do"),),
            assessments=_assessments(situation, plan),
            qos=readings,
            set_aside=abnormal,
            advice=advise(situation, actions, held, late, self.knowledge.tuning),
        )

    def learn(self, receipt: Receipt) -> None:
        """Take in what became of a decision: what was refused is not asked for again."""
        self.knowledge.operators.learn(receipt)

    def _known(self, observation: Observation) -> tuple[tuple[Known, ...], tuple[Reason, ...]]:
        """Learn from every application; those that are watched only are left out of the plan."""
        known = []
        abnormal: list[Reason] = []
        for seen in observation.applications:
            memory = self.knowledge.workloads.setdefault(seen.name, WorkloadMemory())
            sample, set_aside = self._costs.sift(seen, memory, observation.pool)
            abnormal += set_aside
            learn(memory, sample, observation.pool, observation.time_s, self.policy.capacity)
            if self.policy.ignores(sample.name) or sample.bounded:
                continue
            doubt = distrust(sample, memory, observation.time_s, self.policy.guards.max_age_s)
            workload = evaluate(memory, sample, observation.time_s, self.policy.capacity)
            known.append(Known(sample, workload, doubt))
        self._forget({seen.name for seen in observation.applications})
        return tuple(known), tuple(abnormal)

    def _forget(self, present: set[str]) -> None:
        """Of the applications that are not there, only so many are remembered, the newest."""
        workloads = self.knowledge.workloads
        absent = [name for name in workloads if name not in present]
        for name in absent[: max(0, len(absent) - _MOST_ABSENT)]:
            del workloads[name]
            self.knowledge.costs.pop(name, None)

    def _qos(self, observation: Observation) -> tuple[tuple[QosReading, ...], frozenset[str]]:
        """The policy's rows and graphs with the latency objectives that are missed, and the applications that do so."""
        readings: list[QosReading] = []
        late = set()
        remembered, self.knowledge.qos = self.knowledge.qos, {}
        for sample in observation.applications:
            if sample.bounded:
                continue
            memory = self.knowledge.qos[sample.name] = remembered.get(sample.name, qos.QosMemory())
            wanted = qos.wanted_of(self.policy, sample.name)
            qos.observe(memory, sample, wanted, observation.time_s)
            objective, *others = (qos.evaluate(memory, sample.name, one) for one in wanted)
            if objective.met is False:
                late.add(sample.name)
                readings.append(objective)
            readings += others
        return tuple(readings), frozenset(late)


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
