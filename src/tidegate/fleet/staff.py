"""The managers at the centre: one per application, one for the infrastructure; they hear what the hosts' managers say.

Their memory is in the registry. Where it is empty, the operators' and regions' own reports fill it: what is there is
right, so a centre that comes back changes nothing by coming back.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tidegate.domain.codec import from_json, to_json
from tidegate.fleet.config import FleetConfig
from tidegate.fleet.look import Glance
from tidegate.fleet.naming import INFRASTRUCTURE, application_manager, operator_manager, received, region_manager
from tidegate.fleet.registry import Registry
from tidegate.fleet.state import Phase, Tenancy
from tidegate.managers import (
    ApplicationManager,
    ApplicationSettings,
    ApplicationState,
    ApplicationView,
    Budget,
    InfrastructureManager,
    InfrastructureState,
    Message,
    Numbering,
    TokenBucket,
    TokenRule,
    encode,
)
from tidegate.managers.applications import OperatorRecord
from tidegate.managers.messages import Denial, HostGrant, HostRequest, MoveGrant, MoveRequest, ScaleGrant, ScaleRequest


@dataclass(slots=True)
class StaffState:
    """Everything that the central managers remember; plain data."""

    infrastructure: InfrastructureState = field(default_factory=lambda: InfrastructureState(Numbering(INFRASTRUCTURE)))
    applications: dict[str, ApplicationState] = field(default_factory=dict)


class CentralStaff:
    """Runs the central managers at their period."""

    def __init__(self, config: FleetConfig, registry: Registry) -> None:
        self._config = config
        self._registry = registry
        rule = TokenRule(config.managers.tokens, config.managers.refill_s)
        # A change of one operator is a change of its application: both buckets have the same rule.
        self._settings = ApplicationSettings(operator=rule, application=rule, rescue=rule)
        self._state = self._load()
        self._inbox: list[Message] = []
        self._stepped_s = float("-inf")

    def step(self, glances: dict[str, Glance], time_s: float) -> dict[str, list[str]]:
        """Collect what the hosts' managers say; when the period is over, let ours answer."""
        for glance in glances.values():
            if glance.status is not None:
                self._inbox += received(glance.status.messages, time_s)
        if time_s - self._stepped_s < self._config.managers.period_s:
            return {}
        self._stepped_s = time_s
        inbox, self._inbox = self._inbox, []
        running = _running(glances)
        out: list[Message] = []
        for name, (host, tenancy) in running.items():
            region = glances[host].card.spec.region
            state = self._application(tenancy, region)
            manager = ApplicationManager(application_manager(name), state, self._settings)
            view = ApplicationView(tenancy.latency_p99_s, tenancy.spec.latency_s)
            out += manager.step(view, [message for message in inbox if message.to == manager.name], time_s)
        budget = Budget(self._config.most_hosts, allowance=0)  # without the centre nobody starts hosts
        infrastructure = InfrastructureManager(INFRASTRUCTURE, self._state.infrastructure, budget)
        out += infrastructure.step([message for message in inbox if message.to == INFRASTRUCTURE], time_s)
        self._tell_lookers_on(inbox, out, time_s)
        self._registry.put_fact("staff", to_json(self._state))
        return _routed(out, _addresses(running, glances))

    def host_targets(self) -> dict[str, int]:
        regions = self._state.infrastructure.regions
        return {
            region: regions[region_manager(region)].target
            for region in self._config.regions
            if region_manager(region) in regions
        }

    def may_move(self, application: str, time_s: float) -> bool:
        state = self._state.applications.get(application)
        return state is not None and state.bucket.take(self._settings.application, time_s)

    def _application(self, tenancy: Tenancy, region: str) -> ApplicationState:
        """Its memory, with a record for every operator and for the application as a whole, which regions may move."""
        name = tenancy.spec.name
        operators = [name, *(operator_manager(name, operator) for operator in tenancy.spec.elastic)]
        regions = dict.fromkeys(operators, region_manager(region))
        state = self._state.applications.get(name)
        if state is None:
            state = ApplicationState.fresh(application_manager(name), regions, self._settings)
            self._state.applications[name] = state
        for operator in operators:
            state.operators.setdefault(operator, OperatorRecord(TokenBucket(self._settings.operator.size)))
        state.regions = regions
        return state

    def _load(self) -> StaffState:
        text = self._registry.fact("staff")
        try:
            return StaffState() if text is None else from_json(StaffState, text)
        except ValueError as error:  # written by another version: the operators' reports fill a new one
            self._registry.note("managers-forgot", "centre", str(error).splitlines()[0])
            return StaffState()

    def _tell_lookers_on(self, inbox: list[Message], out: list[Message], time_s: float) -> None:
        """For `fleet status`, and an event for everything that was granted."""
        answers = {
            message.request_id: message
            for message in out
            if isinstance(message, Denial | ScaleGrant | MoveGrant | HostGrant) and message.request_id is not None
        }
        pending: list[dict[str, Any]] = []
        for request in inbox:
            answer = answers.get(request.id)
            if not isinstance(request, ScaleRequest | MoveRequest | HostRequest) or answer is None:
                continue
            granted = not isinstance(answer, Denial)
            said = "granted" if granted else f"denied: {answer.reason}"
            pending.append({"from": request.sender, "asks": _asks(request), "score": _score(request), "answer": said})
            if granted:
                self._registry.note("granted", request.sender, f"{_asks(request)}: {request.reason}")
        self._registry.put_fact("pending", pending)
        self._registry.put_fact(
            "tokens",
            {
                name: round(state.bucket.left(self._settings.application, time_s), 2)
                for name, state in self._state.applications.items()
            },
        )
        targets = self.host_targets()
        self._registry.put_fact("host-targets", targets)
        central = {application_manager(name): "grants by tokens" for name in self._state.applications}
        hosts = ", ".join(f"{region} {target}" for region, target in targets.items())
        self._registry.put_fact("central-managers", {**central, INFRASTRUCTURE: f"hosts granted: {hosts or 'none'}"})


def _running(glances: dict[str, Glance]) -> dict[str, tuple[str, Tenancy]]:
    return {
        tenancy.spec.name: (name, tenancy)
        for name, glance in glances.items()
        if glance.status is not None
        for tenancy in glance.status.tenancies
        if tenancy.phase is Phase.RUNNING
    }


def _addresses(running: dict[str, tuple[str, Tenancy]], glances: dict[str, Glance]) -> dict[str, str]:
    """Local manager → the host that it works on."""
    found = {
        operator_manager(name, operator): host
        for name, (host, tenancy) in running.items()
        for operator in tenancy.spec.elastic
    }
    for name, glance in glances.items():
        if glance.status is not None and glance.status.wish is not None:
            found[region_manager(glance.status.wish.region)] = name
    return found


def _routed(out: list[Message], addresses: dict[str, str]) -> dict[str, list[str]]:
    routed: dict[str, list[str]] = {}
    for message in out:
        if message.to in addresses:
            routed.setdefault(addresses[message.to], []).append(encode(message).decode())
    return routed


def _asks(request: ScaleRequest | MoveRequest | HostRequest) -> str:
    if isinstance(request, ScaleRequest):
        return f"{request.change:+d} tasks of {request.replicas}"
    if isinstance(request, HostRequest):
        return f"{request.change:+d} hosts of {request.hosts}"
    return f"{request.operator} away from {request.host}"


def _score(request: ScaleRequest | MoveRequest | HostRequest) -> float:
    return round(request.unmet_slots if isinstance(request, HostRequest) else request.score, 2)
