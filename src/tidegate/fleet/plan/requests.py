"""The Application Manager as a proposer: proposes the requests of hosts and regions, urgent first, then by value."""

from __future__ import annotations

from dataclasses import dataclass, field

from tidegate.domain import (
    Decision,
    FleetApplication,
    FleetHost,
    FleetSample,
    MoveApplication,
    Outcome,
    Proposal,
    Reason,
    Receipt,
    Request,
    SetParallelism,
)
from tidegate.evaluate.evaluation import Evaluation
from tidegate.fleet.plan.room import Room
from tidegate.plan.planner import Plan, Proposer


@dataclass(frozen=True, slots=True)
class RequestSettings:
    fill: float = 0.8
    """Share of a host's slots that placement may use."""


@dataclass(slots=True)
class RequestMemory:
    granted: dict[str, list[SetParallelism]] = field(default_factory=dict)
    """Grants that are still requested, by application. Each takes one token, however long the host needs."""


class Requests(Proposer):
    """Proposes what was requested. Guards, above all tokens, decide how much of it is granted."""

    name = "requests"

    def __init__(self, settings: RequestSettings | None = None) -> None:
        self.memory: RequestMemory = RequestMemory()
        self._settings = settings or RequestSettings()

    def watch(self, evaluation: Evaluation) -> None:
        if evaluation.fleet is None or not self.memory.granted:
            return
        asked = {request.action for request in evaluation.fleet.requests}
        standing = {name: [one for one in known if one in asked] for name, known in self.memory.granted.items()}
        self.memory.granted = {name: known for name, known in standing.items() if known}

    def learn(self, decision: Decision, receipt: Receipt) -> None:
        for answer in receipt.actions:
            if isinstance(answer.action, SetParallelism) and answer.outcome is Outcome.UNDER_WAY:
                known = self.memory.granted.setdefault(answer.action.application, [])
                known += [answer.action] if answer.action not in known else []

    def propose(self, evaluation: Evaluation) -> Plan:
        fleet = evaluation.fleet
        if fleet is None or not fleet.plannable or not fleet.requests:
            return Plan()
        ordered = sorted(fleet.requests, key=lambda one: (not one.urgent, -one.score, str(one.action), one.sender))
        room: Room | None = None
        proposals: list[Proposal] = []
        reasons: list[Reason] = []
        for request in ordered:
            action = request.action
            if isinstance(action, SetParallelism):
                known = fleet.by_name.get(action.application)
                if action in self.memory.granted.get(action.application, ()):
                    reasons.append(Reason("hold-granted", f"{action}: already granted, not yet carried out"))
                elif known is not None and known.host == request.sender:
                    proposals.append(_proposal(request, action))
            elif isinstance(action, MoveApplication):
                room = room or Room(fleet, self._settings.fill)
                found = self._move(fleet, room, request, action)
                if isinstance(found, Reason):
                    reasons.append(found)
                elif found is not None:
                    proposals.append(found)
        return Plan(tuple(proposals), tuple(reasons))

    def _move(
        self, fleet: FleetSample, room: Room, request: Request, action: MoveApplication
    ) -> Proposal | Reason | None:
        known = fleet.by_name.get(action.application)
        if known is None or known.host is None or known.assigned != known.host:
            return None  # already moving, or not running
        if known.pinned:
            return Reason("hold-pinned", f"{known.name} stays on {known.host}, because a user placed it there")
        target = self._target(fleet, room, known, action.host)
        if target is None:
            return Reason("hold-no-room", f"{known.name} should leave {known.host}, but no other host has room")
        if target.name == known.host:
            return None
        room.take(target.name, known.need)
        return _proposal(request, MoveApplication(known.name, target.name))

    def _target(self, fleet: FleetSample, room: Room, known: FleetApplication, asked: str | None) -> FleetHost | None:
        if asked is not None:
            host = fleet.host_by_name.get(asked)
            return host if host is not None and host.open else None
        here = fleet.host_by_name.get(str(known.host))
        return room.find(known.need, known.home or (here.region if here is not None else None), but=str(known.host))


def _proposal(request: Request, action: SetParallelism | MoveApplication) -> Proposal:
    why = f": {request.reason}" if request.reason else ""
    return Proposal(
        action,
        Reason("asked", f"{action}, requested by {request.sender}{why}"),
        score=request.score,
        urgent=request.urgent,
    )
