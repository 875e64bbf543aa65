"""Row latency from mergeable sketches of event time, to the commit of the batch.

Quantiles of quantiles do not merge; KLL sketches do (Karnin, Lang, Liberty 2016). Spark builds one per batch, and
`datasketches` reads the very bytes.
"""

from __future__ import annotations

import base64
import binascii

import datasketches

from tidegate.domain import LatencySample


def latency_sample(sketch: str, committed_s: float) -> LatencySample | None:
    """Latency quantiles of a batch; None where it had no rows, or the bytes are no sketch."""
    try:
        arrived = datasketches.kll_doubles_sketch.deserialize(base64.b64decode(sketch))
    except (binascii.Error, ValueError, IndexError, RuntimeError):
        return None
    if arrived.is_empty():
        return None
    # The oldest rows wait longest: the 99th percentile of latency is the first percentile of arrival.
    p50, p90, p99 = (committed_s - float(arrived.get_quantile(rank)) for rank in (0.5, 0.1, 0.01))
    return LatencySample(int(arrived.n), p50, p90, p99, committed_s - float(arrived.get_min_value()))
