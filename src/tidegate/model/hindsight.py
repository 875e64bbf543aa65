"""What recorded arrivals would have meant for pools that never fall below a given size.

Such a pool follows the load as far as it can: an executor needed at t is ready a lead time later, and stays for a
while. So any pool handles slow swings. What remains are bursts that end before an executor has started: only executors
that were already running help with those.

The queue is a fluid. If A(t) is the work that has arrived, c(t) the slots, and X(t) = A(t) − ∫c, the waiting work is

    Q(t) = X(t) − min over s ≤ t of X(s)

and rows that arrived at t are done when A − Q has reached A(t). The rows of a batch commit together, after the previous
batch, so a row takes up to twice as long as in a fluid. A row is over the objective if the fluid takes more than half
of the objective.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_TOGETHER = 2.0
"""Latency of the first row of a batch relative to a fluid: the batch before it, and its own."""


@dataclass(frozen=True, slots=True)
class FollowingPool:
    """A pool that follows the load: it has what was needed a lead time before, for as long as executors stay."""

    needed: Floats
    """Slots at each step."""
    lead_s: float
    stays_s: float

    def slots(self, step_s: float) -> Floats:
        return _followed(self.needed, ceil(self.lead_s / step_s), ceil(self.stays_s / step_s))


def late_by_floor(
    work: Floats, step_s: float, floors: Floats, pool: FollowingPool, slack_s: float
) -> NDArray[np.bool_]:
    """Whether the work of each step (columns) is done too late in pools of at least this many slots (rows).

    `work` is the arriving work, in slots that it keeps busy. `slack_s` is what the objective leaves for waiting.

    >>> work = np.array([1.0] * 6 + [8.0] * 2 + [1.0] * 12)  # a burst of ten seconds
    >>> late = late_by_floor(work, 5.0, np.array([2.0, 6.0]), FollowingPool(work, 30.0, 60.0), slack_s=14.0)
    >>> ((late @ work) / work.sum()).round(2).tolist()
    [0.59, 0.0]
    """
    slots = np.maximum(floors[:, None], pool.slots(step_s))
    came = np.concatenate(((0.0,), np.cumsum(work * step_s)))
    spare = came - np.concatenate((np.zeros((len(floors), 1)), np.cumsum(slots * step_s, axis=1)), axis=1)
    done = came - (spare - np.minimum.accumulate(spare, axis=1))
    # The work done by the time that rows arriving in the middle of a step have waited for as long as allowed.
    ahead = 0.5 + slack_s / _TOGETHER / step_s
    whole = int(ahead)
    last = len(work)
    first, then = (np.minimum(np.arange(len(work)) + whole + more, last) for more in (0, 1))
    by_then = done[:, first] + (ahead - whole) * (done[:, then] - done[:, first])
    # The outcome of the newest rows is not known yet.
    known = np.arange(len(work)) + whole + 1 <= last
    middle = (came[:-1] + came[1:]) / 2
    return np.asarray((by_then < middle - 1e-9) & known)


def _followed(needed: Floats, lead: int, stays: int) -> Floats:
    """The maximum needed from `lead + stays` steps to `lead` steps ago. Before the first step, its need is assumed.

    >>> _followed(np.array([1.0, 5.0, 1.0, 1.0, 1.0, 1.0]), lead=1, stays=2).tolist()
    [1.0, 1.0, 5.0, 5.0, 5.0, 1.0]
    """
    before = np.concatenate((np.full(lead + stays, needed[0]), needed))[: len(needed) + stays]
    windows = np.lib.stride_tricks.sliding_window_view(before, stays + 1)
    return np.asarray(windows.max(axis=1))
