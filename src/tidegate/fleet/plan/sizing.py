"""The Infrastructure Manager as a proposer: starts hosts that regions need, and removes hosts that they do not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tidegate.domain import (
    AddHost,
    Decision,
    FleetHost,
    FleetSample,
    HostState,
    Outcome,
    Proposal,
    Reason,
    Receipt,
    RemoveHost,
)
from tidegate.evaluate.evaluation import Evaluation
from tidegate.plan.planner import Plan, Proposer

_FIRST_BACK_OFF_S, _LONGEST_BACK_OFF_S = 5.0, 300.0


@dataclass(frozen=True, slots=True)
class RegionLimits:
    least: int = 1
    most: int = 2


@dataclass(slots=True)
class SizingMemory:
    """Consecutive failed starts by region, and when the next may be tried."""

    failures: dict[str, int] = field(default_factory=dict)
    not_before_s: dict[str, float] = field(default_factory=dict)


class RegionSizes(Proposer):
    """Every region gets its minimum of hosts, and those that its manager requests, ordered by unmet demand.

    A host is removed when its region's manager requests it. In a region without a manager, it is removed after it was
    empty for a while.
    """

    name = "sizes"

    def __init__(self, regions: Mapping[str, RegionLimits], spare_s: float = 60.0) -> None:
        self.memory: SizingMemory = SizingMemory()
        self._regions = regions
        self._spare_s = spare_s
        self._now_s = 0.0

    def watch(self, evaluation: Evaluation) -> None:
        self._now_s = evaluation.time_s

    def propose(self, evaluation: Evaluation) -> Plan:
        fleet = evaluation.fleet
        if fleet is None or not fleet.plannable:
            return Plan()
        staying: dict[str, list[FleetHost]] = {region: [] for region in self._regions}
        for host in fleet.hosts:
            if host.region in staying and not host.leaving and host.state is not HostState.LOST:
                staying[host.region].append(host)
        growing = [one for region in self._regions for one in self._grow(region, staying[region], fleet)]
        growing.sort(key=lambda one: -one.score)
        shrinking = [one for region in self._regions for one in self._shrink(region, staying[region], fleet)]
        return Plan((*growing, *shrinking))

    def learn(self, decision: Decision, receipt: Receipt) -> None:
        """After a failed start, the next attempt is delayed, longer each time."""
        for answer in receipt.actions:
            if not isinstance(answer.action, AddHost):
                continue
            region = answer.action.region
            if answer.outcome is Outcome.FAILED:
                failures = self.memory.failures[region] = self.memory.failures.get(region, 0) + 1
                pause_s = min(_LONGEST_BACK_OFF_S, _FIRST_BACK_OFF_S * 2.0 ** min(failures - 1, 16))
                self.memory.not_before_s[region] = self._now_s + pause_s
            elif answer.outcome is Outcome.DONE:
                self.memory.failures.pop(region, None)
                self.memory.not_before_s.pop(region, None)

    def _grow(self, region: str, staying: list[FleetHost], fleet: FleetSample) -> list[Proposal]:
        least, here = self._regions[region].least, len(staying)
        asked = [one for one in fleet.requests if isinstance(one.action, AddHost) and one.action.region == region]
        missing = max(least - here, 0)
        count = max(missing, len(asked))
        if not count or self._now_s < self.memory.not_before_s.get(region, float("-inf")):
            return []
        if missing:
            more = f"; {len(asked)} more are requested" if len(asked) > missing else ""
            reason = Reason("least-hosts", f"{region} has {here} hosts, and its minimum is {least}{more}")
        else:
            why = f": {asked[0].reason}" if asked[0].reason else ""
            reason = Reason("asked", f"{region} has {here} hosts and requests {len(asked)} more{why}")
        taken, number = set(fleet.host_by_name), fleet.host_numbers.get(region, 0)
        proposals = []
        for _ in range(count):
            number += 1
            while f"{region}-{number}" in taken:
                number += 1
            proposals.append(
                Proposal(AddHost(f"{region}-{number}", region), reason, score=float(count + 1000 * bool(missing)))
            )
        return proposals

    def _shrink(self, region: str, staying: list[FleetHost], fleet: FleetSample) -> list[Proposal]:
        surplus = len(staying) - self._regions[region].least
        if surplus <= 0:
            return []
        asked = {one.action.host for one in fleet.requests if isinstance(one.action, RemoveHost)}
        spoken_for = region in fleet.speakers
        found: list[Proposal] = []
        for host in reversed(staying):  # the newest first
            empty = not fleet.on.get(host.name) and host.state is not HostState.AWAY
            spare = host.name in asked if spoken_for else host.empty_s >= self._spare_s
            if empty and spare and len(found) < surplus:
                reason = Reason(
                    "spare-host", f"removing {host.name}: it is empty, and {region} has {len(staying)} hosts"
                )
                found.append(Proposal(RemoveHost(host.name), reason))
        return found
