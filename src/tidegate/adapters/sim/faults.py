"""What can go wrong on purpose: faults that a test or a scenario injects into a simulated pool."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class MetricsMissing:
    """Batches are reported without stages, overhead and latency, as when the status store cannot be read."""

    from_s: float
    until_s: float


@dataclass(frozen=True, slots=True)
class MetricsStale:
    """Nothing is heard; what happened meanwhile is told when it is over."""

    from_s: float
    until_s: float


@dataclass(frozen=True, slots=True)
class ExecutorLost:
    """An executor dies in the middle of its work; its share of the running stages is done again."""

    at_s: float


@dataclass(frozen=True, slots=True)
class SlowStart:
    """Executors asked for in this time take `startup_s` to register."""

    from_s: float
    until_s: float
    startup_s: float


Fault = MetricsMissing | MetricsStale | ExecutorLost | SlowStart
