"""Threshold identification (Me-Stream, section 3.1): a line fitted to latency over time shows what is usual.

    f(t) = w·t + b,  w = Σ y·(x − x̄) / (Σ x² − (Σ x)²/m),  b = (1/m) Σ (y − w·x),  e = (1/m) Σ (f(x) − y)²

A latency beyond the line is an *effective bottleneck value*; the largest in an interval is the *reference bottleneck*.
If w, b and e stay the same over several refits, the line is stable and is checked less often until a latency leaves it.
Time is counted from the middle of the fitted span, so that b is the mean and well determined. The fit is written out
because its three numbers are monitored, and a dozen points need no library.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import sqrt

_LEAST_POINTS = 5
_MOST_POINTS = 240
_SIGMAS = 3.0  # noise on a steady latency stays below this many standard errors
_TOLERANCE = 0.1  # of the mean latency: a line that moves less counts as unchanged
_CALM_REFITS = 3


@dataclass(frozen=True, slots=True)
class LatencyLine:
    """`f(t) = w · (t − origin_s) + b` with mean squared error `e`."""

    origin_s: float
    w: float
    b: float
    e: float

    def at(self, time_s: float) -> float:
        return self.w * (time_s - self.origin_s) + self.b


@dataclass(slots=True)
class ThresholdModel:
    """What is kept about one application's latency. It is dropped when the application ends."""

    points: list[tuple[float, float]] = field(default_factory=list)
    line: LatencyLine | None = None
    calm_refits: int = 0
    effective: list[tuple[float, float]] = field(default_factory=list)
    """Effective bottleneck values of the last interval, `(time_s, latency_s)`."""
    refit_s: float | None = None

    @property
    def stable(self) -> bool:
        return self.calm_refits >= _CALM_REFITS


def fit_latency_line(times_s: Sequence[float], latencies_s: Sequence[float]) -> LatencyLine:
    """Least squares, by the paper's sums.

    >>> line = fit_latency_line([10, 11, 12, 13], [1.0, 1.2, 1.4, 1.6])
    >>> round(line.w, 6), round(line.b, 6), round(line.at(20), 6)
    (0.2, 1.3, 3.0)
    """
    count = len(times_s)
    origin_s = sum(times_s) / count
    x = [time_s - origin_s for time_s in times_s]
    mean_x = sum(x) / count
    spread = sum(value * value for value in x) - sum(x) ** 2 / count
    w = sum(y * (value - mean_x) for value, y in zip(x, latencies_s, strict=True)) / spread if spread > 0 else 0.0
    b = sum(y - w * value for value, y in zip(x, latencies_s, strict=True)) / count
    e = sum((w * value + b - y) ** 2 for value, y in zip(x, latencies_s, strict=True)) / count
    return LatencyLine(origin_s, w, b, e)


def add_latency(model: ThresholdModel, time_s: float, latency_s: float, accuracy: float, interval_s: float) -> bool:
    """Add one latency. True if it exceeds the line by more than the accuracy, which ends the calm."""
    exceeds = model.line is not None and _exceeds(model.line, time_s, latency_s, accuracy)
    _drop_until(model.points, time_s - 2 * interval_s)
    del model.points[: -_MOST_POINTS + 1]
    model.points.append((time_s, latency_s))
    _drop_until(model.effective, time_s - interval_s)
    if exceeds:
        model.effective.append((time_s, latency_s))
        model.calm_refits = 0
    return exceeds


def refit(model: ThresholdModel, now_s: float) -> None:
    """Fit again, and check whether the line is unchanged."""
    model.refit_s = now_s
    if len(model.points) < _LEAST_POINTS:
        return
    before = model.line
    model.line = line = fit_latency_line(*zip(*model.points, strict=True))
    span_s = model.points[-1][0] - model.points[0][0]
    calm = before is not None and _same(before, line, span_s)
    model.calm_refits = model.calm_refits + 1 if calm else 0


def reference_bottleneck_s(model: ThresholdModel, now_s: float, interval_s: float, recurrences: int) -> float | None:
    """The largest effective value of the interval, if such values occurred often enough."""
    recent = [latency_s for time_s, latency_s in model.effective if time_s > now_s - interval_s]
    return max(recent) if len(recent) >= recurrences else None


def same_order(time_s: float, reference_s: float) -> bool:
    """Is the bottleneck time of the same order of magnitude as the reference: 0.1 < T / T_r < 10?

    >>> same_order(0.5, 2.0), same_order(0.1, 2.0)
    (True, False)
    """
    return 0.1 < time_s / reference_s < 10


def _drop_until(values: list[tuple[float, float]], time_s: float) -> None:
    """Drop the values of this time and before. They are in the order of time, so only the first ones are looked at."""
    fresh = 0
    while fresh < len(values) and values[fresh][0] <= time_s:
        fresh += 1
    del values[:fresh]


def _exceeds(line: LatencyLine, time_s: float, latency_s: float, accuracy: float) -> bool:
    usual_s = max(line.at(time_s), line.b)  # a falling latency is not a bottleneck, whatever the line predicted
    return latency_s - usual_s > max(accuracy * max(usual_s, 0.0), _SIGMAS * sqrt(line.e))


def _same(before: LatencyLine, after: LatencyLine, span_s: float) -> bool:
    limit_s = _TOLERANCE * max(abs(before.b), 1e-9)
    return (
        abs(after.w - before.w) * span_s < limit_s
        and abs(after.b - before.b) < limit_s
        and abs(sqrt(after.e) - sqrt(before.e)) < limit_s
    )
