"""User requests to a running controller: pause, resume, another mode, other bounds, apply a recommendation.

A request waits here until the control thread reads it at its next tick. The control thread itself never waits.
"""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass
from typing import Literal

from pydantic import ValidationError

from tidegate.domain import Action, InvalidInput, Mode
from tidegate.domain.policy import Policy
from tidegate.domain.rules import ExecutorRule

Act = Literal["pause", "resume", "mode", "bounds", "apply"]
_MOST_WAITING = 32


@dataclass(frozen=True, slots=True)
class SteerRequest:
    """One user request."""

    act: Act
    who: str
    mode: Mode | None = None
    """For `mode`."""
    least: int | None = None
    """For `bounds`: the minimum and maximum number of executors."""
    most: int | None = None
    actions: tuple[Action, ...] = ()
    """For `apply`: the actions recommended at the time of the request."""


class Steering:
    """The mailbox between users and the control thread.

    >>> steering = Steering()
    >>> steering.ask(SteerRequest("pause", "ann"), Policy())
    >>> [steering.applied(request, Policy())[1] for request in steering.requests()]
    ['paused: observing only']
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: deque[SteerRequest] = deque()
        self._approved: SteerRequest | None = None
        self._before: Mode | None = None

    # called by users

    def ask(self, request: SteerRequest, policy: Policy) -> None:
        """Queue a request. A request that this policy does not allow is refused at once."""
        if request.act == "bounds":
            with_bounds(policy, request.least, request.most)
        with self._lock:
            if len(self._waiting) >= _MOST_WAITING:
                raise InvalidInput("too many requests are waiting for the controller; check that it is still running")
            self._waiting.append(request)

    @property
    def paused(self) -> bool:
        return self._before is not None

    # called by the control thread

    def requests(self) -> list[SteerRequest]:
        """Requests since the last call. An approval is kept for the decision that follows."""
        if not self._waiting:
            return []
        with self._lock:
            found = list(self._waiting)
            self._waiting.clear()
        self._approved = next((one for one in reversed(found) if one.act == "apply"), None)
        return [one for one in found if one.act != "apply"]

    def applied(self, request: SteerRequest, policy: Policy) -> tuple[Policy, str]:
        """The policy after the request, and a text that says what was done."""
        if request.act == "pause":
            if self._before is not None:
                return policy, "already paused"
            self._before = policy.mode
            return policy.model_copy(update={"mode": Mode.OFF}), "paused: observing only"
        if request.act == "resume":
            if self._before is None:
                return policy, f"not paused; mode {policy.mode}"
            mode, self._before = self._before, None
            return policy.model_copy(update={"mode": mode}), f"resumed in mode {mode}"
        if request.act == "mode" and request.mode is not None:
            self._before = None
            return policy.model_copy(update={"mode": request.mode}), f"mode {request.mode}"
        try:
            changed = with_bounds(policy, request.least, request.most)
        except InvalidInput as error:  # the policy has changed since the request
            return policy, f"refused: {error}"
        return changed, f"executors {changed.executors.min} to {changed.executors.max}"

    def approval(self) -> SteerRequest | None:
        """The actions that a user wants applied; valid for one tick."""
        request, self._approved = self._approved, None
        return request

    def forget(self) -> None:
        """Another policy is in force, so there is nothing to resume."""
        self._before = None


def with_bounds(policy: Policy, least: int | None, most: int | None) -> Policy:
    """The policy with other bounds on the pool.

    >>> with_bounds(Policy(), 2, None).executors.min
    2
    """
    rule = policy.executors
    wanted = {"min": rule.min if least is None else least, "max": rule.max if most is None else most}
    try:
        executors = ExecutorRule.model_validate({**rule.model_dump(by_alias=True), **wanted})
    except ValidationError as error:
        raise InvalidInput(error.errors()[0]["msg"].removeprefix("Value error, ")) from None
    return policy.model_copy(update={"executors": executors})
