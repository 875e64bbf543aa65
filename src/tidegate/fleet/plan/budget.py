"""The infrastructure's guard: never more hosts than the limits of the fleet, the region and the budget allow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tidegate.domain import Action, AddHost, Reason
from tidegate.evaluate.evaluation import Evaluation
from tidegate.plan.guards import GuardContext, Verdict, WatchfulGuard


@dataclass(frozen=True, slots=True)
class HostLimits:
    """The limits in the fleet's file."""

    most_hosts: int
    most_of: Mapping[str, int]
    """By region."""
    price_per_h: Mapping[str, float] = field(default_factory=dict)
    """Price of a host per hour, by region. The default is 1."""
    most_cost_per_h: float | None = None

    def price(self, region: str) -> float:
        return self.price_per_h.get(region, 1.0)


class HostBudget(WatchfulGuard):
    """Counts every host in the registry, including starting and leaving ones."""

    name = "host-budget"

    def __init__(self, limits: HostLimits) -> None:
        self._limits = limits
        self._hosts: dict[str, int] = {}

    def watch(self, evaluation: Evaluation) -> None:
        self._hosts = {}
        for host in evaluation.fleet.hosts if evaluation.fleet is not None else ():
            self._hosts[host.region] = self._hosts.get(host.region, 0) + 1

    def check(self, action: Action, context: GuardContext) -> Verdict:
        """Accepted hosts count at once, because one step may request several."""
        if not isinstance(action, AddHost):
            return action, None
        limits, region, here = self._limits, action.region, self._hosts.get(action.region, 0)
        total = sum(self._hosts.values())
        if total >= limits.most_hosts:
            return None, Reason(self.name, f"the fleet has {total} hosts, and its maximum is {limits.most_hosts}")
        if here >= limits.most_of.get(region, limits.most_hosts):
            return None, Reason(self.name, f"{region} has {here} hosts, and its maximum is {limits.most_of[region]}")
        cost = sum(count * limits.price(name) for name, count in self._hosts.items())
        if limits.most_cost_per_h is not None and cost + limits.price(region) > limits.most_cost_per_h + 1e-9:
            text = f"one more host in {region} would cost {limits.price(region):g} per hour on top of {cost:g}, and "
            return None, Reason(self.name, f"{text}the maximum is {limits.most_cost_per_h:g}")
        self._hosts[region] = here + 1
        return action, None
