"""How long a row of a micro-batch query waits: bulk service, and the drain of a backlog."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from tidegate.domain.cost import BatchCost


def drain_s(backlog_rows: float, arrival_rows_per_s: float, service_rows_per_s: float) -> float:
    """Time until a backlog is gone while rows keep arriving: `q / (Nμ − λ)`.

    >>> drain_s(100, 50, 70), drain_s(0, 50, 40), drain_s(1, 50, 40)
    (5.0, 0.0, inf)
    """
    if backlog_rows <= 0:
        return 0.0
    spare = service_rows_per_s - arrival_rows_per_s
    return backlog_rows / spare if spare > 0 else inf


@dataclass(frozen=True, slots=True)
class BulkResponse:
    """The response of a micro-batch query: from a row's arrival to the commit of its batch."""

    batch_s: float
    period_s: float
    """Time between two batches: the trigger interval, or the batch time if that is longer."""
    backlog_s: float = 0.0
    """Time until the backlog ahead of a row that arrives now is admitted."""

    @property
    def mean_s(self) -> float:
        """Half a period until its batch starts, plus the whole batch."""
        return self.backlog_s + self.period_s / 2 + self.batch_s

    def quantile_s(self, share: float) -> float:
        """Rows arrive evenly over a period, so the wait for the batch is uniform."""
        return self.backlog_s + share * self.period_s + self.batch_s


def bulk_response(
    rows_per_s: float, cost: BatchCost, slots: float, interval_s: float, backlog_rows: float = 0.0
) -> BulkResponse:
    """Bulk service `T = o + (a + λ·B·s)/n`, `B = max(I, T)`. A backlog goes first, with the spare part of each period.

    Batches longer than the interval follow one another: `T = (o + a/n) / (1 − λ·s/n)`, infinite at ρ ≥ 1.

    >>> cost = BatchCost(batch_s=0.0, row_s=0.01, overhead_s=0.5)
    >>> light = bulk_response(100, cost, slots=2, interval_s=5.0)
    >>> light.batch_s, light.mean_s, light.quantile_s(0.99)
    (3.0, 5.5, 7.95)
    >>> bulk_response(180, cost, slots=2, interval_s=1.0).batch_s  # 0.5 / (1 − 0.9)
    5.000000000000001
    >>> bulk_response(200, cost, slots=2, interval_s=1.0).mean_s
    inf
    """
    fixed_s = cost.overhead_s + cost.batch_s / slots
    load = rows_per_s * cost.row_s / slots
    batch_s = fixed_s + load * interval_s
    period_s = interval_s
    if batch_s > interval_s:
        batch_s = period_s = fixed_s / (1 - load) if load < 1 else inf
    if batch_s == inf:
        return BulkResponse(inf, inf, inf)
    # The spare capacity of a period clears the backlog. Without a fixed period, larger batches do.
    busy_share = 1 - fixed_s / period_s if period_s == interval_s else 1.0
    most_rows_per_s = busy_share * slots / cost.row_s if cost.row_s > 0 else inf
    return BulkResponse(batch_s, period_s, drain_s(backlog_rows, rows_per_s, most_rows_per_s))
