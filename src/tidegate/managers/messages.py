"""What managers say to each other: requests with a score and a reason, answers, and standing confirmations.

Only these cross hosts, never raw metrics. Targets are absolute and every message has an id, so a message that comes
twice changes nothing the second time. A sender numbers its messages, which orders them without a clock.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field, TypeAdapter, ValidationError

from tidegate.domain.errors import InvalidInput

VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """Who says something to whom, and when; `id` is the sender and its running number."""

    id: str
    sender: str
    to: str
    time_s: float
    version: int = VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleRequest(Message):
    """An operator that runs `replicas` asks for `change` more (or fewer)."""

    operator: str
    replicas: int
    change: int
    score: float
    """What the change is worth to its policy, Q(s, 0) − Q(s, a): the higher, the sooner it is served."""
    reason: str
    urgent: bool = False
    """The operator believes that the objective is at stake; the Application Manager looks for itself."""
    only_if_free: bool = False
    """Worth doing only when the application pays for a reconfiguration anyway (second opportunity)."""
    kind: Literal["scale-request"] = "scale-request"

    def __post_init__(self) -> None:
        if self.change == 0 or self.replicas + self.change < 1:
            raise ValueError(f"{self.operator}: {self.change:+d} of {self.replicas} replicas is no request")


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveRequest(Message):
    """A region asks to move replicas of an operator away from one of its hosts."""

    operator: str
    host: str
    score: float
    reason: str
    urgent: bool = False
    kind: Literal["move-request"] = "move-request"


@dataclass(frozen=True, slots=True, kw_only=True)
class HostRequest(Message):
    """A region that has `hosts` asks for `change` more (or fewer); `unmet_slots` is the demand it cannot seat."""

    region: str
    hosts: int
    change: int
    unmet_slots: float
    reason: str
    kind: Literal["host-request"] = "host-request"

    def __post_init__(self) -> None:
        if self.change == 0 or self.hosts + self.change < 0:
            raise ValueError(f"{self.region}: {self.change:+d} of {self.hosts} hosts is no request")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleGrant(Message):
    """Run `target` replicas."""

    request_id: str
    operator: str
    target: int
    reason: str
    kind: Literal["scale-grant"] = "scale-grant"


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveGrant(Message):
    """The replicas of the operator may leave the host."""

    request_id: str
    operator: str
    host: str
    reason: str
    kind: Literal["move-grant"] = "move-grant"


@dataclass(frozen=True, slots=True, kw_only=True)
class HostGrant(Message):
    """Sent to every region each period, an answer or a renewal: have up to `target` hosts, and in a silence `most`."""

    target: int
    most: int
    reason: str
    request_id: str | None = None
    kind: Literal["host-grant"] = "host-grant"

    def __post_init__(self) -> None:
        if not 0 <= self.target <= self.most:
            raise ValueError(f"a grant of {self.target} hosts, {self.most} in a silence, makes no sense")


@dataclass(frozen=True, slots=True, kw_only=True)
class Denial(Message):
    """Not now, and why."""

    request_id: str
    reason: str
    kind: Literal["denial"] = "denial"


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing(Message):
    """Sent to every operator each period: what the Application Manager holds to be its size; silence means: away."""

    operator: str
    target: int | None
    """None: it does not know yet, and asks for a report."""
    kind: Literal["standing"] = "standing"


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorReport(Message):
    """What an operator really has, and how many changes it made alone since it last heard from the centre."""

    operator: str
    replicas: int
    changes_alone: int
    kind: Literal["operator-report"] = "operator-report"


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionReport(Message):
    """The hosts a region has, and the grant it acts upon, by number and content; older grants it will ignore."""

    region: str
    hosts: int
    heard: int
    most: int
    kind: Literal["region-report"] = "region-report"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rescale(Message):
    """An operator's order to its own region: seat `target` replicas. Level-triggered; the latest counts."""

    operator: str
    target: int
    kind: Literal["rescale"] = "rescale"


AnyMessage = Annotated[
    ScaleRequest
    | MoveRequest
    | HostRequest
    | ScaleGrant
    | MoveGrant
    | HostGrant
    | Denial
    | Standing
    | OperatorReport
    | RegionReport
    | Rescale,
    Field(discriminator="kind"),
]


@dataclass(frozen=True, slots=True)
class Seat:
    """Command: run the replicas of `operator` on these hosts, as many on each."""

    operator: str
    hosts: dict[str, int]


@dataclass(frozen=True, slots=True)
class HaveHosts:
    """Command: have `target` hosts in the region; the missing ones are started."""

    region: str
    target: int


@dataclass(frozen=True, slots=True)
class StopHost:
    """Command: give an empty host back."""

    region: str
    host: str


Command = Seat | HaveHosts | StopHost
_CODEC: TypeAdapter[AnyMessage] = TypeAdapter(AnyMessage)


def encode(message: Message) -> bytes:
    """JSON for the wire."""
    return _CODEC.dump_json(message)  # type: ignore[arg-type]


def decode(text: str | bytes) -> Message:
    """
    >>> order = Rescale(id="op#1", sender="op", to="region", time_s=0.0, operator="op", target=3)
    >>> decode(encode(order)) == order
    True
    """
    try:
        message: Message = _CODEC.validate_json(text)
    except ValidationError as error:
        raise InvalidInput(f"not a message between managers: {error.errors()[0]['msg']}") from None
    if message.version != VERSION:
        raise InvalidInput(f"a message of version {message.version}; this side speaks {VERSION}: update the older one")
    return message


@dataclass(slots=True)
class Numbering:
    """The running number of a sender's messages; part of its state, so ids never repeat after a restart."""

    sender: str
    sent: int = 0

    def next_id(self) -> str:
        """
        >>> Numbering("op").next_id()
        'op#1'
        """
        self.sent += 1
        return f"{self.sender}#{self.sent}"


def number_of(message_id: str) -> int:
    """The running number in an id; later messages of a sender have higher ones.

    >>> number_of("shop.count#12")
    12
    """
    return int(message_id.rpartition("#")[2])
