"""The Region Manager as a proposer: relieves overloaded hosts, keeps spare room, empties hosts that are not needed.

It runs on one host of the region and sees only the region's hosts. Everything it proposes needs the centre, so all of
it becomes requests.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from tidegate.domain import (
    AddHost,
    FleetApplication,
    FleetHost,
    FleetSample,
    HostState,
    MoveApplication,
    Proposal,
    Reason,
    RemoveHost,
)
from tidegate.evaluate.evaluation import Evaluation
from tidegate.managers.bestfit import HostView, Seating
from tidegate.plan.planner import Plan, Proposer


@dataclass(frozen=True, slots=True)
class ReliefRule:
    """How full hosts get, how much room stays free, and how fast the region gives up a host."""

    region: str
    fill: float = 0.8
    """Busy share up to which applications are placed on a host."""
    hot: float = 0.95
    """Busy share above which a host is relieved."""
    spare: float = 0.2
    """Room kept free, in hosts. It bridges the time that a new host takes to start."""
    margin: float = 0.2
    """Additional room, in hosts, before a host is emptied."""
    least_hosts: int = 1
    most_applications: int = 8
    """Maximum number of applications on one host."""
    cool_down_s: float = 60.0
    """Minimum time between a change of the number of hosts and the next emptying; also the memory of the usual load."""


@dataclass(slots=True)
class RegionMemory:
    hosts: int = 0
    changed_s: float | None = None
    """When the number of hosts last changed."""
    measured: dict[str, float] = field(default_factory=dict)
    """By application: the need last measured. While it moves, and for a while afterwards, nothing is measured."""
    usual: dict[str, float] = field(default_factory=dict)
    """By application: slots, as an exponential mean over the cool-down."""
    watched_s: float | None = None


class RegionHosts(Proposer):
    """If a host is overloaded, an application moves; if the region is overloaded, a host is requested.

    A move takes seconds, so it follows the current load. A host takes minutes to start and to empty, so the number of
    hosts follows the usual load: one that came and went for the noise of a minute would only cause moves. There are
    never fewer hosts than the current load fills.
    """

    name = "region"

    def __init__(self, rule: ReliefRule) -> None:
        self.memory: RegionMemory = RegionMemory()
        self._rule = rule

    def watch(self, evaluation: Evaluation) -> None:
        hosts = len(_staying(evaluation.fleet)) if evaluation.fleet is not None else 0
        if hosts != self.memory.hosts:
            self.memory.changed_s = evaluation.time_s if self.memory.hosts else None
            self.memory.hosts = hosts
        if evaluation.fleet is not None:
            self._learn_usual(evaluation.fleet, evaluation.time_s)

    def _learn_usual(self, fleet: FleetSample, now_s: float) -> None:
        """`usual ← w·usual + (1 − w)·now`, w = exp(−Δt ÷ cool-down). A new application starts with its load."""
        memory = self.memory
        gap_s = 0.0 if memory.watched_s is None else max(now_s - memory.watched_s, 0.0)
        keep = math.exp(-gap_s / self._rule.cool_down_s) if self._rule.cool_down_s > 0 else 0.0
        memory.measured = {
            one.name: one.need if one.load_slots is not None else memory.measured[one.name]
            for one in fleet.applications
            if one.load_slots is not None or one.name in memory.measured
        }
        memory.usual = {
            one.name: keep * memory.usual.get(one.name, self._need(one)) + (1.0 - keep) * self._need(one)
            for one in fleet.applications
        }
        memory.watched_s = now_s

    def _need(self, application: FleetApplication) -> float:
        return self.memory.measured.get(application.name, application.need)

    def propose(self, evaluation: Evaluation) -> Plan:
        fleet, rule = evaluation.fleet, self._rule
        hosts = _staying(fleet) if fleet is not None else []
        if fleet is None or not hosts:
            return Plan()
        unit = max(host.slots for host in hosts)
        views = _views(fleet, hosts, unit, rule.most_applications)
        now = {one.name: self._need(one) / unit for one in fleet.applications}
        relief = self._relieve(Seating(views, now))
        usual = {name: self.memory.usual.get(name, need * unit) / unit for name, need in now.items()}
        busy = sum(now.values())
        needed = self._needed(now, usual, rule.spare)
        here = len(hosts)
        state = f"{rule.region}: {here} hosts, {busy / (sum(host.slots for host in hosts) / unit):.0%} busy"
        if needed > here:
            load = f"the usual load is {sum(usual.values()):.1f} hosts ÷ {rule.fill:.0%} + {rule.spare:g} spare"
            load += f", now {busy:.1f}"
            seats = f"{len(now)} applications with at most {rule.most_applications} per host"
            reason = Reason("more-hosts", f"{rule.region} needs {needed} hosts and has {here}: {load}, {seats}")
            more = [AddHost(f"{rule.region}+{number + 1}", rule.region) for number in range(needed - here)]
            growth = [Proposal(action, reason, score=float(needed - here), urgent=busy > here) for action in more]
            return Plan((*relief, *growth))
        rested = self.memory.changed_s is None or evaluation.time_s - self.memory.changed_s >= rule.cool_down_s
        if relief or not rested or any(host.state is not HostState.READY for host in hosts):
            return Plan(tuple(relief), (Reason("hold-region", f"{state}, {needed} needed"),))
        if self._needed(now, usual, rule.spare + rule.margin) >= here:
            return Plan(reasons=(Reason("hold-region", f"{state}, {needed} needed"),))
        emptied = self._empty_one(Seating(views, usual))
        return Plan(tuple(emptied), (Reason("hold-region", f"{state}, {needed} needed"),))

    def _needed(self, now: Mapping[str, float], usual: Mapping[str, float], spare: float) -> int:
        """Hosts for the usual load with `spare` hosts of free room, for the current load, and for every application."""
        by_usual = math.ceil(sum(usual.values()) / self._rule.fill + spare - 1e-9)
        by_now = math.ceil(sum(now.values()) - 1e-9)
        seats = math.ceil(len(now) / self._rule.most_applications)
        return max(self._rule.least_hosts, by_usual, by_now, seats)

    def _relieve(self, seating: Seating) -> list[Proposal]:
        """Move one application from every overloaded host, if another host has room for it."""
        found = []
        for name, host in seating.hosts.items():
            load = seating.load[name]
            if load <= self._rule.hot * host.cores:
                continue
            excess, use = load - self._rule.fill * host.cores, seating.use
            movable = {one: to for one in seating.counts[name] if (to := seating.find(one, self._rule.fill, (name,)))}
            if not movable:
                continue
            # The smallest application that removes the excess; if none does, the largest one.
            chosen = min(
                movable, key=lambda one: (use[one] < excess, use[one] if use[one] >= excess else -use[one], one)
            )
            text = f"{name} is {load / host.cores:.0%} busy: moving {chosen} to {movable[chosen]}"
            seating.remove(chosen, name)
            seating.add(chosen, movable[chosen])
            found.append(
                Proposal(
                    MoveApplication(chosen, movable[chosen]),
                    Reason("relieve", text),
                    score=load / host.cores,
                    urgent=load > host.cores,
                )
            )
        return found

    def _empty_one(self, seating: Seating) -> list[Proposal]:
        """Empty the host with the fewest applications whose load fits elsewhere. Once it is empty, remove it."""
        order = sorted(seating.hosts, key=lambda host: (len(seating.counts[host]), seating.load[host], host))
        chosen = next((host for host in order if seating.can_empty(host, self._rule.fill)), None)
        if chosen is None:
            return []
        if not seating.counts[chosen]:
            reason = Reason("spare-host", f"removing {chosen}: it is empty, and the other hosts can carry the load")
            return [Proposal(RemoveHost(chosen), reason, score=0.05)]
        found = []
        for one in sorted(seating.counts[chosen], key=lambda one: -seating.use[one]):
            target = seating.find(one, self._rule.fill, (chosen,))
            if target is not None:
                seating.remove(one, chosen)
                seating.add(one, target)
                reason = Reason("empty-host", f"moving {one} to {target}, so that {chosen} can be removed")
                found.append(Proposal(MoveApplication(one, target), reason, score=0.05))
        return found


def _staying(fleet: FleetSample) -> list[FleetHost]:
    return [host for host in fleet.hosts if not host.leaving and host.state is not HostState.LOST]


def _views(fleet: FleetSample, hosts: list[FleetHost], unit: int, seats: int) -> list[HostView]:
    """Views in which the largest host has one core, and an application takes one seat."""
    return [
        HostView(
            host.name,
            host.slots / unit,
            seats,
            host.state is HostState.READY,
            {one.name: 1 for one in fleet.on.get(host.name, ())},
        )
        for host in hosts
    ]
