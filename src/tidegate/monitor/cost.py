"""What a batch costs: slot-seconds per batch and per row, told apart wherever the batches differ enough in size.

Dividing busy time by rows charges small batches' fixed cost to their rows, and a quiet job then looks expensive. A
line through (rows, busy time) has the fixed cost as its intercept and the cost of a row as its slope.
"""

from __future__ import annotations

from tidegate.domain.cost import Cost

_SPREAD = 0.15  # of the mean batch size: below it a slope would be noise
_LEAST_BATCHES = 6
_MOST_FIXED = 0.5


def fit_cost(rows: list[float], busy_s: list[float], overhead_s: list[float], before: Cost | None) -> Cost:
    """Least squares where batch sizes vary; otherwise the fixed part stays what it was and the rest is the rows'.

    >>> fit_cost([100, 200, 300, 400, 500, 600], [1.5, 2.5, 3.5, 4.5, 5.5, 6.5], [0.3] * 6, None)
    Cost(batch_s=0.5, row_s=0.01, overhead_s=0.3)
    >>> fit_cost([100, 100], [2.0, 2.0], [0.3, 0.3], None)
    Cost(batch_s=0.0, row_s=0.02, overhead_s=0.3)
    """
    count = len(rows)
    mean_rows, mean_busy = sum(rows) / count, sum(busy_s) / count
    variance = sum((size - mean_rows) ** 2 for size in rows) / count
    fixed_s = before.batch_s if before else 0.0
    if count >= _LEAST_BATCHES and variance > (_SPREAD * mean_rows) ** 2:
        covariance = sum((size - mean_rows) * busy for size, busy in zip(rows, busy_s, strict=True)) / count
        fixed_s = mean_busy - covariance / variance * mean_rows
    # Neither part can be negative, and no batch costs less than the fixed part. Small batches that hardly differ let
    # noise pass for a fixed cost; a row must not come out too cheap for that, so no more than half of a batch is fixed.
    fixed_s = round(min(max(fixed_s, 0.0), min(busy_s), _MOST_FIXED * mean_busy), 9)
    return Cost(fixed_s, round((mean_busy - fixed_s) / mean_rows, 9), sum(overhead_s) / count)
