"""What the classes proposer remembers about backlogs and slots."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import exp

import numpy as np

from tidegate.evaluate.evaluation import Evaluation
from tidegate.evaluate.table import Floats
from tidegate.plan.classes.member import Members

_BUSY_PERIODS, _LEAST_PERIOD_S = 4.0, 5.0
"""Window for measuring the use of slots: a number of triggers, and the least length assumed for a trigger."""
_LEAST_BACKLOG = 0.5
"""A backlog of fewer rows counts as none."""


@dataclass(slots=True)
class Spent:
    """Slot-seconds of the batches that one step saw committed."""

    time_s: float
    busy_s: float
    unknown_s: dict[str, float]
    """The part of applications whose cost was unknown at the time."""


@dataclass(slots=True)
class ClassesMemory:
    """Everything the proposer remembers, as plain values."""

    backlogs: dict[str, tuple[float, float]] = field(default_factory=dict)
    """`(time_s, rows)` of applications with a backlog. It falls slowly: pending rows swing with every trigger."""
    spent: list[Spent] = field(default_factory=list)
    shares: dict[str, float] = field(default_factory=dict)
    """Shares in force, as far as confirmed."""
    trim: float = 1.0
    proven: bool = False
    """Whether a shortage was observed, not just predicted."""


def remember(memory: ClassesMemory, evaluation: Evaluation) -> None:
    """Record the slot-seconds of the committed batches."""
    busy_s = evaluation.busy_s
    unknown = np.flatnonzero(evaluation.planned & ~evaluation.usable & (busy_s > 0)).tolist()
    strangers = {evaluation.samples[place].name: float(busy_s[place]) for place in unknown}
    memory.spent.append(Spent(evaluation.time_s, float(busy_s[evaluation.planned].sum()), strangers))
    longest_s = float(evaluation.status.interval_s.max(initial=1.0))
    since_s = evaluation.time_s - _BUSY_PERIODS * max(longest_s, _LEAST_PERIOD_S)
    memory.spent = [entry for entry in memory.spent if entry.time_s >= since_s]


def busy_slots(memory: ClassesMemory, evaluation: Evaluation, period_s: float) -> tuple[float, float]:
    """Slots kept busy over the last few triggers, by all applications and by those with unknown costs."""
    window_s = _BUSY_PERIODS * max(period_s, _LEAST_PERIOD_S)
    inside = [entry for entry in memory.spent if entry.time_s > evaluation.time_s - window_s]
    unknown = np.flatnonzero(evaluation.planned & ~evaluation.usable).tolist()
    names = [evaluation.samples[place].name for place in unknown]
    unknown_s = sum(entry.unknown_s.get(name, 0.0) for name in names for entry in inside)
    return sum(entry.busy_s for entry in inside) / window_s, unknown_s / window_s


def smooth_backlogs(memory: ClassesMemory, members: Members) -> Floats:
    """A growing backlog is believed at once, a shrinking one over a period."""
    now_s, behind = members.evaluation.time_s, members.backlog_rows.copy()
    for name, (before_s, before) in memory.backlogs.items():
        at = members.find(name)
        if at is not None and before > behind[at]:
            fade = exp(-max(0.0, now_s - before_s) / float(members.period_s[at]))
            behind[at] += (before - behind[at]) * fade
    kept = np.flatnonzero(behind >= _LEAST_BACKLOG)
    memory.backlogs = {members.name(at): (now_s, float(behind[at])) for at in kept.tolist()}
    return behind
