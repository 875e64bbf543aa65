"""One step of model-predictive control for a host, from local information only (Q-Flink, section IV-G).

    measure backlogs → forecast κ steps → the rate each needs to follow its reference trajectory → if the sum is more
    than the host has, optimise → apply the first step only → again, one interval later

Everything is in arrays over the applications of the host, so thousands of them take a millisecond.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tidegate.domain.serviceclasses import QosClass
from tidegate.model.fluid import Queues, needed_rates
from tidegate.plan.classes.allocation import share_by_level
from tidegate.plan.proposersettings import PredictiveSettings

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class ClassArrays:
    """Service classes as arrays, in the order of their index."""

    latency_s: Floats
    weight: Floats
    floor: Floats
    level: Ints
    """0 for the heaviest class. Classes of the same weight share a level."""

    @classmethod
    def of(cls, rules: Sequence[QosClass]) -> ClassArrays:
        """
        >>> ClassArrays.of([QosClass(weight=1), QosClass(weight=6), QosClass(weight=1)]).level.tolist()
        [1, 0, 1]
        """
        weight = np.array([rule.weight for rule in rules])
        return cls(
            latency_s=np.array([rule.latency_s for rule in rules]),
            weight=weight,
            floor=np.array([rule.floor for rule in rules]),
            level=np.unique(-weight, return_inverse=True)[1].astype(np.int64),
        )


@dataclass(frozen=True, slots=True)
class Load:
    """What a host knows about its applications at the start of an interval."""

    backlog_rows: Floats
    expected_rows_per_s: Floats
    """Applications × steps ahead."""
    rows_per_s: Floats
    """Served rate in the last interval."""
    row_s: Floats
    """CPU-seconds per row."""
    group: Ints | slice
    """Index of its class, or a full slice if every application is its own class."""
    most_cpus: Floats
    """Maximum CPUs that each can use: no more than it has tasks."""


@dataclass(frozen=True, slots=True)
class CpuGrants:
    """The grants of one step, by application, for the next interval."""

    needed_cpus: Floats
    cpus: Floats
    """Granted CPUs: never more than needed, and all of the need if the host is large enough."""
    admission_rows: Floats
    """Rows that an application may take in the interval; infinite if nothing must be held back."""
    short: bool


def step(
    load: Load, classes: ClassArrays, rule: PredictiveSettings, cpus: float, interval_s: float, demand_cap: float = 1.0
) -> CpuGrants:
    """Share `cpus` for one interval. `demand_cap` (anti-saturation) lowers the total demand on the host.

    >>> classes = ClassArrays.of([QosClass(latency_s=0.3, weight=6), QosClass(latency_s=0.8, weight=1)])
    >>> load = Load(np.array([0.0, 900.0]), np.array([[100.0] * 5, [300.0] * 5]), np.array([100.0, 200.0]),
    ...             row_s=np.array([0.004, 0.004]), group=np.array([0, 1]), most_cpus=np.full(2, np.inf))
    >>> grant = step(load, classes, PredictiveSettings(), cpus=1.0, interval_s=1.0)
    >>> grant.short, grant.cpus.round(2).tolist(), grant.admission_rows.round().tolist()
    (True, [0.4, 0.5], [inf, 125.0])
    """
    aim_s = rule.set_point * classes.latency_s
    # A return that takes longer than the tolerated delay would exceed it all the way.
    back_s = np.minimum(rule.reference_s, classes.latency_s)
    queues = Queues(load.backlog_rows, load.expected_rows_per_s, load.rows_per_s, load.group)
    rates = needed_rates(queues, aim_s, back_s, interval_s)
    needed = np.minimum(load.row_s * rates, load.most_cpus)
    room = cpus * rule.utilisation * demand_cap
    # A floor refers to arrivals: a share of the need would grow with the backlog that the floor leaves behind.
    floors = np.minimum(classes.floor[load.group] * load.expected_rows_per_s[:, 0] * load.row_s, needed)
    short = float(needed.sum()) > room
    granted = needed
    if short:
        levels = int(classes.level.max()) + 1
        granted, _ = share_by_level(needed, floors, classes.level[load.group], levels, room)
    return CpuGrants(
        needed_cpus=needed,
        cpus=granted,
        admission_rows=np.where(granted < needed, np.maximum(granted / load.row_s * interval_s, 1.0), np.inf),
        short=short,
    )
