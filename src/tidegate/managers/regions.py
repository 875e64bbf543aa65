"""The Region Manager: decentralised, one per region. It places replicas, keeps spare room, and empties idle hosts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tidegate.managers.messages import (
    Command,
    Denial,
    HaveHosts,
    HostGrant,
    HostRequest,
    Message,
    MoveGrant,
    MoveRequest,
    Numbering,
    RegionReport,
    Rescale,
    Seat,
    StopHost,
    number_of,
)
from tidegate.managers.placing import HostView, Seating


@dataclass(frozen=True, slots=True)
class RegionView:
    """The hosts of a region, and the arriving work of each of its operators, in cores."""

    hosts: Sequence[HostView]
    work: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class RegionSettings:
    """How full hosts get, how much room stays free, and how fast the region gives up a host."""

    elastic: bool = True
    """False: the number of hosts is fixed, and replicas spread over them."""
    balance: bool = True
    """True: place replicas on the host with the most idle cores. False: pack them on as few hosts as possible."""
    fill: float = 0.78
    """Busy share up to which replicas are placed on a host."""
    hot: float = 0.95
    """Busy share above which a host is relieved."""
    spare: float = 0.3
    """Room kept free, in hosts. It bridges the time that a new host takes to start."""
    margin: float = 0.3
    """Additional room, in hosts, before a host is emptied: the dead band between growing and shrinking."""
    least_hosts: int = 1
    cool_down_s: float = 600.0
    """Minimum time between a change of the number of hosts and the next emptying."""
    ask_again_s: float = 150.0
    silence_s: float = 180.0
    smoothing: float = 0.1
    """Weight of the newest period in the mean of an operator's work. Hosts should follow the load, not its noise."""


@dataclass(slots=True)
class AskedMove:
    """A move that waits for the application's approval."""

    operator: str
    host: str
    count: int
    asked_s: float
    granted: bool = False


@dataclass(slots=True)
class RegionState:
    """Everything the manager remembers, as plain data."""

    numbering: Numbering
    target: int
    most: int
    heard_s: float
    heard: int = 0
    """The number of the grant that it acts upon."""
    orders: dict[str, int] = field(default_factory=dict)
    ordered: dict[str, int] = field(default_factory=dict)
    """Operator → number of its last order."""
    work: dict[str, float] = field(default_factory=dict)
    moves: dict[str, AskedMove] = field(default_factory=dict)
    """By the id of the request."""
    changed_s: float | None = None
    emptying: str | None = None
    relieved_alone_s: float | None = None


class RegionManager:
    """Monitor: loads and free slots. Analyse: free room. Plan: placement, relief, emptying. Execute: commands."""

    def __init__(
        self,
        name: str,
        state: RegionState,
        applications: Mapping[str, str],
        centre: str,
        settings: RegionSettings | None = None,
    ) -> None:
        """`applications`: operator → the Application Manager that grants its moves."""
        self.name, self.state = name, state
        self._applications, self._centre = applications, centre
        self._settings = settings or RegionSettings()

    def step(self, view: RegionView, inbox: Sequence[Message], now_s: float) -> tuple[list[Message], list[Command]]:
        """Place what was ordered and granted, then adjust the hosts."""
        self._read(inbox)
        self._smooth(view.work)
        seating = Seating(view.hosts, self.state.work)
        commands: list[Command] = list(self._seat(seating))
        out = self._relieve(seating, now_s)
        if self._settings.elastic:
            asked, ordered = self._size(view, seating, now_s)
            out += asked
            commands += ordered
        return out, commands

    @property
    def _away(self) -> tuple[str, ...]:
        return (self.state.emptying,) if self.state.emptying else ()

    def _read(self, inbox: Sequence[Message]) -> None:
        state = self.state
        for message in inbox:
            if isinstance(message, Rescale):
                if number_of(message.id) > state.ordered.get(message.operator, 0):
                    state.ordered[message.operator] = number_of(message.id)
                    state.orders[message.operator] = message.target
            elif isinstance(message, MoveGrant):
                if message.request_id in state.moves:
                    state.moves[message.request_id].granted = True
            elif isinstance(message, Denial):
                state.moves.pop(message.request_id, None)
            elif isinstance(message, HostGrant) and number_of(message.id) > state.heard:
                state.heard, state.heard_s = number_of(message.id), max(state.heard_s, message.time_s)
                state.target, state.most = message.target, message.most

    def _smooth(self, work: Mapping[str, float]) -> None:
        old, share = self.state.work, self._settings.smoothing
        self.state.work = {o: share * now + (1 - share) * old.get(o, now) for o, now in work.items()}

    # Replicas

    def _seat(self, seating: Seating) -> list[Seat]:
        """Bring every operator to its ordered size. Granted moves and leaving an emptied host share the same pause."""
        state = self.state
        seats = []
        granted: dict[str, list[AskedMove]] = {}
        for request_id, move in list(state.moves.items()):
            if move.granted:
                granted.setdefault(move.operator, []).append(state.moves.pop(request_id))
        touched = [o for o, target in state.orders.items() if sum(seating.placed(o).values()) != target]
        for operator in dict.fromkeys([*touched, *granted]):
            before = seating.placed(operator)
            target = state.orders.get(operator, sum(before.values()))
            self._bring(seating, operator, sum(before.values()), target)
            for move in granted.get(operator, ()):
                there = seating.placed(operator).get(move.host, 0)
                seating.move(
                    operator, move.host, min(move.count, there), self._fills, self._away, self._settings.balance
                )
            for host in self._away:
                seating.move(
                    operator,
                    host,
                    seating.placed(operator).get(host, 0),
                    (self._settings.fill,),
                    spread=self._settings.balance,
                )
            after = seating.placed(operator)
            if after != before:
                seats.append(Seat(operator, after))
        return seats

    @property
    def _fills(self) -> tuple[float, float]:
        return self._settings.fill, self._settings.hot

    def _bring(self, seating: Seating, operator: str, now: int, target: int) -> None:
        seating.resize(operator, target)
        for _ in range(target - now):
            # Any free slot is better than none, because an overloaded host shares its cores by demand.
            fills = (*self._fills, math.inf)
            found = (seating.find(operator, f, self._away, self._settings.balance or f == math.inf) for f in fills)
            host = next((name for name in found if name is not None), None)
            if host is None:
                return
            seating.add(operator, host)
        for _ in range(now - target):
            seating.remove(operator, self._leaves(seating, operator))

    def _leaves(self, seating: Seating, operator: str) -> str:
        """The host that loses a replica first: one being emptied, else the fullest, or the emptiest when packing."""
        placed = seating.placed(operator)
        if self.state.emptying in placed:
            return str(self.state.emptying)
        sign = -1.0 if self._settings.balance else 1.0
        return min(placed, key=lambda host: (sign * seating.load[host], host))

    def _relieve(self, seating: Seating, now_s: float) -> list[Message]:
        """Request to move a replica off every overloaded host, if another host has room for it."""
        state, settings = self.state, self._settings
        for request_id, move in list(state.moves.items()):
            if now_s - move.asked_s > settings.ask_again_s:
                del state.moves[request_id]
        out: list[Message] = []
        asked = {move.host for move in state.moves.values()}
        for name, host in seating.hosts.items():
            if name in asked or name in self._away or seating.load[name] <= settings.hot * host.cores:
                continue
            excess = seating.load[name] - settings.fill * host.cores
            movable = [o for o in seating.counts[name] if seating.find(o, settings.fill, (name, *self._away))]
            if not movable:
                continue
            use = seating.use
            # The smallest replica that removes the excess; if none does, the largest one.
            operator = min(movable, key=lambda o: (use[o] < excess, use[o] if use[o] >= excess else -use[o], o))
            urgent = seating.load[name] > host.cores
            text = f"{name} is {seating.load[name] / host.cores:.0%} busy"
            request = self._ask_move(AskedMove(operator, name, 1, now_s), seating.load[name] / host.cores, text, urgent)
            if now_s - state.heard_s > settings.silence_s and settings.elastic:
                self._grant_alone(request, now_s)
            else:
                out.append(request)
        return out

    def _grant_alone(self, request: MoveRequest, now_s: float) -> None:
        """While the centre is away: one relief per cool-down, and only for a host that cannot carry its load."""
        state = self.state
        rested = state.relieved_alone_s is None or now_s - state.relieved_alone_s >= self._settings.cool_down_s
        if request.urgent and rested:
            state.moves[request.id].granted, state.relieved_alone_s = True, now_s
        else:
            del state.moves[request.id]

    def _ask_move(self, move: AskedMove, score: float, reason: str, urgent: bool = False) -> MoveRequest:
        request = MoveRequest(
            id=self.state.numbering.next_id(),
            sender=self.name,
            to=self._applications[move.operator],
            time_s=move.asked_s,
            operator=move.operator,
            host=move.host,
            score=score,
            reason=reason,
            urgent=urgent,
        )
        self.state.moves[request.id] = move
        return request

    # Hosts

    def needed_hosts(self, view: RegionView, seating: Seating, spare: float) -> int:
        """Hosts for the work and the number of replicas, including `spare` hosts of free room."""
        cores, slots = view.hosts[0].cores, view.hosts[0].slots
        wanted = self.state.orders
        seats = sum(max(sum(seating.placed(o).values()), wanted.get(o, 0)) for o in self.state.work)
        by_work = sum(self.state.work.values()) / (self._settings.fill * cores) + spare
        # The mean is slow. Current arrivals must fit too, without spare room, so that a burst is served at once.
        by_burst = sum(view.work.values()) / cores
        seated = math.ceil(seats / slots + spare)
        return max(self._settings.least_hosts, math.ceil(by_work), math.ceil(by_burst), seated)

    def _size(self, view: RegionView, seating: Seating, now_s: float) -> tuple[list[Message], list[Command]]:
        state, settings, have = self.state, self._settings, len(view.hosts)
        out: list[Message] = [
            RegionReport(
                id=state.numbering.next_id(),
                sender=self.name,
                to=self._centre,
                time_s=now_s,
                region=self.name,
                hosts=have,
                heard=state.heard,
                most=state.most,
            )
        ]
        commands: list[Command] = []
        needed = self.needed_hosts(view, seating, settings.spare)
        if needed > have:
            self.state.emptying = None
            allowed = state.most if now_s - state.heard_s > settings.silence_s else state.target
            if allowed > have:
                commands.append(HaveHosts(self.name, min(needed, allowed)))
                state.changed_s = now_s
            else:
                unmet = needed - have
                out.append(self._ask_hosts(have, unmet, f"the load needs {needed} hosts, and there are {have}", now_s))
        elif state.emptying is not None:
            released, stopped = self._release(seating, have, now_s)
            out += released
            commands += stopped
        elif self._rested(now_s) and all(host.up for host in view.hosts):
            out += self._empty_one(view, seating, now_s)
        return out, commands

    def _rested(self, now_s: float) -> bool:
        return self.state.changed_s is None or now_s - self.state.changed_s >= self._settings.cool_down_s

    def _ask_hosts(self, have: int, change: int, reason: str, now_s: float) -> HostRequest:
        return HostRequest(
            id=self.state.numbering.next_id(),
            sender=self.name,
            to=self._centre,
            time_s=now_s,
            region=self.name,
            hosts=have,
            change=change,
            unmet_slots=float(max(0, change)),
            reason=reason,
        )

    def _empty_one(self, view: RegionView, seating: Seating, now_s: float) -> list[Message]:
        """Choose the host with the fewest operators to pause whose load fits on the others."""
        settings = self._settings
        if self.needed_hosts(view, seating, settings.spare + settings.margin) >= len(view.hosts):
            return []
        order = sorted(seating.hosts, key=lambda h: (len(seating.counts[h]), seating.load[h], h))
        chosen = next((host for host in order if seating.can_empty(host, settings.fill)), None)
        if chosen is None:
            return []
        self.state.emptying = chosen
        return self._ask_leave(seating, chosen, now_s)

    def _ask_leave(self, seating: Seating, host: str, now_s: float) -> list[Message]:
        asked = {(move.operator, move.host) for move in self.state.moves.values()}
        return [
            self._ask_move(AskedMove(operator, host, count, now_s), 0.05, f"{host} is to be removed")
            for operator, count in seating.counts[host].items()
            if (operator, host) not in asked
        ]

    def _release(self, seating: Seating, have: int, now_s: float) -> tuple[list[Message], list[Command]]:
        """Repeat the requests for replicas that have not left yet. Stop the host once it is empty."""
        host = self.state.emptying
        if host is None or host not in seating.counts:
            self.state.emptying = None
            return [], []
        if seating.counts[host]:
            return self._ask_leave(seating, host, now_s), []
        self.state.emptying, self.state.changed_s = None, now_s
        return [self._ask_hosts(have, -1, f"{host} is empty", now_s)], [StopHost(self.name, host)]
