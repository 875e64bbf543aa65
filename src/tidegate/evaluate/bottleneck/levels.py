"""Bottleneck levels: the applications that need help, ranked by the bottleneck time of their worst operator."""

from __future__ import annotations

from collections.abc import Mapping


def bottleneck_levels(times_s: Mapping[str, float]) -> dict[str, int]:
    """The rank of each application, highest for the largest time, with the names in order of rank.

    >>> bottleneck_levels({"t1": 0.8, "t2": 0.2, "t3": 0.1, "t4": 0.5})
    {'t1': 4, 't4': 3, 't2': 2, 't3': 1}
    """
    ranked = sorted(times_s, key=lambda name: (-times_s[name], name))
    return {name: len(ranked) - place for place, name in enumerate(ranked)}
