"""Conformance checks for extensions: what Tidegate relies on, one check per extension point.

A check raises an `AssertionError` that says what is wrong, so a test is one line: `check_proposer(MyProposer)`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from tidegate.domain import (
    Action,
    ApplicationSample,
    ArrivalSample,
    BatchSample,
    Decision,
    ExecutorPool,
    ExecutorSample,
    LatencySample,
    Observation,
    OperatorSample,
    Reason,
    Receipt,
    ScaleExecutors,
    SetAdmission,
    SetParallelism,
)
from tidegate.domain.codec import from_tree, to_tree
from tidegate.domain.policy import Policy
from tidegate.evaluate.evaluation import Evaluation
from tidegate.evaluate.evaluator import EvaluationMemory, Evaluator
from tidegate.plan.guards import Guard, GuardContext, GuardMemory
from tidegate.plan.planner import Plan, Planner, Proposer

if TYPE_CHECKING:
    from tidegate.evaluate.forecast import Forecaster
    from tidegate.placement import Scheduler

_STEPS = 40


def evaluations(policy: Policy | None = None, load: Callable[[int], int] = lambda step: 200) -> Iterator[Evaluation]:
    """A job of two operators on two executors, evaluated once a second; `load` gives the rows of each second.

    >>> steps = list(evaluations(load=lambda step: 100 + 10 * step))
    >>> len(steps), round(float(steps[-1].loads.row_s[0]), 3)
    (40, 0.005)
    """
    evaluator = Evaluator(policy or Policy(), EvaluationMemory())
    arrived = 0
    for step in range(_STEPS):
        arrived += load(step)
        yield evaluator.evaluate(_observation(step, load(step), arrived))


def check_proposer(make: Callable[[], Proposer]) -> None:
    """A proposer has a name and a memory that can be saved. `propose` has no side effects."""
    proposer = make()
    assert isinstance(proposer.name, str) and proposer.name, "a proposer needs a name"  # noqa: PT018
    for loaded in (lambda step: 200, lambda step: 200 + 80 * step, lambda step: 0):
        proposer, silent = make(), make()
        for evaluation in evaluations(load=loaded):
            proposer.watch(evaluation)
            silent.watch(evaluation)
            before = _saved(proposer)
            plan = proposer.propose(evaluation)
            _check_plan(plan)
            assert _saved(proposer) == before, "propose must not change the memory; only watch and learn may"
            assert proposer.propose(evaluation) == plan, "propose must return the same plan when it is called again"
        assert _saved(proposer) == _saved(silent), "a proposal that was not carried out must not change the memory"
        proposer.learn(_decision(plan), Receipt())
        if proposer.memory is not None:
            from_tree(type(proposer.memory), to_tree(proposer.memory))


def check_controller(make: Callable[[], Planner]) -> None:
    """A controller returns a plan for every evaluation, and the same plans for the same evaluations."""
    for loaded in (lambda step: 200, lambda step: 200 + 80 * step):
        first, again = make(), make()
        for evaluation in evaluations(load=loaded):
            plan = first.plan(evaluation)
            _check_plan(plan)
            assert again.plan(evaluation) == plan, "the same evaluations must lead to the same plans"


def check_guard(guard: Guard) -> None:
    """A guard returns an action or None, and a reason whenever that is not the proposed action."""
    pool = _observation(0, 100, 100).pool
    for action in (
        ScaleExecutors(1),
        ScaleExecutors(9),
        SetAdmission("words", 10),
        SetParallelism("words", "count", 4),
    ):
        memory = GuardMemory()
        allowed, reason = guard(action, GuardContext(1e6, pool, Policy(), memory))
        assert allowed is None or isinstance(allowed, Action), f"a guard returns an action or None, not {allowed!r}"
        assert allowed == action or isinstance(reason, Reason), "a guard that holds or changes an action must say why"
        assert memory == GuardMemory(), "a guard must not change the memory: the action may only be recommended"


def check_forecaster(make: Callable[[int, int], Forecaster]) -> None:
    """A forecaster accepts missing samples and is deterministic. Shapes and intervals are checked too."""
    first, again = make(3, 4), make(3, 4)
    for step in range(120):
        values = np.array([100.0 + step, 50.0, np.nan if step % 7 == 0 else 10.0 * np.sin(step / 5)])
        first.observe(values)
        again.observe(values)
    found, repeated = first.forecast(), again.forecast()
    for name in ("mean", "lower", "upper"):
        part = getattr(found, name)
        assert part.shape == (3, 4), f"{name} must have one row per stream and one column per step, not {part.shape}"
        assert np.array_equal(part, getattr(repeated, name)), "the same samples must lead to the same forecasts"
    assert (found.lower <= found.upper).all(), "the lower edge must not exceed the upper edge"
    assert found.trusted.shape == (3,), "trusted must have one flag per stream"


def check_scheduler(make: Callable[[], Scheduler]) -> None:
    """A scheduler gives every task a host of the problem, and the result depends only on the random generator."""
    from tidegate.placement import Problem

    problem = Problem.from_arrays(np.full((6, 1, 1), 200.0), np.full((6, 1), 500.0))
    found = make().schedule(problem, np.random.default_rng(3))
    again = make().schedule(problem, np.random.default_rng(3))
    names = {host.name for host in problem.hosts}
    assert len(found.assignment) == 6, "every task must have a host"
    assert set(found.assignment.values()) <= names, "every task must run on a host of the problem"
    assert found.assignment == again.assignment, "all randomness must come from the generator"


def check_provider(provider: Any, host: Any) -> None:
    """A provider starts a host, reports that it is alive, and stops it. Stopping is idempotent."""
    handle = provider.start(host)
    assert isinstance(handle, str) and handle, "a handle must be a non-empty text that identifies the host"  # noqa: PT018
    assert provider.alive(handle) is not False, "a host that was just started must not be reported as gone"
    provider.stop(handle)
    provider.stop(handle)
    provider.abandon(host)  # called after a failed start; there may be nothing to remove
    assert provider.alive(handle) is not True, "a host that was stopped must not be reported as alive"


def check_command(command: Callable[..., Any]) -> None:
    """A command has parameters that Typer understands, and help with an example."""
    import typer

    app = typer.Typer(add_completion=False)
    app.command()(command)
    told = typer.main.get_command(app).help or ""
    assert told.partition("Example:")[0].strip(), "the docstring must say what the command does"
    assert "Example: tidegate " in told, "the docstring ends with an example: Example: tidegate …"


def _check_plan(plan: Plan) -> None:
    assert isinstance(plan, Plan), f"the result must be a Plan, not {plan!r}"
    for proposal in plan.proposals:
        assert isinstance(proposal.action, Action), f"{proposal.action!r} is not an action"
        assert proposal.reason.code and proposal.reason.text, "every proposal must say why"  # noqa: PT018


def _saved(proposer: Proposer) -> Any:
    return None if proposer.memory is None else to_tree(proposer.memory)


def _decision(plan: Plan) -> Decision:
    actions = tuple(proposal.action for proposal in plan.proposals)
    return Decision(1, 1040.0, actions, (), plan.reasons or (Reason("hold", "nothing to do"),))


def _observation(step: int, rows: int, arrived: int) -> Observation:
    now_s = 1000.0 + step
    operators = (
        OperatorSample("split", 4, rows, 0.003 * rows, 0.003 * rows, 0.0, 0.001 * rows, rows),
        OperatorSample("count", 4, rows, 0.002 * rows, 0.002 * rows, 0.0, 0.001 * rows, rows, stateful=True),
    )
    latency = LatencySample(rows, 0.6, 0.9, 1.1, 1.2) if rows else None
    batch = BatchSample(step, now_s - 0.9, 0.5, rows, 0.005 * rows, 0.1, 0, latency, operators)
    sample = ApplicationSample(
        "words", (batch,), now_s - 0.4, 1.0, gated=True, restartable=True, arrival=ArrivalSample(now_s, arrived)
    )
    executors = tuple(ExecutorSample(str(number), "host", 2, 0, 0.0) for number in range(2))
    return Observation(now_s, (sample,), ExecutorPool(executors, 2, 2))
