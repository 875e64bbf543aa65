"""Faults that a test or a scenario injects into a simulated pool."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class MetricsMissing:
    """Batches are reported without stages, overhead and latency, as if the status store could not be read."""

    from_s: float
    until_s: float


@dataclass(frozen=True, slots=True)
class MetricsStale:
    """No reports arrive. What happened meanwhile is reported when it is over."""

    from_s: float
    until_s: float


@dataclass(frozen=True, slots=True)
class ExecutorLost:
    """An executor dies in the middle of its work. Its share of the running stages is repeated."""

    at_s: float


@dataclass(frozen=True, slots=True)
class SlowStart:
    """Executors requested in this time take `startup_s` to register."""

    from_s: float
    until_s: float
    startup_s: float


Fault = MetricsMissing | MetricsStale | ExecutorLost | SlowStart
