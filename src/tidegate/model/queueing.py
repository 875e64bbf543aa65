"""How long a row waits: Allen–Cunneen for G/G/N, the drain of a backlog, and bulk service for micro-batches.

    W = P_cb,N / (μ·N·(1 − ρ)) · (C_S² + C_D²)/2          (Allen–Cunneen; Q-Flink, equation 1)

with `P_cb,N` the probability that all N servers are busy (Erlang C), `ρ = λ/(μN)`, and C_S, C_D the coefficients of
variation of service and inter-arrival times. Exact for M/M/N and M/D/1 (M/G/1: Pollaczek–Khinchine), otherwise an
approximation. There is no steady state at ρ ≥ 1: the wait is infinite, and only the drain of a backlog can be computed.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, inf, log

from tidegate.domain.cost import BatchCost

QUEUEING_DOMINATES = 10.0
"""Ratio of waiting to processing. Below it queues do not dominate the response, and CPU shares would not improve it."""


@dataclass(frozen=True, slots=True)
class Queue:
    """A G/G/N queue. The coefficients of variation are 1 for exponential times and 0 for constant ones.

    >>> mm1 = Queue(rows_per_s=80, service_s=0.01, servers=1)
    >>> round(mm1.utilisation, 3), round(mm1.waiting_s, 3), round(mm1.response_s, 3)
    (0.8, 0.04, 0.05)
    >>> md1 = Queue(rows_per_s=80, service_s=0.01, servers=1, service_cv=0.0)
    >>> round(md1.waiting_s, 3)
    0.02
    >>> Queue(rows_per_s=120, service_s=0.01, servers=1).waiting_s
    inf
    """

    rows_per_s: float
    service_s: float
    servers: int
    service_cv: float = 1.0
    arrival_cv: float = 1.0

    def __post_init__(self) -> None:
        if self.servers < 1:
            raise ValueError(f"a queue has at least one server, not {self.servers}")
        if min(self.rows_per_s, self.service_cv, self.arrival_cv) < 0 or not self.service_s > 0:
            raise ValueError("rates and variations are 0 or more, a service time is above 0")

    @property
    def utilisation(self) -> float:
        return self.rows_per_s * self.service_s / self.servers

    @property
    def variability(self) -> float:
        return (self.service_cv**2 + self.arrival_cv**2) / 2

    @property
    def waiting_s(self) -> float:
        """The mean wait; infinite if the queue has no steady state."""
        busy = erlang_c(self.servers, self.rows_per_s * self.service_s)
        spare = self.servers * (1 - self.utilisation)
        return busy * self.service_s / spare * self.variability if spare > 0 else inf

    @property
    def response_s(self) -> float:
        return self.waiting_s + self.service_s

    def waiting_quantile_s(self, share: float) -> float:
        """The wait that `share` of the rows do not exceed. Rows that wait at all have exponential waits.

        >>> round(Queue(80, 0.01, 1).waiting_quantile_s(0.99), 4)  # ln(0.8 / 0.01) · 0.05
        0.2191
        """
        busy = erlang_c(self.servers, self.rows_per_s * self.service_s)
        if busy <= 1 - share:
            return 0.0
        return self.waiting_s / busy * log(busy / (1 - share)) if self.utilisation < 1 else inf

    @property
    def queueing_dominates(self) -> bool:
        """Whether waiting dominates the response: at least ten times processing."""
        return self.waiting_s >= QUEUEING_DOMINATES * self.service_s


def erlang_c(servers: int, offered: float) -> float:
    """The probability that all servers are busy, `offered = λ/μ`. Uses Erlang B's recursion, stable for any N.

    >>> erlang_c(1, 0.8), round(erlang_c(8, 6.0), 4), erlang_c(2, 2.5)
    (0.8, 0.357, 1.0)
    """
    if offered >= servers:
        return 1.0
    blocked = 1.0
    for count in range(1, servers + 1):
        blocked = offered * blocked / (count + offered * blocked)
    return blocked / (1 - offered / servers * (1 - blocked))


def drain_s(backlog_rows: float, arrival_rows_per_s: float, service_rows_per_s: float) -> float:
    """Time until a backlog is gone while rows keep arriving: `q / (Nμ − λ)`.

    >>> drain_s(100, 50, 70), drain_s(0, 50, 40), drain_s(1, 50, 40)
    (5.0, 0.0, inf)
    """
    if backlog_rows <= 0:
        return 0.0
    spare = service_rows_per_s - arrival_rows_per_s
    return backlog_rows / spare if spare > 0 else inf


def reference_s(now_s: float, set_point_s: float, ahead_s: float, time_constant_s: float) -> float:
    """The exponential path from a response that is too long back to the set-point. Below it there is no hurry.

    >>> [round(reference_s(5.0, 1.0, ahead_s, 5.0), 2) for ahead_s in (0, 5, 50)], reference_s(0.2, 1.0, 3, 5.0)
    ([5.0, 2.47, 1.0], 1.0)
    """
    return set_point_s + max(0.0, now_s - set_point_s) * exp(-ahead_s / time_constant_s)


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
