"""Which member to believe, per stream: by running error at the step asked for, the better the more.

A member's weight is (least error ÷ its error)⁴, errors being discounted mean squares; two memories, a short one that
notices a change and a long one that is not fooled by luck, are averaged. ML-Poly and Bernstein aggregation and other
powers were tried: within half a per cent of this at one step, and up to two per cent worse at twelve.
"""

from __future__ import annotations

import numpy as np

from tidegate.evaluate.forecast.rows import Bools, Floats

MEMORIES = (0.98, 0.998)
_PACES = 1.0 - np.array(MEMORIES)[:, None, None]
_NOTHING = 1e-30  # a mean square below is rounding
UNKNOWN = 1e300
"""Running error of a member that was never judged."""


def score(losses: Floats, judged: Floats, errors: Floats, spoke: Bools) -> None:
    """Add an outcome to running errors (memories × members × streams) and to the outcomes per member.

    A member's first outcomes count alike, later ones are discounted. Its very first error counts at least as much as
    the first member's running one: late comers have to earn their weight.
    """
    judged += spoke
    squares = errors * errors
    share = np.where(spoke, 1.0 / np.maximum(judged, 1.0), 0.0)
    pace = np.minimum(np.maximum(_PACES, share), 1e9 * share)  # 0 where a member said nothing
    first = spoke & (judged == 1.0)
    if np.count_nonzero(first):
        losses[:, 0] = np.where(first[0], squares[0], losses[:, 0])
        started = np.maximum(squares, losses[:, :1] + pace[:, :1] * (squares[0] - losses[:, :1]))
        losses[:] = np.where(first, started, losses)
        pace = np.where(first, 0.0, pace)
    losses += pace * (squares - losses)
    losses[losses < _NOTHING] = 0.0


def weigh(losses: Floats, speaks: Bools) -> Floats:
    """The members' weights (members × streams), summing to 1; all on the first member while nothing is known."""
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
