"""Requests to sources: hold rows back, admit all of them, or limit a possible burst."""

from __future__ import annotations

from math import isfinite

import numpy as np

from tidegate.domain import Proposal, Reason, SetAdmission
from tidegate.evaluate.table import Flags, Floats
from tidegate.plan.classes.member import Members, response_text
from tidegate.plan.proposersettings import PredictiveSettings

_LEAST_BOUND = 2.0
"""Lowest bound for an application that is served in full, in multiples of what a trigger takes now."""
_BATCH_SHARE = 0.4
"""Share of the objective that a batch may take if the application's own tasks are too few for its rows."""
_BOUND_CHANGE = 0.4
"""A bound is changed only if it is off by more than this share. It is far above normal batches, so it can be rough."""
_BOUNDS_PER_STEP = 64
"""Bounds are precautions against a burst. With many applications they take turns."""
_RESPONSES_PER_STEP = 64
"""Maximum number of limits whose reasons state the expected response."""


def to_hold_back(members: Members, limits: Floats, settings: PredictiveSettings) -> Flags:
    """Applications whose limit must be set, changed or removed."""
    return _off(limits, members.limit, settings.change)


def hold_back(members: Members, limits: Floats, granted: Floats, places: list[int], slots: int) -> list[Proposal]:
    """Set or remove the limit of each of these."""
    wanted, proposals = members.wanted_rows, []
    for number, at in enumerate(places):
        if not isfinite(limits[at]):
            text = f"{members.title(at)}: all its rows fit again: no limit"
            proposals.append(Proposal(SetAdmission(members.name(at), None), Reason("admit-all", text)))
            continue
        limit, slots_of = int(limits[at]), float(granted[at])
        text = (
            f"{members.title(at)}: gets {slots_of:.2f} of {slots} slots, enough for {limit} of {wanted[at]:.0f} rows "
            f"in {members.period_s[at]:g} s; {members.backlog_rows[at]:.0f} rows wait"
        )
        text += f", {response_text(members, at, slots_of)}" if number < _RESPONSES_PER_STEP else ""
        proposals.append(Proposal(SetAdmission(members.name(at), limit), Reason("hold-back", text)))
    return proposals


def standing_bounds(members: Members, granted: Floats, slots: int) -> Floats:
    """Maximum rows per trigger where a heavier class shares the slots, and where a rescale may be needed (`_of_tasks`).

    Infinite for the others.
    """
    weight = members.weight
    lighter = members.gated & (weight < weight.max())
    spare = max(0.0, slots - float(granted.sum())) / max(int(lighter.sum()), 1)
    rows = members.wanted_rows
    bound = np.maximum(_LEAST_BOUND * rows, rows + spare * members.period_s / members.row_s)
    bound = np.where(lighter, bound, np.inf)
    narrow = members.gated & (members.tasks < slots)
    narrow[narrow] = members.restartable(narrow)
    return np.maximum(np.floor(np.where(narrow, np.minimum(bound, _of_tasks(members)), bound)), 1.0)


def _of_tasks(members: Members) -> Floats:
    """Rows that an application's own tasks finish in part of its objective, or in a period; at least those of a period.

    Rows that wait for the tasks do not leave sooner in a longer batch, and it cannot be rescaled before the batch ends.
    """
    batch_s = np.maximum(members.period_s, _BATCH_SHARE * members.latency_s)
    fixed_s, row_s = members.cost
    rows = np.maximum(members.tasks * batch_s - fixed_s, 0.0) / np.maximum(row_s, 1e-9)
    return np.asarray(np.maximum(rows, members.rows_per_s * members.period_s))


def bound_bursts(members: Members, bounds: Floats, candidates: Flags) -> list[Proposal]:
    """Set the standing bounds of applications whose bound is far from the limit in force."""
    now, wanted = members.limit, members.wanted_rows
    bounded = candidates & np.isfinite(bounds)
    places = np.flatnonzero(bounded & _off(bounds, now, _BOUND_CHANGE))
    if len(places) > _BOUNDS_PER_STEP:
        # Limits that are in the way go first, then the largest applications.
        urgency = np.where(now[places] < bounds[places], np.inf, members.wanted_slots[places])
        places = np.sort(places[np.argsort(-urgency, kind="stable")[:_BOUNDS_PER_STEP]])
    proposals = []
    for at, rows, bound in zip(places.tolist(), wanted[places].tolist(), bounds[places].tolist(), strict=True):
        if rows <= bound:
            text = f"{members.title(at)}: its {rows:.0f} rows fit; in a burst, a batch may read {bound:.0f}"
        else:
            few = f"its tasks are too few for {rows:.0f} rows in {members.period_s[at]:g} s"
            text = f"{members.title(at)}: {few}: a batch may read {bound:.0f}"
        proposals.append(Proposal(SetAdmission(members.name(at), int(bound)), Reason("bound-burst", text)))
    return proposals


def _off(wanted: Floats, now: Floats, share: float) -> Flags:
    """Where a limit differs by more than this share from the one in force, or only one of the two is finite."""
    both = np.isfinite(wanted) & np.isfinite(now)
    apart = np.abs(np.subtract(wanted, now, out=np.zeros(len(now)), where=both))
    return np.asarray(np.where(both, apart > share * np.where(both, now, 0.0), np.isfinite(wanted) != np.isfinite(now)))
