"""Drives the simulated world to its targets: what each requires, what is refused and why, and how it is restored."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from tidegate.adapters.sim.faults import SlowStart
from tidegate.adapters.sim.gate import SimGate
from tidegate.adapters.sim.poolworld import PoolWorld
from tidegate.adapters.sim.restart import Knob
from tidegate.domain import (
    Action,
    ActionReceipt,
    AddHost,
    MoveApplication,
    MoveState,
    Outcome,
    Receipt,
    RemoveHost,
    ScaleExecutors,
    SetAdmission,
    SetBatchInterval,
    SetParallelism,
    SetShare,
    Targets,
)
from tidegate.domain.emptying import Emptying

_TAKEN_UP = {Outcome.DONE: True, Outcome.UNDER_WAY: True, Outcome.REFUSED: False, Outcome.FAILED: False}
Restarting = SetBatchInterval | SetParallelism


class Knobs:
    """All knobs of a simulated Spark context."""

    def __init__(self, world: PoolWorld) -> None:
        self._world = world
        self.turned = 0
        """Changes of the pool and restarts so far."""
        self._emptying = Emptying()
        self._wanted: tuple[Targets, tuple[Action, ...]] = (Targets(), ())
        """The last targets, and the same as actions. They stay the same between decisions."""

    def converge(self, targets: Targets) -> Receipt:
        """A receipt for every target that was acted on, is in progress or was refused; none for the others."""
        if targets is not self._wanted[0]:
            self._wanted = targets, targets.actions()
        receipts = [receipt for action in self._wanted[1] if (receipt := self._turn(action)) is not None]
        for name, places in targets.state.items():
            receipts += self._place_state(name, places)
        self._let_go(any(isinstance(answer.action, MoveState) and _TAKEN_UP[answer.outcome] for answer in receipts))
        return Receipt(tuple(receipts))

    def release(self) -> None:
        """Restore every knob to its original value. Executors and state stay, because the job may need them."""
        self._world.clear_shares()
        for gate in self._world.gates:
            gate.moves = {}
            before = gate.application
            if before.gated:
                gate.admission_rows = before.admission_rows
            plan, tasks = gate.restart, [operator.parallelism for operator in before.operators]
            if (plan.interval_s, plan.parallelism) != (before.interval_s, tasks):
                plan.forget()
                gate.ask_restart()

    def _turn(self, action: Action) -> ActionReceipt | None:
        match action:
            case ScaleExecutors():
                return self._scale(action)
            case SetShare():
                return self._share(action)
            case MoveState():
                return None  # all moves of an application are made together
            case MoveApplication() | AddHost() | RemoveHost():
                return ActionReceipt(action, Outcome.REFUSED, "there is one pool here, and no fleet")
        gate = self._world.by_name.get(action.application)
        if gate is None:
            return ActionReceipt(action, Outcome.REFUSED, f"no application named {action.application}")
        return self._admit(action, gate) if isinstance(action, SetAdmission) else self._replan(action, gate)

    def _scale(self, action: ScaleExecutors) -> ActionReceipt | None:
        executors = self._world.executors
        if executors.most is not None and action.target > executors.most:
            return ActionReceipt(action, Outcome.REFUSED, f"the cluster has room for {executors.most} executors")
        news = action.target != executors.requested
        if news:
            self.turned += 1
            self._request(action.target)
        if not executors.settled:
            return ActionReceipt(action, Outcome.UNDER_WAY, pause_s=0.0)
        return ActionReceipt(action, Outcome.DONE, pause_s=0.0) if news else None

    def _request(self, target: int) -> None:
        slow = self._world.fault_now(SlowStart)
        in_batch = [gate.name for gate in self._world.gates if gate.in_batch]
        self._world.executors.request(target, in_batch, slow.startup_s if slow else None, self._held())
        self._emptying = Emptying()
        self._world.follow_executors()

    def _held(self) -> Counter[str]:
        """The number of state partitions on each executor."""
        states = [gate.state for gate in self._world.gates if gate.state is not None]
        return Counter(executor for state in states for executor in state.where)

    def _let_go(self, moving: bool) -> None:
        """Stop retiring executors that hold no more state. If state is not being moved, stop all of them."""
        waiting = self._world.executors.emptying
        if not waiting:
            return
        held = self._held()
        patient = self._emptying.wait(sum(held[executor] for executor in waiting), moving)
        for executor in waiting:
            if not held[executor] or not patient:
                self._world.executors.let_go(executor)
        self._world.follow_executors()

    def _share(self, action: SetShare) -> ActionReceipt | None:
        world = self._world
        if not world.knows_group(action.group):
            return ActionReceipt(action, Outcome.REFUSED, f"no class or application named {action.group}")
        if world.shares.get(action.group) == action.share:
            return None
        world.set_share(action.group, action.share)
        return ActionReceipt(action, Outcome.DONE, "as a weight, without a restart", pause_s=0.0)

    def _admit(self, action: SetAdmission, gate: SimGate) -> ActionReceipt | None:
        if not gate.application.gated:
            return ActionReceipt(action, Outcome.REFUSED, f"the source of {gate.name} has no gate and takes no limit")
        if gate.admission_rows == action.rows_per_trigger:
            return None
        gate.admission_rows = action.rows_per_trigger
        return ActionReceipt(action, Outcome.DONE, "at the next trigger, without a restart", pause_s=0.0)

    def _replan(self, action: Restarting, gate: SimGate) -> ActionReceipt | None:
        """Plan the change for the next start of the query, and restart the query."""
        if (refusal := _refusal(action, gate)) is not None:
            return ActionReceipt(action, Outcome.REFUSED, refusal)
        plan, knob = gate.restart, _knob(action)
        match action:
            case SetBatchInterval():
                news = plan.interval_s != action.interval_s
                plan.interval_s = action.interval_s
            case SetParallelism():
                news = plan.plan_parallelism(action.operator, action.parallelism)
        if news:
            self.turned += 0 if gate.restarting else 1
            gate.ask_restart()
            plan.changing.add(knob)
        if gate.restarting and knob in plan.changing:
            pause_s = plan.pause_s(gate.parallelism, self._world.now_s)
            return ActionReceipt(action, Outcome.UNDER_WAY, pause_s=pause_s)
        if isinstance(action, SetParallelism) and not gate.restarting:
            in_force = gate.parallelism[plan.index_of(action.operator)]
            if in_force != action.parallelism:  # it was accepted silently and ignored, or superseded by another one
                note = f"{action.operator} runs with {in_force} tasks although {action.parallelism} were asked for"
                return ActionReceipt(action, Outcome.FAILED, note)
        return None

    def _place_state(self, name: str, places: Mapping[int, str]) -> Iterator[ActionReceipt]:
        """Possible moves are made between two batches. Until then they are under way."""
        gate, leaving = self._world.by_name.get(name), self._world.executors.emptying
        state = None if gate is None else gate.state
        moves: dict[int, str] = {}
        for partition, executor in places.items():
            if gate is None:
                refusal = f"no application named {name}"
                yield ActionReceipt(MoveState(name, partition, executor), Outcome.REFUSED, refusal)
            elif immovable := self._immovable(gate, partition, executor, leaving):
                yield ActionReceipt(MoveState(name, partition, executor), Outcome.REFUSED, immovable)
            elif state is not None and (not state.where or state.where[partition] != executor):
                moves[partition] = executor
                note, pause_s = "its state is loaded in the next batch", gate.application.state_reload_s
                outcome = Outcome.UNDER_WAY if gate.in_batch else Outcome.DONE
                yield ActionReceipt(MoveState(name, partition, executor), outcome, note, pause_s)
        if gate is not None:
            gate.ask_moves(moves)

    def _immovable(self, gate: SimGate, partition: int, executor: str, leaving: tuple[str, ...]) -> str | None:
        """Why this state partition cannot be moved to the executor, or None."""
        if gate.state is None:
            return f"{gate.name} has no state"
        if partition >= gate.state.count:
            return f"{gate.name} has {gate.state.count} state partitions"
        if executor not in self._world.executors.speeds:
            return f"no executor {executor} is registered"
        if executor in leaving:
            return f"executor {executor} is about to retire"
        return None


def _refusal(action: Restarting, gate: SimGate) -> str | None:
    """Why it cannot be done, or None."""
    if not gate.application.restartable:
        return f"{gate.name} cannot be restarted"
    if isinstance(action, SetParallelism):
        names = [operator.name for operator in gate.application.operators]
        if action.operator not in names:
            return f"{gate.name} has no operator {action.operator}"
    return None


def _knob(action: Restarting) -> Knob:
    match action:
        case SetBatchInterval():
            return ("interval",)
        case SetParallelism():
            return ("parallelism", action.operator)
