"""Bottlenecks planted in random applications: does the controller identify the operator and the kind, and fix it?

A case is a simulated query of 3 to 12 operators. *Planted*: every operator keeps a batch about equally busy but one,
which has too few tasks for its compute or its communication, so that the objective is missed; with enough tasks it is
met.
*Balanced*: the same without the planted operator. The objective is met, and any rescale is a mistake.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from tidegate.adapters.sim.application import SimApplication, SimOperator
from tidegate.adapters.sim.cluster import SimCluster
from tidegate.control.controller import Controller
from tidegate.control.journal import Entry, MemoryJournal
from tidegate.control.runner import Runner
from tidegate.domain.policy import Policy
from tidegate.load import Constant, Poisson
from tidegate.plan.planner import Planner

_WATCHED_S = 180.0
_JUDGED_S = 40.0  # the end of a run, over which its objective is evaluated
_INTERVAL_S = 1.0
_NAMED = re.compile(r"(\S+) is the bottleneck \((compute|communication)")

Shape = Literal["planted", "balanced"]


@dataclass(frozen=True, slots=True)
class Case:
    """One random application with its planted bottleneck, if any."""

    application: SimApplication
    objective_s: float
    executors: int
    slots_per_executor: int
    operator: str | None = None
    kind: str | None = None

    @property
    def policy(self) -> Policy:
        return Policy.model_validate({"objective": {"latency_s": self.objective_s}})


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the controller did with a case, according to its journal."""

    named: str | None
    """The bottleneck of the first rescale, or None if there was no rescale."""
    kind: str | None
    reconfigurations: int
    late_share: float
    """Share of rows over the objective in the last `_JUDGED_S` seconds."""

    @property
    def kept(self) -> bool:
        return self.late_share <= 0.01


def draw_case(shape: Shape, seed: int) -> Case:
    """Draw a case from its seed: graph, selectivities, costs, communication, parallelism, pool and load."""
    random = np.random.default_rng(seed)
    slots_per_executor, executors = int(random.integers(2, 5)), int(random.integers(2, 5))
    slots = slots_per_executor * executors
    count = int(random.integers(3, 13))
    rate = float(random.integers(100, 2000))
    overhead_s = float(random.uniform(0.05, 0.15))
    stage_s = float(random.uniform(0.3, 0.6)) / count
    graph = _draw_graph(random, count)
    tasks = [int(random.integers(1, slots + 1)) for _ in range(count)]
    times_s = [stage_s * float(random.uniform(0.7, 1.3)) for _ in range(count)]
    waiting = [float(random.uniform(0, 1)) if place else 0.0 for place in range(count)]
    best_s = _latency_s(times_s, overhead_s)
    if shape == "balanced":
        objective_s = best_s * float(random.uniform(1.6, 3.0))
        built = _build(graph, list(zip(tasks, times_s, waiting, strict=True)), rate, overhead_s, seed)
        return Case(built, objective_s, executors, slots_per_executor)
    kind = "compute" if random.random() < 0.5 else "communication"
    place = int(random.integers(0 if kind == "compute" else 1, count))
    tasks[place] = int(random.integers(1, max(2, slots // 4 + 1)))
    times_s[place] = max(0.35, stage_s * float(random.uniform(2.5, 8.0)))
    waiting[place] = 0.0 if not place else float(random.uniform(*((0, 0.4) if kind == "compute" else (0.6, 1.0))))
    slow_s = _latency_s(times_s, overhead_s)
    mended = list(times_s)
    mended[place] *= tasks[place] / slots
    good_s = _latency_s(mended, overhead_s)
    objective_s = good_s + (min(slow_s, 3 * good_s) - good_s) * float(random.uniform(0.3, 0.9))
    built = _build(graph, list(zip(tasks, times_s, waiting, strict=True)), rate, overhead_s, seed)
    return Case(built, objective_s, executors, slots_per_executor, graph[place].name, kind)


def run_case(case: Case, seed: int, watched_s: float = _WATCHED_S) -> Verdict:
    """Run the case under the controller and grade the result."""
    cluster = SimCluster([case.application], case.executors, case.slots_per_executor, noise=0.06, seed=seed)
    entries = steer(cluster, case.policy, watched_s)
    reasons = [reason for entry in entries if entry.decision for reason in entry.decision.reasons]
    rescale = next((reason.text for reason in reasons if reason.code.startswith("rescale-")), None)
    found = _NAMED.search(rescale) if rescale is not None else None
    gate = cluster.gates[0]
    judged = [commit for commit in gate.commits if commit.time_s > watched_s - _JUDGED_S]
    late = sum(
        max(0, min(commit.end, gate.rows_arrived(commit.time_s - case.objective_s)) - commit.first) for commit in judged
    )
    rows = sum(commit.end - commit.first for commit in judged)
    return Verdict(
        named=found.group(1) if found else None,
        kind=found.group(2) if found else None,
        reconfigurations=gate.restarts,
        late_share=late / rows if rows else 1.0,
    )


def steer(cluster: SimCluster, policy: Policy, until_s: float, planner: Planner | None = None) -> Sequence[Entry]:
    """Run a closed loop under the controller, or under `planner`. Returns its journal.

    The cluster is not restored at the end, because that would count as another restart.
    """
    journal = MemoryJournal()
    runner = Runner(cluster, Controller(policy, planner=planner), cluster.clock, journal, journal)
    while cluster.now_s < until_s:
        runner.tick()
        cluster.advance_to(cluster.now_s + policy.interval_s)
    return journal.entries


def _draw_graph(random: np.random.Generator, count: int) -> list[SimOperator]:
    """Draw operators that read one or two of the three before them, without costs."""
    operators = []
    for place in range(count):
        nearest = [f"op{earlier}" for earlier in range(max(0, place - 3), place)]
        inputs = tuple(random.choice(nearest, size=min(len(nearest), int(random.integers(1, 3))), replace=False))
        selectivity = float(random.uniform(0.5, 1.2))
        operators.append(
            SimOperator(f"op{place}", 0.0, selectivity=selectivity, inputs=tuple(map(str, inputs)) if place else None)
        )
    return operators


def _build(
    graph: list[SimOperator], costs: list[tuple[int, float, float]], rate: float, overhead_s: float, seed: int
) -> SimApplication:
    """Give every operator its tasks, the time that its stage then takes for a batch of a second, and the share of it
    that is communication."""
    rows: dict[str, float] = {}
    operators = []
    for operator, (count, time_s, share) in zip(graph, costs, strict=True):
        taken = sum(rows[name] for name in operator.inputs) if operator.inputs else rate * _INTERVAL_S
        rows[operator.name] = taken * operator.selectivity
        row_s = time_s * count / taken
        operators.append(
            replace(
                operator,
                parallelism=count,
                cost_s_per_row=row_s * (1 - share),
                communication_s_per_row=row_s * share,
                bytes_per_row=100.0,
            )
        )
    load = Poisson(of=Constant(rate=rate), seed=seed)
    return SimApplication("app", load, _INTERVAL_S, overhead_s, operators=tuple(operators))


def _latency_s(times_s: list[float], overhead_s: float) -> float:
    """Return the latency of the oldest row of a batch in steady state. Stage times grow with the batch."""
    load = sum(times_s) / _INTERVAL_S
    batch_s = overhead_s + load * _INTERVAL_S
    if batch_s > _INTERVAL_S:
        batch_s = overhead_s / (1 - load) if load < 1 else 60.0
    return max(_INTERVAL_S, batch_s) + batch_s
