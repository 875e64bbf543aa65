"""Weights the members of each stream by their running error at this step: the smaller the error, the more weight.

A member's weight is (least error ÷ its error)⁴, where errors are discounted mean squares. Two memories are averaged: a
short one that notices changes, and a long one that is not fooled by luck. ML-Poly, Bernstein aggregation and other
powers were tried: they were within half a per cent of this at one step, and up to two per cent worse at twelve.
"""

from __future__ import annotations

import numpy as np

from tidegate.evaluate.forecast.rows import Bools, Floats

MEMORIES = (0.98, 0.998)
_PACES = 1.0 - np.array(MEMORIES)[:, None, None]
_NOTHING = 1e-30  # a smaller mean square is rounding error
UNKNOWN = 1e300
"""Running error of a member without outcomes."""


def score(losses: Floats, judged: Floats, errors: Floats, spoke: Bools) -> None:
    """Add an outcome to running errors (memories × members × streams) and to the outcomes per member.

    A member's first outcomes have equal weight, later ones are discounted. Its very first error counts at least as much
    as the running error of the first member: latecomers have to earn their weight.
    """
    judged += spoke
    squares = errors * errors
    share = np.where(spoke, 1.0 / np.maximum(judged, 1.0), 0.0)
    pace = np.minimum(np.maximum(_PACES, share), 1e9 * share)  # 0 if a member made no forecast
    first = spoke & (judged == 1.0)
    if np.count_nonzero(first):
        losses[:, 0] = np.where(first[0], squares[0], losses[:, 0])
        started = np.maximum(squares, losses[:, :1] + pace[:, :1] * (squares[0] - losses[:, :1]))
        losses[:] = np.where(first, started, losses)
        pace = np.where(first, 0.0, pace)
    losses += pace * (squares - losses)
    losses[losses < _NOTHING] = 0.0


def weigh(losses: Floats, speaks: Bools) -> Floats:
    """The members' weights (members × streams), summing to 1. While nothing is known, the first has all the weight."""
    known = np.where(speaks, np.maximum(losses, _NOTHING), UNKNOWN)
    least = known.min(axis=1)
    ratio = least[:, None] / known
    ratio *= ratio
    ratio *= ratio
    ratio /= ratio.sum(axis=1)[:, None]
    weights: Floats = 0.5 * (ratio[0] + ratio[1])
    nothing = least[0] >= UNKNOWN
    if np.count_nonzero(nothing):
        weights[:, nothing] = 0.0
        weights[0, nothing] = 1.0
    return weights
