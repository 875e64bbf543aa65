"""The guard of the infrastructure: never more hosts than the fleet and the region may have, or than money buys."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tidegate.domain import Action, AddHost, Reason
from tidegate.evaluate.evaluation import Evaluation
from tidegate.plan.guards import GuardContext, Verdict, WatchfulGuard


@dataclass(frozen=True, slots=True)
class HostLimits:
    """What the fleet's file allows."""

    most_hosts: int
    most_of: Mapping[str, int]
    """By region."""
    price_per_h: Mapping[str, float] = field(default_factory=dict)
    """What a host costs in an hour, by region; a region that is not named costs 1."""
    most_cost_per_h: float | None = None

    def price(self, region: str) -> float:
        return self.price_per_h.get(region, 1.0)


class HostBudget(WatchfulGuard):
    """Counts every host that is in the book, those on their way and those that are leaving included."""

    name = "host-budget"

    def __init__(self, limits: HostLimits) -> None:
        self._limits = limits
        self._hosts: dict[str, int] = {}

    def watch(self, evaluation: Evaluation) -> None:
        self._hosts = {}
        for host in evaluation.fleet.hosts if evaluation.fleet is not None else ():
            self._hosts[host.region] = self._hosts.get(host.region, 0) + 1

    def check(self, action: Action, context: GuardContext) -> Verdict:
        """What passes counts at once: several hosts may be wanted in one step."""
        if not isinstance(action, AddHost):
            return action, None
        limits, region, here = self._limits, action.region, self._hosts.get(action.region, 0)
        total = sum(self._hosts.values())
        if total >= limits.most_hosts:
            return None, Reason(self.name, f"the fleet has {total} hosts and may have {limits.most_hosts}")
        if here >= limits.most_of.get(region, limits.most_hosts):
            return None, Reason(self.name, f"{region} has {here} hosts and may have {limits.most_of[region]}")
        cost = sum(count * limits.price(name) for name, count in self._hosts.items())
        if limits.most_cost_per_h is not None and cost + limits.price(region) > limits.most_cost_per_h + 1e-9:
            text = f"hosts cost {cost:g} an hour, one more in {region} {limits.price(region):g}, and "
            return None, Reason(self.name, f"{text}{limits.most_cost_per_h:g} is the most")
        self._hosts[region] = here + 1
        return action, None
