"""Learned bandwidth of the links between operators: a property of the link, not of a single batch.

If a batch moved m bytes while its tasks waited w slot-seconds, its link carried m / w bytes per second per task. The
waiting time is noisy in both directions: a fetch that overlaps with work hardly waits, and a busy host waits for other
reasons. So the estimate follows the samples slowly, and faster upwards: a link that has been fast can be fast again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import exp, log

from tidegate.domain import BatchSample

_FASTER, _SLOWER = 0.2, 0.04  # how far the estimate moves towards a sample, in logarithms
_MOST = log(2.0)  # one sample counts as at most a factor of two
_LEAST_WAIT_S = 1e-4  # below the clock's resolution: nothing was measured


@dataclass(slots=True)
class Links:
    """Bytes per second per task through the links of each operator."""

    incoming: dict[str, float] = field(default_factory=dict)
    outgoing: dict[str, float] = field(default_factory=dict)


def learn_links(links: Links, batch: BatchSample) -> None:
    """Learn from what a batch moved and how long its tasks waited for it.

    >>> from tidegate.domain import OperatorSample
    >>> links = Links()
    >>> for moved in (1000, 4000):
    ...     waited_s = moved / 500
    ...     stage = OperatorSample("count", 2, 10, 9.0, 1.0, waited_s, 1.0, bytes_in=moved, fetch_wait_s=waited_s)
    ...     learn_links(links, BatchSample(0, 0.0, 1.0, 10, 9.0, 0.1, 0, operators=(stage,)))
    >>> links.incoming
    {'count': 500.0}
    """
    for stage in batch.operators:
        waited_s = min(stage.busy_s, stage.communication_s or 0.0)
        fetched_s = min(stage.fetch_wait_s or 0.0, waited_s)
        _learn(links.incoming, stage.name, stage.bytes_in, fetched_s)
        _learn(links.outgoing, stage.name, stage.bytes_out, waited_s - fetched_s)


def _learn(rates: dict[str, float], operator: str, moved: int | None, waited_s: float) -> None:
    if not moved or waited_s < _LEAST_WAIT_S:
        return
    seen = moved / waited_s
    known = rates.setdefault(operator, seen)
    ratio = min(max(log(seen / known), -_MOST), _MOST)
    rates[operator] = known * exp((_FASTER if ratio > 0 else _SLOWER) * ratio)
