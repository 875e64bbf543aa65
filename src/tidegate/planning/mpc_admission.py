"""What the mpc planner asks of sources: to hold rows back, to let all of them in, or to keep a burst within bounds."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tidegate.domain import Proposal, Reason, SetAdmission
from tidegate.domain.policy import Policy
from tidegate.planning.mpc_member import Member, response_text

Floats = NDArray[np.float64]

_LEAST_BOUND = 2.0
"""Times what a trigger takes now: no bound comes closer to an application that is served in full."""
_BOUND_CHANGE = 0.4
"""A bound is moved only when it is off by more: it is far from what is taken, and need not be exact."""


def hold_back(member: Member, limit: int | None, slots_of: float, slots: int, policy: Policy) -> Proposal | None:
    """A limit, or its end; nothing where the one in force is close enough."""
    now = member.limit
    if limit == now or (limit is not None and now is not None and abs(limit - now) <= policy.predictive.change * now):
        return None
    if limit is None:
        text = f"{member.name} ({member.group}): all its rows fit again"
        return Proposal(SetAdmission(member.name, None), Reason("admit-all", text))
    text = (
        f"{member.name} ({member.group}): {limit} of {member.wanted_rows:.0f} rows in {member.period_s:g} s, "
        f"{slots_of:.2f} of {slots} slots; {member.backlog_rows:.0f} wait, {response_text(member, slots_of)}"
    )
    return Proposal(SetAdmission(member.name, limit), Reason("hold-back", text))


def standing_bounds(members: list[Member], granted: Floats, slots: int) -> dict[str, int]:
    """Rows that a trigger may take at most, of those whom a heavier class shares the slots with."""
    heaviest = max(member.weight for member in members)
    lighter = [member for member in members if member.gated and member.weight < heaviest]
    spare = max(0.0, slots - float(granted.sum())) / max(len(lighter), 1)
    return {
        member.name: max(1, int(max(_LEAST_BOUND * rows, rows + spare * member.period_s / member.row_s)))
        for member in lighter
        for rows in [member.wanted_rows]
    }


def bound_burst(member: Member, limit: int) -> Proposal | None:
    """A limit that nothing reaches but a burst."""
    if member.limit is not None and abs(limit - member.limit) <= _BOUND_CHANGE * member.limit:
        return None
    text = f"{member.name} ({member.group}): its {member.wanted_rows:.0f} rows fit; a burst may take {limit} at once"
    return Proposal(SetAdmission(member.name, limit), Reason("bound-burst", text))
