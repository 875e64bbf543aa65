"""The part of a pool that an application can count on among others."""

from __future__ import annotations


def room(own: float, in_its_way: float, total: float, slots: float) -> float:
    """The share of the slots that others do not keep busy, but at least its fair share.

    `own` are the slots it keeps busy itself, `in_its_way` those of applications that do not yield to it, `total` those
    of all together.

    >>> room(own=1.0, in_its_way=1.0, total=2.0, slots=4.0), room(own=1.0, in_its_way=5.0, total=6.0, slots=4.0)
    (0.75, 0.16666666666666666)
    """
    if slots <= 0 or total <= 0:
        return 1.0
    return min(1.0, max(own / total, (slots - in_its_way) / slots))
