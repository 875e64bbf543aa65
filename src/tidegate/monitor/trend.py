"""A straight line through the recent past, and whether its slope can be told from noise."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, sqrt

_SIGNIFICANT = 3.0  # slope in its own standard errors; noise on a constant load stays well below


@dataclass(frozen=True, slots=True)
class Trend:
    """`value = intercept + slope · (t − origin_s)`, by least squares."""

    origin_s: float
    intercept: float
    slope: float
    t_statistic: float

    @property
    def rising(self) -> bool:
        return self.slope > 0 and self.t_statistic > _SIGNIFICANT

    def at(self, time_s: float) -> float:
        return self.intercept + self.slope * (time_s - self.origin_s)


def fit_trend(times_s: list[float], values: list[float]) -> Trend | None:
    """Least squares over at least four points; None where there are fewer, or all at one time.

    >>> trend = fit_trend([0, 1, 2, 3, 4], [10, 12, 14.1, 15.9, 18])
    >>> trend.rising, round(trend.at(6), 1)
    (True, 22.0)
    >>> fit_trend([0, 1], [1, 2]) is None
    True
    """
    count = len(times_s)
    if count < 4:
        return None
    origin_s, mean = sum(times_s) / count, sum(values) / count
    spread = sum((time_s - origin_s) ** 2 for time_s in times_s)
    if spread <= 0:
        return None
    slope = sum((time_s - origin_s) * value for time_s, value in zip(times_s, values, strict=True)) / spread
    residual = sum(
        (value - mean - slope * (time_s - origin_s)) ** 2 for time_s, value in zip(times_s, values, strict=True)
    )
    error = sqrt(residual / (count - 2) / spread)
    return Trend(origin_s, mean, slope, abs(slope) / error if error > 0 else inf)
