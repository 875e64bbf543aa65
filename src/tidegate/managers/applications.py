"""The Application Manager: central, one per application. It grants a bounded number of changes, best first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tidegate.managers.messages import (
    Denial,
    Message,
    MoveGrant,
    MoveRequest,
    Numbering,
    OperatorReport,
    ScaleGrant,
    ScaleRequest,
    Standing,
    number_of,
)
from tidegate.managers.tokens import TokenBucket, TokenRule


@dataclass(frozen=True, slots=True)
class ApplicationView:
    """End-to-end latency over the last period, and the objective. The latency is None if no row was completed."""

    latency_s: float | None
    objective_s: float

    @property
    def violated(self) -> bool:
        return self.latency_s is not None and self.latency_s > self.objective_s


@dataclass(frozen=True, slots=True)
class ApplicationSettings:
    """Token rules for reconfigurations: per operator, for all operators together, and for rescues."""

    operator: TokenRule = field(default_factory=lambda: TokenRule(size=4, refill_s=600))
    application: TokenRule = field(default_factory=lambda: TokenRule(size=8, refill_s=120))
    rescue: TokenRule = field(default_factory=lambda: TokenRule(size=4, refill_s=300))
    fresh_s: float = 90.0
    """Requests older than this describe a load that has changed since."""
    second_opportunity: bool = False
    """Once one operator reconfigures, also grant what others would do if it were free."""


@dataclass(slots=True)
class OperatorRecord:
    """What the manager knows about one operator."""

    bucket: TokenBucket
    target: int | None = None
    changes_alone: int | None = None
    answered: dict[str, int] = field(default_factory=dict)
    """Sender → number of its last answered request."""


@dataclass(slots=True)
class ApplicationState:
    """Everything the manager remembers, as plain data. The operators' reports fill an empty state."""

    numbering: Numbering
    operators: dict[str, OperatorRecord]
    bucket: TokenBucket
    rescue: TokenBucket
    regions: dict[str, str]
    """Operator → the region manager that requests its moves."""

    @classmethod
    def fresh(cls, name: str, regions: dict[str, str], settings: ApplicationSettings) -> ApplicationState:
        return cls(
            Numbering(name),
            {operator: OperatorRecord(TokenBucket(settings.operator.size)) for operator in regions},
            TokenBucket(settings.application.size),
            TokenBucket(settings.rescue.size),
            regions,
        )


Request = ScaleRequest | MoveRequest


class ApplicationManager:
    """Monitor: requests and latency. Analyse: which requests rescue. Plan: by score and tokens. Execute: answers."""

    def __init__(self, name: str, state: ApplicationState, settings: ApplicationSettings | None = None) -> None:
        self.name, self.state = name, state
        self._settings = settings or ApplicationSettings()

    def step(self, view: ApplicationView, inbox: Sequence[Message], now_s: float) -> list[Message]:
        """Answer every request once, and send every operator its standing."""
        requests = self._read(inbox, now_s)
        out: list[Message] = []
        chosen: set[str] = set()
        # Rescues first, then by value. `_read` has kept only the newest request of each kind.
        for request in sorted(requests, key=lambda r: (not self._rescues(r, view), -r.score, r.operator, r.id)):
            refusal = self._refusal(request, view, chosen, now_s)
            if refusal is None:
                chosen.add(request.operator)
                out.append(self._grant(request, now_s))
            else:
                out.append(self._deny(request, refusal, now_s))
        out.extend(self._standing(operator, record, now_s) for operator, record in self.state.operators.items())
        return out

    def _read(self, inbox: Sequence[Message], now_s: float) -> list[Request]:
        latest: dict[tuple[str, str], Request] = {}
        for message in inbox:
            if isinstance(message, OperatorReport):
                self._adopt(message, now_s)
            elif isinstance(message, ScaleRequest | MoveRequest):
                record = self.state.operators.get(message.operator)
                if record is None or number_of(message.id) <= record.answered.get(message.sender, 0):
                    continue  # not for us, or already answered
                key = (message.operator, message.kind if isinstance(message, ScaleRequest) else message.host)
                if key not in latest or number_of(message.id) > number_of(latest[key].id):
                    latest[key] = message
        return list(latest.values())

    def _adopt(self, report: OperatorReport, now_s: float) -> None:
        """Adopt the reported size, and charge changes that the operator made alone."""
        record = self.state.operators.get(report.operator)
        if record is None:
            return
        # Without an earlier report nothing is charged, because those changes may have been paid for already.
        new = 0 if record.changes_alone is None else max(0, report.changes_alone - record.changes_alone)
        record.bucket.charge(self._settings.operator, now_s, new)
        self.state.bucket.charge(self._settings.application, now_s, new)
        record.changes_alone = max(report.changes_alone, record.changes_alone or 0)
        record.target = report.replicas

    def _rescues(self, request: Request, view: ApplicationView) -> bool:
        grows = isinstance(request, MoveRequest) or request.change > 0
        return request.urgent and grows and view.violated

    def _refusal(self, request: Request, view: ApplicationView, chosen: set[str], now_s: float) -> str | None:
        """Why the request is refused; None if the tokens were taken and it is granted."""
        settings, record = self._settings, self.state.operators[request.operator]
        if now_s - request.time_s > settings.fresh_s:
            return f"the request is {now_s - request.time_s:.0f} s old"
        if request.operator in chosen:
            # One pause serves both: a move is combined with a change of size, and vice versa.
            return None if isinstance(request, MoveRequest) else "another change of the operator takes precedence"
        if isinstance(request, ScaleRequest) and request.only_if_free:
            if not (settings.second_opportunity and chosen):
                return "nothing else is being reconfigured"
            return None if record.bucket.take(settings.operator, now_s) else "the operator has no tokens left"
        if record.bucket.left(settings.operator, now_s) >= 1 and self.state.bucket.take(settings.application, now_s):
            record.bucket.take(settings.operator, now_s)
            return None
        if self._rescues(request, view):
            return None if self.state.rescue.take(settings.rescue, now_s) else "no tokens left, not even for rescues"
        return "no tokens left"

    def _grant(self, request: Request, now_s: float) -> Message:
        record = self.state.operators[request.operator]
        record.answered[request.sender] = max(number_of(request.id), record.answered.get(request.sender, 0))
        id_ = self.state.numbering.next_id()
        if isinstance(request, MoveRequest):
            return MoveGrant(
                id=id_,
                sender=self.name,
                to=request.sender,
                time_s=now_s,
                request_id=request.id,
                operator=request.operator,
                host=request.host,
                reason=request.reason,
            )
        record.target = request.replicas + request.change
        return ScaleGrant(
            id=id_,
            sender=self.name,
            to=request.sender,
            time_s=now_s,
            request_id=request.id,
            operator=request.operator,
            target=record.target,
            reason=request.reason,
        )

    def _deny(self, request: Request, reason: str, now_s: float) -> Denial:
        record = self.state.operators[request.operator]
        record.answered[request.sender] = max(number_of(request.id), record.answered.get(request.sender, 0))
        return Denial(
            id=self.state.numbering.next_id(),
            sender=self.name,
            to=request.sender,
            time_s=now_s,
            request_id=request.id,
            reason=reason,
        )

    def _standing(self, operator: str, record: OperatorRecord, now_s: float) -> Standing:
        return Standing(
            id=self.state.numbering.next_id(),
            sender=self.name,
            to=operator,
            time_s=now_s,
            operator=operator,
            target=record.target,
        )
