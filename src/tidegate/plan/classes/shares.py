"""Shares of service classes, for scheduler pools and control groups. They matter only while all classes have work."""

from __future__ import annotations

import numpy as np

from tidegate.evaluate.table import Floats
from tidegate.plan.classes.member import Members

_LEAST_SHARE = 0.02
_ABOVE_GRANT = 1.1
"""Batches come in bursts, so a class that got only its mean would fall behind."""


def class_shares(members: Members, granted: Floats, limits: Floats, slots: int) -> dict[str, float]:
    """The grants, multiplied by importance for classes that are not held back entirely: they go first.

    Those may also claim what arrivals at the upper edge of their forecast would take: an unused claim costs nothing.
    Admitted rows must be processed too, so no claim is below its grant. If the claims exceed the slots, no class that
    is served in full ends up below its need. With a single class there is nothing to share.
    """
    group, count = members.group, len(members.groups)
    present = np.flatnonzero(np.bincount(group, minlength=count))
    if len(present) < 2:
        return {}
    free = np.isinf(limits)
    first = np.bincount(group, free, count) > 0
    grants = np.bincount(group, np.maximum(granted, 1e-6), count)
    surge = np.bincount(group, np.where(free, np.maximum(granted, members.surge_slots), granted), count)
    weight = np.zeros(count)
    weight[group] = members.weight
    lightest = weight[present].min()
    claims = np.where(first, np.maximum(surge, grants) * weight / lightest, grants)
    parts = np.maximum(claims / claims[present].sum(), grants / slots)
    parts = parts / parts[present].sum()
    full = np.where(first, np.maximum(parts, _ABOVE_GRANT * grants / slots), 0.0)
    others = np.where(first, 0.0, parts)
    if others.sum() > 0 and full.sum() < 1.0:
        parts = full + others * (1.0 - full.sum()) / others.sum()
    parts = np.clip(parts, _LEAST_SHARE, 1.0)
    return {members.groups[number]: round(float(parts[number]), 3) for number in present.tolist()}
