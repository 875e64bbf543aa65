"""Where applications run. Unplaced ones are placed by a scheduler; displaced ones return to their region one by one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tidegate.domain import (
    Decision,
    FleetApplication,
    FleetHost,
    FleetSample,
    HostState,
    MoveApplication,
    Proposal,
    Reason,
    Receipt,
)
from tidegate.evaluate.evaluation import Evaluation
from tidegate.fleet.plan.room import Room
from tidegate.placement import Host, Problem, Task, scheduler
from tidegate.plan.planner import Plan, Proposer

_SEED = 1  # the same fleet must get the same placement
_MOST_PLACED = 300
"""Applications placed in one step. Lost ones come before new ones."""
_MOST_SEARCHED = 48
"""Applications that a scheduler places in one region at once. If there are more, they are placed largest first."""
_MOST_SEARCHED_IN_ALL = 192
"""The same, of all regions together."""


@dataclass(frozen=True, slots=True)
class PlacingSettings:
    rule: str = "tidegate"
    """A scheduler of `tidegate schedule`."""
    fill: float = 0.8
    """Share of a host's slots that placement may use."""
    move_pause_s: float = 60.0
    """Minimum time between two moves that nobody requested."""


@dataclass(slots=True)
class PlacingMemory:
    moved_s: float | None = None
    """When an application was last moved, or when this proposer started."""


class Placing(Proposer):
    """Places new and lost applications at once, and moves displaced ones back home when there is room."""

    name = "placing"

    def __init__(self, settings: PlacingSettings | None = None) -> None:
        self.memory: PlacingMemory = PlacingMemory()
        self._settings = settings or PlacingSettings()
        self._now_s = 0.0

    def watch(self, evaluation: Evaluation) -> None:
        self._now_s = evaluation.time_s
        if self.memory.moved_s is None:
            self.memory.moved_s = evaluation.time_s

    def propose(self, evaluation: Evaluation) -> Plan:
        fleet = evaluation.fleet
        if fleet is None:
            return Plan()
        if not fleet.settled:
            return Plan(reasons=(Reason("hold-listening", "just started: waiting for an answer from every host"),))
        if fleet.ending:
            return Plan(reasons=(Reason("hold-ending", "the fleet is being stopped"),))
        homeless, waiting = _homeless(fleet)
        reasons = [Reason("hold-first-host", f"{name}: the first host of its region is starting") for name in waiting]
        hosts = [host for host in fleet.hosts if host.open]
        if homeless and not hosts:
            reasons.append(Reason("hold-no-host", f"{len(homeless)} applications are unplaced: no host is ready"))
        elif homeless:
            homeless.sort(key=lambda one: not one.ran)
            if len(homeless) > _MOST_PLACED:
                text = f"{len(homeless)} applications are unplaced: placing {_MOST_PLACED} in this step, the rest later"
                reasons.append(Reason("hold-many", text))
            return Plan(self._place(fleet, hosts, homeless[:_MOST_PLACED]), tuple(reasons))
        elif self.memory.moved_s is None or self._now_s - self.memory.moved_s >= self._settings.move_pause_s:
            found = self._bring_home(fleet)
            return Plan((found,) if found is not None else (), tuple(reasons))
        return Plan(reasons=tuple(reasons))

    def learn(self, decision: Decision, receipt: Receipt) -> None:
        if any(isinstance(action, MoveApplication) for action in decision.actions):
            self.memory.moved_s = self._now_s

    def _place(
        self, fleet: FleetSample, hosts: list[FleetHost], homeless: list[FleetApplication]
    ) -> tuple[Proposal, ...]:
        room = Room(fleet, self._settings.fill)
        for one in homeless:
            if one.assigned in room.free:  # it leaves its host, and its load goes with it
                room.take(str(one.assigned), -one.need)
        found = place(hosts, homeless, room.free, self._settings.rule)
        by_name = {one.name: one for one in homeless}
        return tuple(
            Proposal(MoveApplication(name, host), _placed(by_name[name], host, fleet)) for name, host in found.items()
        )

    def _bring_home(self, fleet: FleetSample) -> Proposal | None:
        """Move the largest displaced application back if its region has room again."""
        region_of = {host.name: host.region for host in fleet.hosts}
        away = [
            one
            for one in fleet.applications
            if one.host is not None and one.host == one.assigned and not one.pinned
            if one.home is not None and region_of.get(one.host, one.home) != one.home
        ]
        if not away:
            return None
        room = Room(fleet, self._settings.fill)
        for one in sorted(away, key=lambda one: (-one.need, one.name)):
            target = room.find(one.need, one.home, but=str(one.host))
            if target is not None and target.region == one.home:
                text = f"{one.name} moves back to {one.home}: {target.name} has room for its {one.need:.1f} slots"
                return Proposal(MoveApplication(one.name, target.name), Reason("home", text))
        return None


def place(
    hosts: Sequence[FleetHost], applications: Sequence[FleetApplication], room: Mapping[str, float], rule: str
) -> dict[str, str]:
    """Choose a host for every application. What fits nowhere overloads its home region.

    `room`: slots still available on each host. Regions are filled one by one with the applications that belong there.
    What does not fit at home goes to any region with room.

    >>> east, west = FleetHost("e", "east", 2), FleetHost("w", "west", 2)
    >>> new = [FleetApplication(name, home, slots, None) for name, home, slots in
    ...        (("a", "east", 1.2), ("b", "east", 1.0), ("c", "west", 0.5))]
    >>> place([east, west], new, {"e": 1.6, "w": 1.6}, rule="best-fit")
    {'a': 'e', 'c': 'w', 'b': 'w'}
    """
    if not hosts:
        return {}
    free = {host.name: room[host.name] for host in hosts}
    there: dict[str, list[FleetHost]] = {}
    for host in hosts:
        there.setdefault(host.region, []).append(host)
    placed: dict[str, str] = {}
    spilled = [one for one in applications if one.home not in there]
    by_home: dict[str | None, list[FleetApplication]] = {}
    for one in applications:
        by_home.setdefault(one.home, []).append(one)
    searched = len(applications) <= _MOST_SEARCHED_IN_ALL
    for region, local_hosts in there.items():
        local = by_home.get(region, [])
        chosen, left_over = _fit(local_hosts, free, local, rule if searched else None)
        for one in local:
            if one.name in chosen:
                free[chosen[one.name]] -= one.need
        placed |= chosen
        spilled += left_over
    return placed | _spill(hosts, free, spilled)


def _spill(
    hosts: Sequence[FleetHost], free: Mapping[str, float], applications: Sequence[FleetApplication]
) -> dict[str, str]:
    """Each where most room is, at home if it fits there. If it fits nowhere, the home region is overloaded."""
    room = np.array([free[host.name] for host in hosts])
    homes: dict[str | None, npt.NDArray[np.bool_]] = {}
    placed: dict[str, str] = {}
    for one in sorted(applications, key=lambda one: (-one.need, one.name)):
        if one.home not in homes:
            homes[one.home] = np.array([host.region == one.home for host in hosts])
        home = homes[one.home]
        at_home, anywhere = np.where(home, room, -np.inf), room
        fits = at_home.max() >= one.need - 1e-9 or (anywhere.max() < one.need - 1e-9 and home.any())
        best = int(np.argmax(at_home if fits else anywhere))
        placed[one.name] = hosts[best].name
        room[best] -= one.need
    return placed


def _fit(
    hosts: Sequence[FleetHost], free: Mapping[str, float], applications: Sequence[FleetApplication], rule: str | None
) -> tuple[dict[str, str], list[FleetApplication]]:
    """Let the scheduler place as many as fit; the smallest of the others are left over. No rule: largest first."""
    left_over: list[FleetApplication] = []
    kept = sorted(applications, key=lambda one: (-one.need, one.name))
    room = sum(max(free[host.name], 0.0) for host in hosts)
    while kept and sum(one.need for one in kept) > room:
        left_over.append(kept.pop())
    if rule is None or len(kept) > _MOST_SEARCHED:
        return _largest_first(hosts, free, kept, left_over)
    while kept:
        problem = Problem(
            tuple(Host(host.name, {"slots": max(free[host.name], 0.0)}, host.region) for host in hosts),
            tuple(Task(one.name, {"slots": one.need}, topology=one.name) for one in kept),
        )
        found = scheduler(rule).schedule(problem, np.random.default_rng(_SEED))
        if found.feasible:
            return dict(found.assignment), left_over
        left_over.append(kept.pop())
    return {}, left_over


def _largest_first(
    hosts: Sequence[FleetHost],
    free: Mapping[str, float],
    applications: Sequence[FleetApplication],
    left_over: list[FleetApplication],
) -> tuple[dict[str, str], list[FleetApplication]]:
    """Each on the host with the most room."""
    names, room = [host.name for host in hosts], np.array([free[host.name] for host in hosts])
    chosen: dict[str, str] = {}
    for one in applications:
        best = int(np.argmax(room))
        if room[best] < one.need - 1e-9:
            left_over.append(one)
            continue
        room[best] -= one.need
        chosen[one.name] = names[best]
    return chosen, left_over


def _homeless(fleet: FleetSample) -> tuple[list[FleetApplication], list[str]]:
    """Applications that need a host, and the names of new ones that wait for their region's first host.

    Applications on unreachable hosts stay there, because they may still be running.
    """
    lasting = {
        host.name
        for host in fleet.hosts
        if host.state is not HostState.LOST and not (host.state is HostState.READY and host.leaving)
    }
    homeless = [one for one in fleet.applications if one.assigned not in lasting]
    if not homeless:
        return [], []
    coming = {host.region for host in fleet.hosts if host.state is HostState.STARTING}
    coming -= {host.region for host in fleet.hosts if host.open}
    waiting = {one.name for one in homeless if one.home in coming and not one.ran} if coming else set()
    return [one for one in homeless if one.name not in waiting], [one.name for one in homeless if one.name in waiting]


def _placed(one: FleetApplication, host: str, fleet: FleetSample) -> Reason:
    region = fleet.host_by_name[host].region
    left = f", {one.assigned} is lost or leaving" if one.assigned is not None else ""
    if one.home in {None, region}:
        return Reason("place", f"{one.name} needs {one.need:.1f} slots: placed on {host}{left}")
    return Reason("spill", f"{one.name} needs {one.need:.1f} slots: {one.home} has no room, placed on {host}{left}")
