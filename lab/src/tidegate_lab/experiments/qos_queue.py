"""Q-Flink's queueing model of rows: Allen–Cunneen for G/G/N.

    W = P_cb,N / (μ·N·(1 − ρ)) · (C_S² + C_D²)/2          (Q-Flink, equation 1)

with `P_cb,N` the probability that all N servers are busy (Erlang C), `ρ = λ/(μN)`, and C_S, C_D the coefficients of
variation of service and inter-arrival times. Exact for M/M/N and M/D/1 (M/G/1: Pollaczek–Khinchine), otherwise an
approximation. There is no steady state at ρ ≥ 1: the wait is infinite.

The product does not use it for rows, because micro-batches serve them in bulk (`model/bulkresponse.py`). It uses the
formula for batches that wait for one another: one server with an arrival every interval (`model/variability.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, log


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
