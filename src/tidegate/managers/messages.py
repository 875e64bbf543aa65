"""The messages between managers: requests with a score and a reason, answers, and periodic confirmations.

Only these messages cross hosts, never raw metrics. Targets are absolute and every message has an id, so a repeated
message changes nothing. A sender numbers its messages, which orders them without a clock.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field, TypeAdapter, ValidationError

from tidegate.domain.errors import InvalidInput

VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """Sender, receiver and time. `id` is the sender and its running number."""

    id: str
    sender: str
    to: str
    time_s: float
    version: int = VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleRequest(Message):
    """An operator with `replicas` requests `change` more (or fewer)."""

    operator: str
    replicas: int
    change: int
    score: float
    """Value of the change to its policy, Q(s, 0) − Q(s, a). Higher scores are served first."""
    reason: str
    urgent: bool = False
    """The operator considers the objective at risk. The Application Manager checks this itself."""
    only_if_free: bool = False
    """Worth doing only if the application pays for a reconfiguration anyway (second opportunity)."""
    kind: Literal["scale-request"] = "scale-request"

    def __post_init__(self) -> None:
        if self.change == 0 or self.replicas + self.change < 1:
            raise ValueError(
                f"{self.operator}: a change of {self.change:+d} from {self.replicas} replicas is not valid"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveRequest(Message):
    """A region requests to move replicas of an operator away from one of its hosts."""

    operator: str
    host: str
    score: float
    reason: str
    urgent: bool = False
    kind: Literal["move-request"] = "move-request"


@dataclass(frozen=True, slots=True, kw_only=True)
class HostRequest(Message):
    """A region with `hosts` requests `change` more (or fewer). `unmet_slots` is the demand that it cannot place."""

    region: str
    hosts: int
    change: int
    unmet_slots: float
    reason: str
    kind: Literal["host-request"] = "host-request"

    def __post_init__(self) -> None:
        if self.change == 0 or self.hosts + self.change < 0:
            raise ValueError(f"{self.region}: a change of {self.change:+d} from {self.hosts} hosts is not valid")


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
    """Sent to every region in each period: have up to `target` hosts, or `most` while the centre is silent."""

    target: int
    most: int
    reason: str
    request_id: str | None = None
    kind: Literal["host-grant"] = "host-grant"

    def __post_init__(self) -> None:
        if not 0 <= self.target <= self.most:
            raise ValueError(f"a grant of {self.target} hosts, {self.most} during silence, is not valid")


@dataclass(frozen=True, slots=True, kw_only=True)
class Denial(Message):
    """The request is refused for now, with the reason."""

    request_id: str
    reason: str
    kind: Literal["denial"] = "denial"


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing(Message):
    """Sent to every operator in each period: its size as the Application Manager knows it. Silence means: away."""

    operator: str
    target: int | None
    """None: unknown; the operator should send a report."""
    kind: Literal["standing"] = "standing"


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorReport(Message):
    """An operator's actual size, and how many changes it made alone since it last heard from the centre."""

    operator: str
    replicas: int
    changes_alone: int
    kind: Literal["operator-report"] = "operator-report"


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionReport(Message):
    """A region's hosts, and the grant it acts upon, by number and content. It ignores older grants."""

    region: str
    hosts: int
    heard: int
    most: int
    kind: Literal["region-report"] = "region-report"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rescale(Message):
    """An operator's order to its own region: place `target` replicas. Level-triggered; the latest counts."""

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
    """Command: run this many replicas of `operator` on each of these hosts."""

    operator: str
    hosts: dict[str, int]


@dataclass(frozen=True, slots=True)
class HaveHosts:
    """Command: have `target` hosts in the region; missing ones are started."""

    region: str
    target: int


@dataclass(frozen=True, slots=True)
class StopHost:
    """Command: stop an empty host."""

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
        raise InvalidInput(f"the message has version {message.version}, this side {VERSION}; update the older side")
    return message


@dataclass(slots=True)
class Numbering:
    """The running number of a sender's messages. It is part of the state, so ids never repeat after a restart."""

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
    """The running number in an id; it increases with every message of a sender.

    >>> number_of("shop.count#12")
    12
    """
    return int(message_id.rpartition("#")[2])
