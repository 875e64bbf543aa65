"""Run-time profiles: the load that each operator can sustain, learned from normal operation, and when it will be
exceeded.

Busy slot-seconds are a linear function of rows: the intercept is the fixed cost of a batch, the slope the cost of a
row.
No profiling run is needed, because any load has batches of different sizes.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, sqrt

import numpy as np
from scipy.stats import t as student

from tidegate.analysis.prepare import without_cold_batches
from tidegate.history.metriccatalogue import operator_column
from tidegate.history.metrictable import Floats, MetricTable

_LEAST_BATCHES = 8
_SPREAD = 0.05  # spread relative to the mean batch size; below it slope and intercept cannot be separated


@dataclass(frozen=True, slots=True)
class FittedLine:
    """`y = intercept + slope · x` by least squares, with the standard error of the slope."""

    intercept: float
    slope: float
    slope_error: float
    freedom: int

    def slope_bounds(self, confidence: float = 0.95) -> tuple[float, float]:
        half = float(student.ppf(0.5 + confidence / 2, self.freedom)) * self.slope_error
        return self.slope - half, self.slope + half


def fit_line(x: Floats, y: Floats) -> FittedLine | None:
    """Fit a line; None for fewer than three points or if all have the same x."""
    if len(x) < 3:
        return None
    centred = x - x.mean()
    spread = float((centred**2).sum())
    if spread <= 0:
        return None
    slope = float(centred @ y) / spread
    residual = y - y.mean() - slope * centred
    freedom = len(x) - 2
    return FittedLine(
        float(y.mean()) - slope * float(x.mean()), slope, sqrt(float(residual @ residual) / freedom / spread), freedom
    )


@dataclass(frozen=True, slots=True)
class OperatorCapacity:
    """The cost and sustainable rate of an operator. Rates are rows of its own input per second."""

    operator: str
    batches: int
    row_s: float
    """Slot-seconds per row."""
    row_s_low: float
    row_s_high: float
    batch_s: float
    """Fixed slot-seconds per batch."""
    slots: int
    """Slots that its tasks can use at the same time."""
    sustainable_rows_per_s: float
    """With its slots always busy: `(slots − batch_s / interval) / row_s`."""
    sustainable_low: float
    sustainable_high: float | None
    """None if the cost per row is not significantly above zero, so that there is no upper bound."""
    peak_rows_per_s: float
    """Highest observed input rate."""
    rows_per_source_row: float | None
    """Its input rows for each row that arrives at the source."""
    type: str | None = None
    """Source, stateful, sink or several of these, otherwise stateless; None if it was not recorded."""

    def source_rows_per_s(self) -> float | None:
        """The application's load at which this operator is saturated."""
        return self.sustainable_rows_per_s / self.rows_per_source_row if self.rows_per_source_row else None


@dataclass(frozen=True, slots=True)
class LoadTrend:
    """The trend of the load."""

    rows_per_s: float
    """Current rate according to the trend."""
    growth_rows_per_s2: float
    growth_low: float
    growth_high: float

    @property
    def growing(self) -> bool:
        return self.growth_low > 0


@dataclass(frozen=True, slots=True)
class Profile:
    """An application's operators, their combined sustainable load, and when the load will exceed it."""

    operators: tuple[OperatorCapacity, ...]
    bottleneck: str | None
    """The operator that saturates first if each had all slots to itself."""
    sustainable_rows_per_s: float | None
    """For the application: all operators share the slots, and no task runs during the overhead of a batch."""
    sustainable_low: float | None
    sustainable_high: float | None
    slots: int | None
    trend: LoadTrend | None
    exceeded_in_s: float | None
    """Time until the growing load exceeds the sustainable load; 0 if it already does; None if unknown."""
    exceeded_in_low_s: float | None
    exceeded_in_high_s: float | None
    """None if possibly never."""


def profile(table: MetricTable) -> Profile:
    """Profile an application from its recorded batches."""
    warm = without_cold_batches(table)
    interval_s = _batch_interval_s(warm)
    slots = _latest(warm, "slots")
    operators = [
        found
        for name in operator_names(warm)
        if (found := _operator(warm, name, interval_s, int(slots) if slots else None)) is not None
    ]
    limits = [(limit, found.operator) for found in operators if (limit := found.source_rows_per_s()) is not None]
    low, middle, high = _together(warm, operators, interval_s, slots)
    trend = load_trend(warm)
    soonest, expected, latest = _exceeded(trend, low, middle, high)
    return Profile(
        operators=tuple(operators),
        bottleneck=min(limits)[1] if limits else None,
        sustainable_rows_per_s=middle,
        sustainable_low=low,
        sustainable_high=high,
        slots=int(slots) if slots else None,
        trend=trend,
        exceeded_in_s=expected,
        exceeded_in_low_s=soonest,
        exceeded_in_high_s=latest,
    )


def operator_names(table: MetricTable) -> list[str]:
    """Return the operators that have their own columns."""
    suffix = ".busy_s"
    return [name.removesuffix(suffix) for name in table.names if name.endswith(suffix)]


def _operator(table: MetricTable, name: str, interval_s: float, slots: int | None) -> OperatorCapacity | None:
    rows_column = operator_column(name, "rows_in")
    if rows_column not in table.names:
        return None
    rows, busy_s = table.column(rows_column), table.column(operator_column(name, "busy_s"))
    known = np.isfinite(rows) & np.isfinite(busy_s) & (rows > 0)
    rows, busy_s = rows[known], busy_s[known]
    if len(rows) < _LEAST_BATCHES or busy_s.sum() <= 0:
        return None
    row_s, low, high, batch_s = _costs(rows, busy_s)
    parallelism = _latest(table, operator_column(name, "parallelism")) or 1.0
    usable = int(min(parallelism, slots) if slots else parallelism)
    free = max(0.0, usable - batch_s / interval_s) if interval_s > 0 else float(usable)
    source = table.column("rows")[known] if "rows" in table.names else None
    per_source = float(rows.sum() / source.sum()) if source is not None and source.sum() > 0 else None
    return OperatorCapacity(
        operator=name,
        batches=len(rows),
        row_s=row_s,
        row_s_low=low,
        row_s_high=high,
        batch_s=batch_s,
        slots=usable,
        sustainable_rows_per_s=free / row_s,
        sustainable_low=free / high,
        sustainable_high=free / low if low > 0 else None,
        peak_rows_per_s=float(rows.max()) / interval_s if interval_s > 0 else 0.0,
        rows_per_source_row=per_source,
        type=component_type(table, name),
    )


def component_type(table: MetricTable, operator: str) -> str | None:
    """What kind of component an operator is, from its columns.

    >>> names = ("count.is_sink", "count.is_source", "count.is_stateful")
    >>> table = MetricTable("words", names, np.arange(1.0), np.array([[1.0, 0.0, 1.0]]))
    >>> component_type(table, "count"), component_type(table, "split") is None
    ('stateful, sink', True)
    """
    types = ("source", "stateful", "sink")
    values = [_latest(table, operator_column(operator, f"is_{name}")) for name in types]
    if None in values:
        return None
    return ", ".join(name for name, value in zip(types, values, strict=True) if value) or "stateless"


def _costs(rows: Floats, busy_s: Floats) -> tuple[float, float, float, float]:
    """Return the cost of a row with its 95 % interval, and the fixed cost of a batch."""
    line = fit_line(rows, busy_s)
    if line is not None and rows.std() > _SPREAD * rows.mean() and line.slope > 0 and line.intercept >= 0:
        low, high = line.slope_bounds()
        return line.slope, max(0.0, low), high, line.intercept
    # All batches have the same size, or there is no fixed cost: a line through the origin, `Σ xy / Σ x²`.
    squares = float(rows @ rows)
    slope = float(rows @ busy_s) / squares
    residual = busy_s - slope * rows
    error = sqrt(float(residual @ residual) / (len(rows) - 1) / squares)
    half = float(student.ppf(0.975, len(rows) - 1)) * error
    return slope, max(0.0, slope - half), slope + half, 0.0


def _together(
    table: MetricTable, operators: list[OperatorCapacity], interval_s: float, slots: float | None
) -> tuple[float | None, float | None, float | None]:
    """`(slots · (B − overhead) − Σ fixed) / (B · Σ cost of a source row)`, B the time between batches."""
    costed = [found for found in operators if found.rows_per_source_row]
    if not slots or not costed or interval_s <= 0:
        return None, None, None
    overhead = table.column("overhead_s") if "overhead_s" in table.names else np.zeros(1)
    overhead_s = float(np.nanmedian(overhead)) if np.isfinite(overhead).any() else 0.0
    span_s = max(interval_s, 2.0 * overhead_s)
    free = max(0.0, slots * (span_s - overhead_s) - sum(found.batch_s for found in costed)) / span_s
    cost = sum(found.row_s * (found.rows_per_source_row or 0.0) for found in costed)
    # Operators' errors are independent, so the squares of the half widths add up.
    half = sqrt(sum((((f.row_s_high - f.row_s_low) / 2) * (f.rows_per_source_row or 0.0)) ** 2 for f in costed))
    high = free / (cost - half) if cost > half else None
    return free / (cost + half), free / cost, high


def load_trend(table: MetricTable) -> LoadTrend | None:
    """Return the growth of the load over the recorded time. Neighbouring samples are autocorrelated.

    Errors are therefore widened by `√((1 + ρ) / (1 − ρ))`, with ρ the lag-1 autocorrelation of the residuals.
    """
    name = "input_rows_per_s" if table.has("input_rows_per_s") else "throughput_rows_per_s"
    if not table.has(name):
        return None
    values = table.column(name)
    known = np.isfinite(values)
    times_s, values = table.times_s[known], values[known]
    line = fit_line(times_s - times_s[-1], values) if len(values) >= _LEAST_BATCHES else None
    if line is None:
        return None
    residual = values - line.intercept - line.slope * (times_s - times_s[-1])
    energy = float(residual @ residual)
    rho = float(residual[1:] @ residual[:-1]) / energy if energy > 0 else 0.0
    widening = sqrt((1 + max(0.0, min(rho, 0.99))) / (1 - max(0.0, min(rho, 0.99))))
    low, high = FittedLine(line.intercept, line.slope, line.slope_error * widening, line.freedom).slope_bounds()
    return LoadTrend(max(0.0, line.intercept), line.slope, low, high)


def _exceeded(
    trend: LoadTrend | None, low: float | None, middle: float | None, high: float | None
) -> tuple[float | None, float | None, float | None]:
    """Return the earliest, expected and latest time until the trend crosses the sustainable load; None if it does
    not."""
    if trend is None or middle is None or low is None:
        return None, None, None

    def crossing(limit: float | None, growth: float) -> float | None:
        if limit is None:
            return None
        if trend.rows_per_s >= limit:
            return 0.0
        seconds = (limit - trend.rows_per_s) / growth if growth > 0 else inf
        return seconds if seconds < inf else None

    if not trend.growing:
        # A load that does not grow may still be too large already.
        now = 0.0 if trend.rows_per_s >= middle else None
        return now, now, now
    return (
        crossing(low, trend.growth_high),
        crossing(middle, trend.growth_rows_per_s2),
        crossing(high, trend.growth_low),
    )


def _batch_interval_s(table: MetricTable) -> float:
    """Return the median time between two commits."""
    steps = np.diff(table.times_s)
    return float(np.median(steps[steps > 0])) if (steps > 0).any() else 0.0


def _latest(table: MetricTable, name: str) -> float | None:
    values = table.column(name) if name in table.names else np.zeros(0)
    known = values[np.isfinite(values)]
    return float(known[-1]) if len(known) else None
