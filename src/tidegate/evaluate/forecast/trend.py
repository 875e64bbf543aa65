"""A level with a damped trend: Holt's method with Gardner and McKenzie's damping (1985), for every stream.

l_t = α y_t + (1 − α)(l_(t−1) + φ b_(t−1)),   b_t = β (l_t − l_(t−1)) + (1 − β) φ b_(t−1),
ŷ_(t+h) = l_t + Σ_(i≤h) φⁱ b_t
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tidegate.evaluate.forecast.rows import Floats, Layout

_LEVEL_PACE = 0.5
_SLOPE_PACE = 0.1
_DAMPING = 0.95


class Trend(NamedTuple):
    """Columns."""

    level: Floats
    """NaN before the first sample."""
    slope: Floats


TREND = Layout(Trend, level=np.nan, slope=0.0)


def follow(trend: Trend, values: Floats) -> None:
    """Learn the next sample. None may be missing."""
    before = np.where(np.isnan(trend.level), values, trend.level)
    slope = _DAMPING * trend.slope
    expected = before + slope
    trend.level[:] = expected + _LEVEL_PACE * (values - expected)
    trend.slope[:] = slope + _SLOPE_PACE * (trend.level - before - slope)


def continued(trend: Trend, steps: float | Floats) -> Floats:
    """The level this many steps ahead.

    >>> trend = TREND.view(TREND.empty(1).T)
    >>> for value in range(200):
    ...     follow(trend, np.array([float(value)]))
    >>> continued(trend, 5.0).round().tolist()
    [202.0]
    """
    reached = _DAMPING * (1.0 - _DAMPING**steps) / (1.0 - _DAMPING)
    return trend.level + reached * trend.slope
