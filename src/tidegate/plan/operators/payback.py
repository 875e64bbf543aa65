"""The cost of a pause, and how long a shorter latency takes to pay for it.

Rows that arrive during a pause P wait, and keep waiting while the backlog is cleared. With arrival rate λ and
utilisation ρ after the change, the lost row-seconds are the triangle λ·P²/2 · 1/(1 − ρ). A latency shorter by Δ gains
λ·Δ per second.
"""

from __future__ import annotations

from math import inf

from tidegate.evaluate.bottleneck import ApplicationMetrics

_MOST_USED = 0.95


def payback_s(pause_s: float, gain_s: float, utilisation: float) -> float:
    """Seconds until the pause has paid for itself: `P² / (2·Δ·(1 − ρ))`. The arrival rate cancels out.

    >>> payback_s(pause_s=4.0, gain_s=0.5, utilisation=0.5)
    32.0
    """
    if gain_s <= 0:
        return inf
    return pause_s**2 / (2 * gain_s * (1 - min(max(utilisation, 0.0), _MOST_USED)))


def utilisation_after(metrics: ApplicationMetrics, saved_s: float) -> float:
    """Share of the time that rows need after the change. The fixed part of a batch does not grow with a backlog."""
    after_s = max(0.0, metrics.batch_s - saved_s)
    return max(0.0, metrics.execute_latency_s - saved_s) / max(metrics.interval_s, after_s, 1e-9)


def latency_after_s(metrics: ApplicationMetrics, saved_s: float) -> float:
    """Latency of the oldest row of a batch: the time between two batches, plus its batch."""
    after_s = max(0.0, metrics.batch_s - saved_s)
    return max(metrics.interval_s, after_s) + after_s
