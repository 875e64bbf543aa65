"""Row latency per batch: from the observed event times to the commit of the batch.

There are two methods. KLL sketches (Karnin, Lang, Liberty 2016) are written by Spark 4.1 or newer and read by
`datasketches`, which uses the same format. Otherwise rows are counted: how many were older than each of several ages
when the batch was planned. Both can be merged, unlike quantiles.
"""

from __future__ import annotations

import base64
import binascii
import math
from collections.abc import Sequence

from tidegate.domain import LatencySample

EDGES_S = tuple(0.05 * (4 / 3) ** step for step in range(36))
"""Ages by which rows are counted: 50 ms to 20 minutes, each a third larger than the one before."""


def sketched_latency(sketch: str, committed_s: float) -> LatencySample | None:
    """Latency quantiles of a batch; None if it had no rows, or the bytes are not a sketch."""
    try:
        import datasketches
    except ModuleNotFoundError:
        return None
    try:
        arrived = datasketches.kll_doubles_sketch.deserialize(base64.b64decode(sketch))
    except (binascii.Error, ValueError, IndexError, RuntimeError):
        return None
    if arrived.is_empty():
        return None
    # The oldest rows have the highest latency: its 99th percentile is the first percentile of arrival time.
    p50, p90, p99 = (committed_s - float(arrived.get_quantile(rank)) for rank in (0.5, 0.1, 0.01))
    return LatencySample(int(arrived.n), p50, p90, p99, committed_s - float(arrived.get_min_value()))


def counted_latency(counts: Sequence[float], committed_s: float) -> LatencySample | None:
    """Latency quantiles from counts: rows, oldest and newest event time, the batch's time, rows older than each edge.

    >>> rows = [10, 90.0, 98.0, 100.0] + [8 if edge < 5 else 1 if edge < 9 else 0 for edge in EDGES_S]
    >>> found = counted_latency(rows, committed_s=102.0)
    >>> found.rows, round(found.p50_s, 1), found.max_s
    (10, 7.7, 12.0)
    """
    if len(counts) != 4 + len(EDGES_S) or counts[0] <= 0:
        return None
    rows, oldest_s, newest_s, planned_s, *older = counts
    if not all(map(math.isfinite, counts)) or newest_s < oldest_s or sorted(older, reverse=True) != older:
        return None
    since_s = committed_s - planned_s
    most_s, least_s = committed_s - oldest_s, committed_s - newest_s

    def quantile(share: float) -> float:
        left, age_s = (1 - share) * rows, 0.0
        edges = (0.0, *EDGES_S, max(EDGES_S[-1], most_s - since_s))
        above = (rows, *older, 0)
        for at in range(len(edges) - 1):
            if above[at + 1] <= left:
                inside = above[at] - above[at + 1]
                part = (above[at] - left) / inside if inside > 0 else 0.0
                age_s = edges[at] + part * (edges[at + 1] - edges[at])
                break
        return min(max(age_s + since_s, least_s), most_s)

    return LatencySample(int(rows), quantile(0.5), quantile(0.9), quantile(0.99), most_s)
