"""Infers the trigger interval of a query from its batches, where nothing states it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from tidegate.domain import BatchSample

_PAUSE_S = 0.05
"""A batch that starts this long after the last one was committed has waited: for its trigger, or for rows."""
_STEP_S = 0.05
"""Intervals are multiples of this."""
_SHORTEST_S = 0.1
_OFF_S = 0.02
"""Batches start up to this long after their trigger."""
_LEAST_WAITED = 3


def interval_s(batches: Sequence[BatchSample]) -> float:
    """Return the trigger's interval. 0 (a batch as soon as the last one has ended) if no interval can be seen.

    Triggers are at multiples of the interval since the epoch, so an interval is believed if nearly all batches that
    waited start at such times.

    >>> def batch(started_s, duration_s):
    ...     return BatchSample(0, started_s, duration_s, 9, None, None, None)
    >>> interval_s([batch(10.0, 0.5), batch(12.0, 3.1), batch(15.1, 0.4), batch(16.0, 0.3), batch(18.003, 0.2)])
    2.0
    >>> interval_s([batch(10.0, 0.5), batch(10.5, 0.6), batch(11.1, 0.5), batch(12.3, 0.5), batch(14.7, 0.5)])
    0.0
    """
    waited_s = [
        after.started_s for before, after in pairwise(batches) if after.started_s - before.committed_s >= _PAUSE_S
    ]
    if len(waited_s) < _LEAST_WAITED:
        return 0.0
    interval_s = round(min(after_s - before_s for before_s, after_s in pairwise(waited_s)) / _STEP_S) * _STEP_S
    if interval_s < _SHORTEST_S:
        return 0.0
    off_s = [abs(time_s - round(time_s / interval_s) * interval_s) for time_s in waited_s]
    return round(interval_s, 2) if sum(one <= _OFF_S for one in off_s) >= 0.8 * len(off_s) else 0.0
