"""Places applications on hosts with the schedulers of `tidegate.placement`: at home while there is room, few moves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tidegate.fleet.state import HostSpec
from tidegate.placement import Host, Problem, Task, scheduler

_SEED = 1  # placement has to be the same for the same fleet


@dataclass(frozen=True, slots=True)
class Demand:
    """What an application needs, and where it would best be."""

    application: str
    slots: float
    region: str | None = None


@dataclass(frozen=True, slots=True)
class Placing:
    """Where applications go, and what did not fit anywhere."""

    hosts: Mapping[str, str]
    unmet_slots: Mapping[str, float]
    """By region: demand that overloads its hosts, or had to go elsewhere."""


def place(
    hosts: list[HostSpec],
    demands: list[Demand],
    current: Mapping[str, str],
    *,
    moves: int,
    rule: str = "tidegate",
    fill: float = 0.8,
) -> Placing:
    """A host for every application, with at most `moves` of the running ones moved; all of them, if need be overloaded.

    Regions are filled one by one with the applications whose home they are (or that run there now and have no home);
    what does not fit at home is placed wherever there is room, and only then overloads its home.

    >>> east, west = HostSpec("e", "east", 2), HostSpec("w", "west", 2)
    >>> demands = [Demand("a", 1.2, "east"), Demand("b", 1.0, "east"), Demand("c", 0.5, "west")]
    >>> place([east, west], demands, {}, moves=0, rule="best-fit").hosts
    {'a': 'e', 'c': 'w', 'b': 'w'}
    """
    if not hosts:
        return Placing({}, _by_region(demands, "local"))
    region_of = {host.name: host.region for host in hosts}
    regions = dict.fromkeys(region_of.values())
    running = {name: host for name, host in current.items() if host in region_of}
    home, moves = _homes(demands, running, region_of, moves)
    room = {host.name: host.slots * fill for host in hosts}
    placed: dict[str, str] = {}
    spilled: list[Demand] = []
    for region in regions:
        local = [each for each in demands if home[each.application] == region]
        there = [host for host in hosts if host.region == region]
        staying = {each.application: running[each.application] for each in local if each.application in running}
        staying = {name: host for name, host in staying.items() if region_of[host] == region}
        chosen, left_over = _fit(there, room, local, staying, moves, rule)
        moves -= sum(staying.get(name, host) != host for name, host in chosen.items())
        placed |= chosen
        spilled += left_over
    spilled += [each for each in demands if home[each.application] not in regions]
    unmet = _by_region(spilled, next(iter(regions)))
    if spilled:
        free = dict(room)
        for each in demands:
            if each.application in placed:
                free[placed[each.application]] -= each.slots
        staying = {each.application: running[each.application] for each in spilled if each.application in running}
        placed |= _anywhere(hosts, free, spilled, staying, moves, home)
    return Placing(placed, unmet)


def _fit(
    hosts: list[HostSpec],
    room: Mapping[str, float],
    demands: list[Demand],
    current: Mapping[str, str],
    moves: int,
    rule: str,
) -> tuple[dict[str, str], list[Demand]]:
    """As many as fit, by the scheduler; the smallest of the others are left over, those that run here last."""
    left_over: list[Demand] = []
    kept = list(demands)
    while kept:
        problem = Problem(
            tuple(Host(host.name, {"slots": max(room[host.name], 0.0)}, host.region) for host in hosts),
            tuple(Task(each.application, {"slots": each.slots}, topology=each.application) for each in kept),
            current={each.application: current[each.application] for each in kept if each.application in current},
            max_migrations=max(0, moves),
        )
        found = scheduler(rule).schedule(problem, np.random.default_rng(_SEED))
        if found.feasible:
            return dict(found.assignment), left_over
        surplus = min(kept, key=lambda each: (each.application in current, each.slots, each.application))
        kept.remove(surplus)
        left_over.append(surplus)
    return {}, left_over


def _anywhere(
    hosts: list[HostSpec],
    free: dict[str, float],
    spilled: list[Demand],
    current: Mapping[str, str],
    moves: int,
    home: Mapping[str, str | None],
) -> dict[str, str]:
    """Largest first: where there is room, the home region before others; else, a running one stays where it is."""
    placed: dict[str, str] = {}
    for each in sorted(spilled, key=lambda each: (-each.slots, each.application)):
        stays = current.get(each.application)
        fitting = [host for host in hosts if free[host.name] >= each.slots - 1e-9]
        if stays is not None and (moves < 1 or not fitting):
            chosen = stays
        else:
            candidates = fitting or [host for host in hosts if host.region == home[each.application]] or hosts
            best = max(
                candidates,
                key=lambda host: (host.region == home[each.application], free[host.name], host.name == stays),
            )
            chosen = best.name
            moves -= stays is not None and chosen != stays
        placed[each.application] = chosen
        free[chosen] -= each.slots
    return placed


def _homes(
    demands: list[Demand], running: Mapping[str, str], region_of: Mapping[str, str], moves: int
) -> tuple[dict[str, str | None], int]:
    """The region that each is placed in, and the moves left: going home is a move, and the largest go first."""
    homes: dict[str, str | None] = {}
    for each in sorted(demands, key=lambda each: (-each.slots, each.application)):
        host = running.get(each.application)
        there = None if host is None else region_of[host]
        if there is None:
            homes[each.application] = each.region or next(iter(region_of.values()))
        elif each.region is None or each.region == there or moves < 1 or each.region not in region_of.values():
            homes[each.application] = there
        else:
            homes[each.application] = each.region
            moves -= 1
    return homes, moves


def _by_region(demands: list[Demand], default: str) -> dict[str, float]:
    unmet: dict[str, float] = {}
    for each in demands:
        unmet[each.region or default] = unmet.get(each.region or default, 0.0) + each.slots
    return unmet
