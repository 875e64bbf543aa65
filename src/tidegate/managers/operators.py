"""The Operator Manager: one per operator, on its host. It requests replicas, and keeps to safe limits on silence."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tidegate.managers.messages import Message, Numbering, OperatorReport, Rescale, ScaleGrant, ScaleRequest, Standing
from tidegate.managers.policies.policy import LocalPolicy, OperatorLimits, OperatorView, Wish


@dataclass(frozen=True, slots=True)
class OperatorSettings:
    """Settings of an Operator Manager besides its policy."""

    smoothing: float = 0.1
    """Weight of the newest period in the means of load and utilisation that the policy sees."""
    silence_s: float = 180.0
    """The centre counts as away after this long without a message."""
    allowance: int = 2
    """How far an operator may deviate from its last granted size while the centre is away."""
    cool_down_alone_s: float = 60.0
    rescue_step: int = 3
    """Maximum number of replicas in one urgent request."""
    rescue_load: float = 0.8
    """Busy share that a rescue aims for."""


@dataclass(slots=True)
class OperatorState:
    """Everything the manager remembers, as plain data, so it survives a restart of its host."""

    numbering: Numbering
    target: int
    """The size ordered from its region."""
    granted: int
    """The size that the centre last agreed to."""
    heard_s: float
    asked_id: str | None = None
    changes_alone: int = 0
    """Total over its lifetime, so that a repeated report is not charged twice."""
    changed_alone_s: float | None = None
    mean_rate_rows_per_s: float | None = None
    mean_busy: float | None = None
    """In replicas, so that the mean stays right when their number changes."""


def rescued(wish: Wish, view: OperatorView, limits: OperatorLimits, settings: OperatorSettings) -> tuple[Wish, bool]:
    """The wish and whether it is urgent. If load puts the objective at risk: as many replicas as the load needs.

    >>> limits = OperatorLimits(1, 8, objective_s=2.0, full_rate_rows_per_s=800.0)
    >>> view = OperatorView(2, 400.0, 1.0, response_s=9.0)
    >>> rescued(Wish(1, 1.0, "busy", 1), view, limits, OperatorSettings())[0].change
    3
    """
    if view.response_s <= limits.objective_s:
        return wish, False
    needed = min(math.ceil(limits.demand(view) / settings.rescue_load), limits.most)
    missing = min(needed - view.replicas, settings.rescue_step)
    if missing < max(1, wish.change):
        return wish, wish.change > 0
    text = f"response {view.response_s:.1f} s above {limits.objective_s:.1f} s"
    return Wish(missing, max(wish.score, 1.0) + missing, text, missing), True


class OperatorManager:
    """Monitor: its view. Analyse: the policy. Plan: wish or rescue. Execute: ask the centre, or act within limits."""

    def __init__(
        self,
        name: str,
        limits: OperatorLimits,
        policy: LocalPolicy,
        state: OperatorState,
        application: str,
        region: str,
        settings: OperatorSettings | None = None,
    ) -> None:
        self.name, self.limits, self.policy, self.state = name, limits, policy, state
        self._application, self._region = application, region
        self._settings = settings or OperatorSettings()

    def step(self, view: OperatorView, inbox: Sequence[Message], now_s: float) -> list[Message]:
        """Read the answers, learn from the period, and send what is wanted now."""
        out = self._read(inbox, now_s) if inbox else []
        view = self._smooth(view)
        self.policy.watch(view)
        if view.replicas != self.state.target:
            return out  # the last order is still in progress
        wish, urgent = self._plan(view)
        if wish.change == 0 and wish.free_change == 0:
            return out
        if now_s - self.state.heard_s <= self._settings.silence_s:
            return [*out, self._ask(view, wish, urgent, now_s)]
        alone = self._act_alone(view, wish, now_s)
        return out if alone is None else [*out, alone]

    def _read(self, inbox: Sequence[Message], now_s: float) -> list[Message]:
        out: list[Message] = []
        state = self.state
        for message in inbox:
            state.heard_s = max(state.heard_s, message.time_s)
            if isinstance(message, ScaleGrant) and message.request_id == state.asked_id:
                state.asked_id = None
                state.target = state.granted = min(max(message.target, self.limits.least), self.limits.most)
                out.append(self._order(now_s))
            elif isinstance(message, Standing):
                if message.target == state.target:
                    state.granted = state.target
                else:
                    out.append(self._report(now_s))
        return out

    def _smooth(self, view: OperatorView) -> OperatorView:
        """Exponential means of load and utilisation. The response is not smoothed, because a rescue must be fast."""
        state, share = self.state, self._settings.smoothing
        # After a change, queued work keeps replicas busy. Arrivals then describe the load better.
        busy = min(self.limits.demand(view), view.replicas) if view.settling else view.utilisation * view.replicas
        rate = view.arrival_rows_per_s
        state.mean_busy = busy if state.mean_busy is None else share * busy + (1 - share) * state.mean_busy
        known = state.mean_rate_rows_per_s
        state.mean_rate_rows_per_s = rate if known is None else share * rate + (1 - share) * known
        return replace(
            view,
            arrival_rows_per_s=state.mean_rate_rows_per_s,
            utilisation=min(1.0, state.mean_busy / max(1, view.replicas)),
        )

    def _plan(self, view: OperatorView) -> tuple[Wish, bool]:
        """The policy's wish or, if load puts the objective at risk, as many replicas as the load needs.

        The load is measured by arrivals, so a rescue need not wait for an earlier change to settle.
        """
        return rescued(self.policy.propose(view), view, self.limits, self._settings)

    def _ask(self, view: OperatorView, wish: Wish, urgent: bool, now_s: float) -> ScaleRequest:
        state = self.state
        state.asked_id = state.numbering.next_id()
        return ScaleRequest(
            id=state.asked_id,
            sender=self.name,
            to=self._application,
            time_s=now_s,
            operator=self.name,
            replicas=view.replicas,
            change=wish.change or wish.free_change,
            score=wish.score,
            reason=wish.reason,
            urgent=urgent,
            only_if_free=wish.change == 0,
        )

    def _act_alone(self, view: OperatorView, wish: Wish, now_s: float) -> Rescale | None:
        state, settings = self.state, self._settings
        rested = state.changed_alone_s is None or now_s - state.changed_alone_s >= settings.cool_down_alone_s
        low = max(self.limits.least, state.granted - settings.allowance)
        high = min(self.limits.most, state.granted + settings.allowance)
        target = min(max(view.replicas + wish.change, low), high)
        if target == view.replicas or not rested:
            return None
        state.target, state.changed_alone_s, state.asked_id = target, now_s, None
        state.changes_alone += 1
        return self._order(now_s)

    def _order(self, now_s: float) -> Rescale:
        return Rescale(
            id=self.state.numbering.next_id(),
            sender=self.name,
            to=self._region,
            time_s=now_s,
            operator=self.name,
            target=self.state.target,
        )

    def _report(self, now_s: float) -> OperatorReport:
        return OperatorReport(
            id=self.state.numbering.next_id(),
            sender=self.name,
            to=self._application,
            time_s=now_s,
            operator=self.name,
            replicas=self.state.target,
            changes_alone=self.state.changes_alone,
        )
