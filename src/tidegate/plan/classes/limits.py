"""What is asked of sources: to hold rows back, to let all of them in, or to keep a burst within bounds."""

from __future__ import annotations

from math import isfinite

import numpy as np

from tidegate.domain import Proposal, Reason, SetAdmission
from tidegate.evaluate.table import Flags, Floats
from tidegate.plan.classes.member import Members, response_text
from tidegate.plan.settings import PredictiveSettings

_LEAST_BOUND = 2.0
"""Times what a trigger takes now: no bound comes closer to an application that is served in full."""
_BOUND_CHANGE = 0.4
"""A bound is moved only when it is off by more: it is far from what is taken, and need not be exact."""
_BOUNDS_PER_STEP = 64
"""Bounds are set for a burst that may come; with many applications they take turns."""
_RESPONSES_PER_STEP = 64
"""Limits whose reasons say what response to expect."""


def to_hold_back(members: Members, limits: Floats, settings: PredictiveSettings) -> Flags:
    """Whose limit, or the end of it, is not close enough to the one in force."""
    return _off(limits, members.limit, settings.change)


def hold_back(members: Members, limits: Floats, granted: Floats, places: list[int], slots: int) -> list[Proposal]:
    """A limit for each of these, or its end."""
    wanted, proposals = members.wanted_rows, []
    for number, at in enumerate(places):
        if not isfinite(limits[at]):
            text = f"{members.title(at)}: all its rows fit again"
            proposals.append(Proposal(SetAdmission(members.name(at), None), Reason("admit-all", text)))
            continue
        limit, slots_of = int(limits[at]), float(granted[at])
        text = (
            f"{members.title(at)}: {limit} of {wanted[at]:.0f} rows in {members.period_s[at]:g} s, "
            f"{slots_of:.2f} of {slots} slots; {members.backlog_rows[at]:.0f} wait"
        )
        text += f", {response_text(members, at, slots_of)}" if number < _RESPONSES_PER_STEP else ""
        proposals.append(Proposal(SetAdmission(members.name(at), limit), Reason("hold-back", text)))
    return proposals


def standing_bounds(members: Members, granted: Floats, slots: int) -> Floats:
    """Rows that a trigger may take at most, where a heavier class shares the slots; infinite for the others."""
    weight = members.weight
    lighter = members.gated & (weight < weight.max())
    spare = max(0.0, slots - float(granted.sum())) / max(int(lighter.sum()), 1)
    rows = members.wanted_rows
    bound = np.maximum(_LEAST_BOUND * rows, rows + spare * members.period_s / members.row_s)
    return np.where(lighter, np.maximum(np.floor(bound), 1.0), np.inf)


def bound_bursts(members: Members, bounds: Floats, candidates: Flags) -> list[Proposal]:
    """Limits that nothing reaches but a burst, for those whose bound is far from the limit in force."""
    now, wanted = members.limit, members.wanted_rows
    bounded = candidates & np.isfinite(bounds)
    places = np.flatnonzero(bounded & _off(bounds, now, _BOUND_CHANGE))
    if len(places) > _BOUNDS_PER_STEP:
        # A limit that is in the way goes first, then the largest.
        urgency = np.where(now[places] < bounds[places], np.inf, members.wanted_slots[places])
        places = np.sort(places[np.argsort(-urgency, kind="stable")[:_BOUNDS_PER_STEP]])
    return [
        Proposal(
            SetAdmission(members.name(at), int(bounds[at])),
            Reason(
                "bound-burst",
                f"{members.title(at)}: its {wanted[at]:.0f} rows fit; a burst may take {int(bounds[at])} at once",
            ),
        )
        for at in places.tolist()
    ]


def _off(wanted: Floats, now: Floats, share: float) -> Flags:
    """Where a limit differs by more than a share of the one in force, or only one of them is a limit."""
    both = np.isfinite(wanted) & np.isfinite(now)
    apart = np.abs(np.subtract(wanted, now, out=np.zeros(len(now)), where=both))
    return np.asarray(np.where(both, apart > share * np.where(both, now, 0.0), np.isfinite(wanted) != np.isfinite(now)))
