"""What the experiments on service classes share: the classes, the applications on their hosts, and the policies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np

from tidegate.domain.qos import PredictiveRule, QosClassRule
from tidegate.forecast import ArimaBank, Forecaster
from tidegate.planning.mpc import PredictiveControl
from tidegate.sim.latency import Latencies
from tidegate.sim.shared import Division, Interval, Tenants, View
from tidegate.sim.state import Floats, Ints

Told = Callable[[int, int, str], None]
"""Hears of progress: done, total, what comes next."""

# Classes, weights and targets of the paper's GSM workload (section V-B).
CLASSES: dict[str, QosClassRule] = {
    "q1": QosClassRule(latency_s=0.3, weight=6),
    "q2": QosClassRule(latency_s=0.5, weight=3),
    "q3": QosClassRule(latency_s=0.8, weight=1),
}
RULES = tuple(CLASSES.values())
_KINDS = (0.3, 1.0, 3.0)  # work of a row: grep, MD5, sort
_SPREAD = 0.8  # of the logarithm of that work, from one application to the next


def tenants(applications: int, hosts: int, cpus: float, busy: float, rate: float, seed: int) -> Tenants:
    """Applications of mixed work and random class, their rows so long that `rate` rows/s each keep hosts `busy`."""
    random = np.random.default_rng([seed, 1])
    host = np.arange(applications, dtype=np.int64) % hosts
    row_s = random.choice(_KINDS, applications) * random.lognormal(0.0, _SPREAD, applications)
    row_s *= (busy * cpus / np.bincount(host, row_s * rate, hosts))[host]
    return Tenants(host, random.permutation(np.arange(applications) % len(RULES)), row_s, np.full(applications, cpus))


class PredictiveSharing:
    """Model-predictive control of every host by itself.

    It acts by CPU weights, which leave nothing idle, or by caps on those who are held back, which hold for an
    interval whatever comes: the paper's actuator, and what an admission limit is.
    """

    def __init__(
        self,
        of: Tenants,
        hosts: int,
        cpus: float,
        forecaster: Callable[[Ints, int], Forecaster] | None = None,
        rule: PredictiveRule | None = None,
        rules: Sequence[QosClassRule] = RULES,
        actuator: Literal["weights", "caps"] = "weights",
    ) -> None:
        self._actuator = actuator
        rule = rule or PredictiveRule()
        build = forecaster or (lambda members, horizon: ArimaBank(len(members), horizon))
        self._members = [np.flatnonzero(of.host == host) for host in range(hosts)]
        self._hosts = [
            PredictiveControl(build(members, rule.horizon), rules, of.group[members], cpus, rule)
            for members in self._members
        ]

    def divide(self, view: View) -> Division:
        weights, caps = np.empty(len(view.row_s)), np.empty(len(view.row_s))
        for members, control in zip(self._members, self._hosts, strict=True):
            grant = control.step(view.arrived_rows[members], view.queued_rows[members], view.row_s[members])
            weights[members] = grant.shares
            caps[members] = np.where(grant.cpus < grant.needed_cpus, grant.cpus, np.inf)
        return Division(weights) if self._actuator == "weights" else Division(None, caps)


def summed(record: Sequence[Interval], group: int, from_s: float, to_s: float) -> Latencies:
    """Latencies of a class over a part of a run."""
    total = Latencies.empty()
    for interval in record:
        if from_s <= interval.time_s < to_s:
            total = total.merge(interval.latencies[group])
    return total


def by_class(record: Sequence[Interval], from_s: float, to_s: float) -> dict[str, dict[str, float]]:
    """Latency, violations and resources of every class over a part of a run."""
    inside = [interval for interval in record if from_s <= interval.time_s < to_s]
    cpus: Floats = np.sum([interval.cpus for interval in inside], axis=0)
    summary = {}
    for index, (name, rule) in enumerate(CLASSES.items()):
        latencies = summed(inside, index, from_s, to_s)
        summary[name] = {
            "mean_s": latencies.mean_s or 0.0,
            "p50_s": latencies.quantile_s(0.5) or 0.0,
            "p99_s": latencies.quantile_s(0.99) or 0.0,
            "violations": latencies.late_share(rule.latency_s) or 0.0,
            "rows_per_s": latencies.rows / (to_s - from_s),
            "cpus": float(cpus[index] / len(inside)),
            "cpu_share": float(cpus[index] / cpus.sum()),
        }
    return summary
