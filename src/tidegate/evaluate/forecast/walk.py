"""Walks a series online: forecasts `horizon` rows ahead at every row, from the rows before, and keeps the score."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from tidegate.evaluate.forecast.forecaster import Forecaster
from tidegate.evaluate.forecast.rows import Bools, Floats
from tidegate.evaluate.forecast.selecting import SelectingBank

HISTORY = 1 << 15
"""Samples searched for seasons if there is only one stream: three weeks of minutes."""


@dataclass(frozen=True, slots=True)
class ForecastScore:
    """The accuracy of forecasts on the rows that could be judged; None if a measure is undefined."""

    rows: int
    mae: float | None
    rmse: float | None
    mape: float | None
    """Mean absolute error in per cent of the value. Rows with the value 0 are left out."""
    nrmse: float | None
    """Root mean squared error ÷ standard deviation of the values: 1 is as good as knowing their mean."""
    coverage: float | None


@dataclass(frozen=True, slots=True)
class ForecastWalk:
    """Forecasts made at each row for `horizon` rows later. Row i saw only rows 0 … i."""

    values: Floats
    horizon: int
    mean: Floats
    lower: Floats
    upper: Floats
    trusted: Bools

    def score(self, warmup: int) -> ForecastScore:
        """Over forecasts made at row `warmup` and later, for rows that exist and are not missing."""
        made = slice(warmup, len(self.values) - self.horizon)
        actual = self.values[warmup + self.horizon :]
        return score(actual, self.mean[made], self.lower[made], self.upper[made])


def score(actual: Floats, mean: Floats, lower: Floats, upper: Floats) -> ForecastScore:
    """
    >>> score(np.array([1.0, 3.0]), np.array([1.0, 2.0]), np.array([0.0, 1.0]), np.array([2.0, 2.5])).coverage
    0.5
    """
    known = ~np.isnan(actual)
    if not known.any():
        return ForecastScore(0, None, None, None, None, None)
    actual, error = actual[known], np.abs(actual - mean)[known]
    rmse, spread = float(np.sqrt(np.mean(error**2))), float(actual.std())
    sized = actual != 0
    return ForecastScore(
        rows=len(actual),
        mae=float(error.mean()),
        rmse=rmse,
        mape=float(100 * np.mean(error[sized] / np.abs(actual[sized]))) if sized.any() else None,
        nrmse=rmse / spread if spread > 0 else None,
        coverage=float(np.mean((lower[known] <= actual) & (actual <= upper[known]))),
    )


def walk(
    values: Floats,
    horizon: int,
    *,
    seasons: Sequence[int] = (),
    bank: Forecaster | None = None,
    told: Callable[[int], object] = lambda row: None,
) -> ForecastWalk:
    """Show the rows one by one to a bank of one stream (by default the selecting one). `told` gets the progress."""
    bank = bank or SelectingBank(1, horizon, seasons=seasons, history=HISTORY)
    said = np.empty((3, len(values)))
    trusted = np.zeros(len(values), dtype=np.bool_)
    for row in range(len(values)):
        bank.observe(values[row : row + 1])
        made = bank.forecast()
        said[:, row] = made.mean[0, horizon - 1], made.lower[0, horizon - 1], made.upper[0, horizon - 1]
        trusted[row] = made.trusted[0]
        told(row)
    return ForecastWalk(values, horizon, said[0], said[1], said[2], trusted)
