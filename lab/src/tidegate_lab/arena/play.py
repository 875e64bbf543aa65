"""One run: a load, a plant, and a controller, or none."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tidegate.adapters.sim import SimCluster
from tidegate.control.controller import Controller
from tidegate.domain import Action, ScaleExecutors, Targets
from tidegate.evaluate.forecast.arrivals import ArrivalForecaster
from tidegate.load import Timeline as Arrivals
from tidegate_lab.arena.loads import ArenaLoad
from tidegate_lab.arena.rivals.rival import Glance, Rival
from tidegate_lab.arena.setting import APPLICATION, Setting

BUCKETS = 280
"""Points of a timeline."""
_MOST_WAITING = 4096
"""Rows that still wait at the end enter the distribution as at most this many samples."""
_LONGEST_BACK_OFF_S = 60.0


@dataclass(frozen=True, slots=True)
class Change:
    """A request to change the size of the pool."""

    time_s: float
    executors: int
    why: str


@dataclass(frozen=True)
class Timeline:
    """A run in a few hundred points."""

    time_s: list[float]
    rows_per_s: list[float]
    executors: list[float]
    """Registered executors, averaged over a bucket."""
    latency_s: list[float]
    """Latency of the row that waited longest, by the time of its commit."""


@dataclass(frozen=True)
class Run:
    """The outcome of one run."""

    rival: str
    load: str
    seed: int
    late: float
    executor_seconds: float
    p99_s: float
    changes: int
    duration_s: float
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Settings that differ from the defaults."""
    journal: tuple[Change, ...] = ()
    failed: tuple[tuple[float, str], ...] = ()
    """Controller steps that ended in an error."""
    sizes: tuple[tuple[float, int], ...] = ()
    """Registered executors, from these times on."""
    timeline: Timeline | None = None
    rows_lost: int | None = None
    """Counted in the output. The simulator has none."""
    rows_doubled: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """What `--json` prints. The page has the rest."""
        names = ("rival", "load", "seed", "late", "executor_seconds", "p99_s", "changes")
        counted = ("rows_lost", "rows_doubled") if self.rows_lost is not None else ()
        return {name: getattr(self, name) for name in (*names, *counted)}


def start_size(setting: Setting, load: ArenaLoad) -> int:
    """Every run starts with the executors that the first value of the load needs."""
    return setting.executors_for(float(load.rates(setting.peak_rows_per_s)[0]))


class Stage:
    """A plant with a load, observed while it runs."""

    def __init__(self, setting: Setting, load: ArenaLoad, executors: int) -> None:
        self.setting, self.load = setting, load
        profile = load.profile(setting.peak_rows_per_s)
        self.cluster: SimCluster = setting.cluster(profile, executors, load.seed)
        self._arrivals = Arrivals(profile)
        self._arrivals.rows_by(load.duration_s)
        self.journal: list[Change] = []
        self.failed: list[tuple[float, str]] = []
        self.sizes: list[tuple[float, int]] = [(0.0, executors)]
        self._spread_over: tuple[str, ...] = self.cluster.executors.ids

    def note(self, actions: Iterable[Action], why: str) -> None:
        for action in actions:
            if isinstance(action, ScaleExecutors) and action.target != self.cluster.executors.requested:
                self.journal.append(Change(self.cluster.now_s, action.target, why))

    def look(self) -> None:
        there = len(self.cluster.executors.speeds)
        if there != self.sizes[-1][1]:
            self.sizes.append((self.cluster.now_s, there))

    def spread_state(self) -> Targets:
        """Spread the state evenly over all executors, as Spark does when it does not wait for locality."""
        ids = self.cluster.executors.ids
        if not self.setting.model.stateful or ids == self._spread_over or not ids:
            return Targets()
        self._spread_over = ids
        tasks = self.setting.max_executors * self.setting.slots_per_executor
        return Targets(state={APPLICATION: {number: ids[number % len(ids)] for number in range(tasks)}})

    def run(self, rival: str, settings: Mapping[str, Any] | None = None) -> Run:
        """The run up to now. Called at its end."""
        (gate,) = self.cluster.gates
        now_s, bound_s = self.cluster.now_s, self.setting.objective_s
        arrived = gate.rows_arrived(now_s)
        latencies = gate.ledger.latencies
        waiting = arrived - gate.ledger.rows_done
        if waiting:
            picked = min(waiting, _MOST_WAITING)
            ranks = gate.ledger.rows_done + (np.arange(picked) + 0.5) * waiting / picked
            latencies = latencies.add(now_s - self._arrivals.times_of(ranks + 0.5), waiting / picked)
        return Run(
            rival=rival,
            load=self.load.name,
            seed=self.load.seed,
            late=gate.ledger.late_rows(bound_s, now_s) / arrived if arrived else 0.0,
            executor_seconds=self.cluster.executors.seconds,
            p99_s=latencies.quantile_s(0.99) or 0.0,
            changes=len(self.journal),
            duration_s=now_s,
            settings=dict(settings or {}),
            journal=tuple(self.journal),
            failed=tuple(self.failed),
            sizes=tuple(self.sizes),
            timeline=self._timeline(),
        )

    def _timeline(self) -> Timeline:
        (gate,) = self.cluster.gates
        end_s = self.cluster.now_s
        edges = np.linspace(0.0, end_s, BUCKETS + 1)
        arrived = np.array([gate.rows_arrived(at_s) for at_s in edges])
        since = np.array([at_s for at_s, _ in self.sizes])
        counts = np.array([count for _, count in self.sizes], dtype=np.float64)
        held = np.concatenate([[0.0], np.cumsum(counts[:-1] * np.diff(since))])
        at = np.searchsorted(since, edges, side="right") - 1
        spent = held[at] + counts[at] * (edges - since[at])
        worst = np.zeros(BUCKETS)
        commits = gate.commits
        if commits:
            first = np.array([made.first for made in commits])
            done_s = np.array([made.time_s for made in commits])
            came_s = self._arrivals.times_of(first + 1.0)
            np.maximum.at(worst, np.minimum(BUCKETS - 1, np.searchsorted(edges, done_s) - 1), done_s - came_s)
        width_s = end_s / BUCKETS
        return Timeline(
            time_s=((edges[:-1] + edges[1:]) / 2).round(1).tolist(),
            rows_per_s=(np.diff(arrived) / width_s).round(1).tolist(),
            executors=(np.diff(spent) / width_s).round(3).tolist(),
            latency_s=worst.round(2).tolist(),
        )


def play_rival(setting: Setting, load: ArenaLoad, rival: Rival, settings: Mapping[str, Any] | None = None) -> Run:
    """The rival decides once per period."""
    stage = Stage(setting, load, start_size(setting, load))
    cluster, bounds = stage.cluster, (1, setting.max_executors)
    period_s = min(rival.period_s, 15.0)  # changes of the pool are recorded at least this often
    time_s, targets = 0.0, Targets()
    while time_s <= load.duration_s:
        cluster.advance_to(time_s)
        plan = rival.plan(Glance(cluster.observe(), bounds))
        actions = [proposal.action for proposal in plan.proposals]
        if actions:
            stage.note(actions, "; ".join(proposal.reason.text for proposal in plan.proposals))
            targets = targets.after(actions)
            cluster.converge(targets)
        if setting.model.stateful:
            cluster.converge(stage.spread_state())
        stage.look()
        time_s += period_s
    cluster.advance_to(load.duration_s)
    stage.look()
    return stage.run(rival.name, settings)


def play_tidegate(
    setting: Setting, load: ArenaLoad, name: str = "tidegate", forecaster: ArrivalForecaster | None = None
) -> Run:
    """The product's controller with its default policy: only the objective and the bounds are set.

    Another `forecaster` shows what forecasts are worth.
    """
    stage = Stage(setting, load, start_size(setting, load))
    cluster, policy = stage.cluster, setting.policy()
    controller = Controller(policy)
    if forecaster is not None:
        controller.knowledge.evaluation.arrivals = forecaster
    time_s, failures = 0.0, 0
    while time_s <= load.duration_s:
        cluster.advance_to(time_s)
        observation = cluster.observe()
        stage.look()
        time_s += policy.interval_s
        try:
            decision = controller.step(observation)
        except Exception as error:  # like the product's loop: the error is recorded, and the next step runs later
            failures += 1
            stage.failed.append((cluster.now_s, f"{type(error).__name__}: {error}"))
            time_s += min(policy.interval_s * 2.0**failures, _LONGEST_BACK_OFF_S) - policy.interval_s
            continue
        failures = 0
        if decision.actions:
            stage.note(decision.actions, "; ".join(reason.text for reason in decision.reasons))
        receipt = cluster.converge(controller.knowledge.targets.after(decision.actions))
        controller.learn(decision, receipt)
    cluster.advance_to(load.duration_s)
    stage.look()
    return stage.run(name)


def play_sizes(setting: Setting, load: ArenaLoad, asked: Iterable[tuple[float, int]], start: int, name: str) -> Run:
    """A pool whose size follows a list of requests, without a controller."""
    stage = Stage(setting, load, start)
    for time_s, executors in asked:
        _walk(stage, min(time_s, load.duration_s))
        action = ScaleExecutors(executors)
        stage.note([action], "as planned")
        stage.cluster.converge(Targets(executors=executors))
    _walk(stage, load.duration_s)
    return stage.run(name)


def _walk(stage: Stage, until_s: float) -> None:
    """Advance to this time, recording the pool whenever an executor may have come or gone."""
    cluster = stage.cluster
    stage.look()
    while cluster.now_s < until_s - 1e-9:
        if cluster.executors.settled and not stage.setting.model.stateful:
            cluster.advance_to(until_s)
        else:
            cluster.advance_to(min(until_s, cluster.now_s + 1.0))
            cluster.converge(stage.spread_state())
        stage.look()
