"""Shares of service classes, for scheduler pools and control groups: they count only while all have work."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
from numpy.typing import NDArray

from tidegate.planning.mpc_member import Member

_LEAST_SHARE = 0.02


def class_shares(
    members: list[Member], granted: NDArray[np.float64], limits: dict[str, int | None], slots: int
) -> dict[str, float]:
    """What is granted, times importance for classes that are not all held back: they go first.

    But nobody's claim is less than its grant: what admission lets in has to be done as well. A single class has nobody
    to share with.
    """
    grants, weights, first = defaultdict[str, float](float), dict[str, float](), set[str]()
    for member, slots_of in zip(members, granted, strict=True):
        grants[member.group] += max(float(slots_of), 1e-6)
        weights[member.group] = member.weight
        first |= {member.group} if limits[member.name] is None else set()
    if len(grants) < 2:
        return {}
    lightest = min(weights.values())
    claims = {group: grants[group] * (weights[group] / lightest if group in first else 1.0) for group in grants}
    total = sum(claims.values())
    parts = {group: max(claims[group] / total, grants[group] / slots) for group in grants}
    total = sum(parts.values())
    return {group: round(min(max(part / total, _LEAST_SHARE), 1.0), 3) for group, part in parts.items()}
