"""Bottleneck times (Me-Stream, equations 1–3): how long an operator computes and how long it communicates.

    T_calc = m(x) / p        m: slot-seconds that its rows need, p: slots that it gets
    T_comm = bytes_in / l_in + bytes_out / l_out        l: learned bandwidth of its links (`links.py`)
    T = max(T_calc, T_comm)

Processing is the time in which tasks neither fetch nor write shuffle data. The CPU time that Spark reports leaves out
Python workers. The slowest instance counts: if one partition holds more rows, p slots do not share its work.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.domain.python310 import StrEnum
from tidegate.evaluate.bottleneck.metrics import ApplicationMetrics, OperatorMetrics

UNEVEN = 1.5
"""Longest task relative to the mean from which partitions count as skewed. Below it is noise."""


class BottleneckKind(StrEnum):
    """What an operator spends its time on."""

    COMPUTE = "compute"
    COMMUNICATION = "communication"


@dataclass(frozen=True, slots=True)
class BottleneckTime:
    """How long an operator keeps a batch busy, and with what."""

    operator: str
    compute_s: float
    communication_s: float

    @property
    def time_s(self) -> float:
        return max(self.compute_s, self.communication_s)

    @property
    def kind(self) -> BottleneckKind:
        return BottleneckKind.COMMUNICATION if self.communication_s > self.compute_s else BottleneckKind.COMPUTE


def compute_time_s(demand_s: float, power: float) -> float:
    """T_calc = m(x) / p.

    >>> compute_time_s(demand_s=3.0, power=4)
    0.75
    """
    return demand_s / power


def communication_time_s(
    bytes_in: float, in_bytes_per_s: float | None, bytes_out: float, out_bytes_per_s: float | None
) -> float:
    """T_comm = m / l_(i−1,i) + m / l_(i,i+1). A link that was never observed to take time takes none.

    >>> communication_time_s(1e6, 2e6, 3e6, 1e6)
    3.5
    """
    incoming_s = bytes_in / in_bytes_per_s if in_bytes_per_s else 0.0
    return incoming_s + (bytes_out / out_bytes_per_s if out_bytes_per_s else 0.0)


def bottleneck_time(operator: OperatorMetrics, slots: int) -> BottleneckTime:
    """The bottleneck time of one operator on a pool of this many slots."""
    power = max(1, min(operator.parallelism, slots))
    slowest = max(1.0, power * largest_share(operator))  # 1 if all of its slots finish together
    compute_s = compute_time_s(operator.busy_s - operator.communication_s, power) * slowest
    return BottleneckTime(operator.name, compute_s, _communication_s(operator, power) * slowest)


def worst_operator(metrics: ApplicationMetrics, slots: int) -> BottleneckTime:
    """The operator with the largest bottleneck time. It is served first."""
    return max((bottleneck_time(operator, slots) for operator in metrics.operators), key=lambda time: time.time_s)


def largest_share(operator: OperatorMetrics) -> float:
    """Share of the work in the fullest partition."""
    even = 1 / operator.parallelism
    return min(1.0, operator.skew * even) if operator.skew is not None and operator.skew >= UNEVEN else even


def _communication_s(operator: OperatorMetrics, power: int) -> float:
    if not operator.bytes_in and not operator.bytes_out:
        return operator.communication_s / power  # bytes are not counted here, so only the waiting time is known
    in_rate, out_rate = (
        None if rate is None else rate * power for rate in (operator.in_bytes_per_s, operator.out_bytes_per_s)
    )
    return communication_time_s(operator.bytes_in or 0.0, in_rate, operator.bytes_out or 0.0, out_rate)
