"""The Infrastructure Manager: central. It assigns hosts to regions within a budget, most unmet demand first.

A grant says how many hosts a region may have, and how many at most while the centre is silent. Every promise that may
still be acted upon counts as committed, and the sum never exceeds the budget. Neither silence nor a lost message can
break this. A promise is released once the region confirms a later one, because it ignores older grants.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tidegate.managers.messages import Denial, HostGrant, HostRequest, Message, Numbering, RegionReport, number_of


@dataclass(frozen=True, slots=True)
class Budget:
    """Maximum number of hosts at once, by count and by cost.

    >>> Budget(most_hosts=20, cost_per_host_h=0.5, most_cost_per_h=7.0).hosts
    14
    """

    most_hosts: int
    cost_per_host_h: float = 0.0
    most_cost_per_h: float | None = None
    allowance: int = 1
    """Hosts beyond its grant that a region may start while the centre is silent, as far as the budget allows."""

    def __post_init__(self) -> None:
        if self.most_hosts < 1 or self.cost_per_host_h < 0 or self.allowance < 0:
            raise ValueError("a budget needs at least one host, and neither a negative price nor a negative allowance")

    @property
    def hosts(self) -> int:
        if self.most_cost_per_h is None or self.cost_per_host_h == 0:
            return self.most_hosts
        return min(self.most_hosts, int(self.most_cost_per_h / self.cost_per_host_h + 1e-9))


@dataclass(slots=True)
class RegionRecord:
    """What the manager knows about one region."""

    target: int
    hosts: int
    promised: dict[str, int] = field(default_factory=dict)
    """Number of a grant → maximum hosts that it allows, for every grant that the region may still act upon."""
    answered: int = 0

    @property
    def committed(self) -> int:
        """Hosts that the region may have without another request."""
        return max(self.target, self.hosts, *self.promised.values())


@dataclass(slots=True)
class InfrastructureState:
    """Everything the manager remembers, as plain data. The regions' reports fill an empty state."""

    numbering: Numbering
    regions: dict[str, RegionRecord] = field(default_factory=dict)


class InfrastructureManager:
    """Monitor: reports and requests. Analyse: commitments. Plan: by unmet demand. Execute: grants and denials."""

    def __init__(self, name: str, state: InfrastructureState, budget: Budget) -> None:
        self.name, self.state, self.budget = name, state, budget

    @property
    def committed(self) -> int:
        return sum(record.committed for record in self.state.regions.values())

    def step(self, inbox: Sequence[Message], now_s: float) -> list[Message]:
        """Answer every request once, and renew the grant of every region."""
        latest: dict[str, HostRequest] = {}
        for message in inbox:
            if isinstance(message, RegionReport):
                self._confirm(message)
            elif isinstance(message, HostRequest) and (
                message.sender not in latest or number_of(message.id) > number_of(latest[message.sender].id)
            ):
                latest[message.sender] = message
        out: list[Message] = []
        answers: dict[str, HostRequest] = {}
        # Hosts that are given back become available to those who need them most.
        for request in sorted(latest.values(), key=lambda r: (r.change > 0, -r.unmet_slots, r.region)):
            record = self.state.regions.get(request.sender)
            if record is None or number_of(request.id) <= record.answered:
                continue
            record.answered = number_of(request.id)
            if self._grants(record, request):
                answers[request.sender] = request
            else:
                out.append(self._deny(request, now_s))
        out.extend(self._renew(to, record, answers.get(to), now_s) for to, record in self.state.regions.items())
        return out

    def _confirm(self, report: RegionReport) -> None:
        """A region's report: adopt its hosts as they are, and void the promises before the one it holds."""
        # After a loss of memory, grants must not be numbered below those that a region has already received.
        self.state.numbering.sent = max(self.state.numbering.sent, report.heard)
        record = self.state.regions.setdefault(report.sender, RegionRecord(report.hosts, report.hosts))
        record.hosts = report.hosts
        record.promised = {n: most for n, most in record.promised.items() if int(n) >= report.heard}
        record.promised.setdefault(str(report.heard), report.most)
        if all(int(n) <= report.heard for n in record.promised):
            record.target = report.hosts  # no change is under way, so the reported number is right

    def _grants(self, record: RegionRecord, request: HostRequest) -> bool:
        if request.change < 0:
            record.target = request.hosts + request.change
            return True
        free = self.budget.hosts - self.committed
        # Hosts that were promised to the region already belong to it.
        target = min(request.hosts + request.change, record.committed + max(0, free))
        if target <= request.hosts:
            return False
        record.target = target
        return True

    def _deny(self, request: HostRequest, now_s: float) -> Denial:
        return Denial(
            id=self.state.numbering.next_id(),
            sender=self.name,
            to=request.sender,
            time_s=now_s,
            request_id=request.id,
            reason=f"all {self.budget.hosts} hosts of the budget are committed",
        )

    def _renew(self, region: str, record: RegionRecord, request: HostRequest | None, now_s: float) -> HostGrant:
        free = max(0, self.budget.hosts - self.committed)
        most = max(record.target, min(record.target + self.budget.allowance, record.committed + free))
        grant = HostGrant(
            id=self.state.numbering.next_id(),
            sender=self.name,
            to=region,
            time_s=now_s,
            target=record.target,
            most=most,
            reason=request.reason if request else "renewal",
            request_id=request.id if request else None,
        )
        record.promised[str(number_of(grant.id))] = most
        return grant
