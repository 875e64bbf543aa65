"""Requests of people to a running controller: pause, resume, another mode, other bounds, one recommendation.

A request waits here until the control thread takes it up at its next tick. The control thread waits for nobody.
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
class Request:
    """What somebody asked for."""

    act: Act
    who: str
    mode: Mode | None = None
    """For `mode`."""
    least: int | None = None
    """For `bounds`: the fewest executors, and the most."""
    most: int | None = None
    actions: tuple[Action, ...] = ()
    """For `apply`: what was recommended when it was asked for."""


class Steering:
    """The letterbox between people and the control thread.

    >>> steering = Steering()
    >>> steering.ask(Request("pause", "ann"), Policy())
    >>> [steering.applied(request, Policy())[1] for request in steering.requests()]
    ['paused: watching only']
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: deque[Request] = deque()
        self._approved: Request | None = None
        self._before: Mode | None = None

    # people

    def ask(self, request: Request, policy: Policy) -> None:
        """Leave a request; what cannot be done under this policy is refused at once."""
        if request.act == "bounds":
            with_bounds(policy, request.least, request.most)
        with self._lock:
            if len(self._waiting) >= _MOST_WAITING:
                raise InvalidInput("too many requests wait for the controller; is it still running?")
            self._waiting.append(request)

    @property
    def paused(self) -> bool:
        return self._before is not None

    # the control thread

    def requests(self) -> list[Request]:
        """What was asked since the last time; an approval is kept for the decision that follows."""
        if not self._waiting:
            return []
        with self._lock:
            found = list(self._waiting)
            self._waiting.clear()
        self._approved = next((one for one in reversed(found) if one.act == "apply"), None)
        return [one for one in found if one.act != "apply"]

    def applied(self, request: Request, policy: Policy) -> tuple[Policy, str]:
        """The policy that does what was asked, and what is done in words."""
        if request.act == "pause":
            if self._before is not None:
                return policy, "paused already"
            self._before = policy.mode
            return policy.model_copy(update={"mode": Mode.OFF}), "paused: watching only"
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
        except InvalidInput as error:  # the policy has changed since it was asked
            return policy, f"refused: {error}"
        return changed, f"executors {changed.executors.min} to {changed.executors.max}"

    def approval(self) -> Request | None:
        """Which actions somebody wants applied; it holds for one tick."""
        request, self._approved = self._approved, None
        return request

    def forget(self) -> None:
        """Another policy is in force: there is nothing to resume."""
        self._before = None


def with_bounds(policy: Policy, least: int | None, most: int | None) -> Policy:
    """The policy with other bounds of the pool.

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
