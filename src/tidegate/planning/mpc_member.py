"""One micro-batch application as predictive control sees it: what a trigger would take, and what it may take.

A batch of one period holds what arrived in it and, where nothing limits it, all that waited before.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, isfinite

import numpy as np

from tidegate.model.queueing import bulk_response
from tidegate.planning.mpc import Classes, Load
from tidegate.planning.planner import Known

_LEAST_BUDGET = 0.1
"""Share of an objective that is planned with even where the trigger's interval leaves less of it."""


@dataclass(frozen=True, slots=True)
class Member:
    """One application as the step sees it."""

    name: str
    group: str
    gated: bool
    """A limit takes effect with its next trigger."""
    limited: bool
    """A limit takes a restart."""
    limit: int | None
    weight: float
    floor: float
    latency_s: float
    percentile: float
    rows_per_s: float
    backlog_rows: float
    """Beyond what always waits for its trigger or is in a batch."""
    row_s: float
    """Slot-seconds of a row, with its part of the batch's fixed cost."""
    period_s: float
    known: Known

    @property
    def wanted_rows(self) -> float:
        """All that a trigger without a limit would take."""
        return self.backlog_rows + self.rows_per_s * self.period_s

    @property
    def wanted_slots(self) -> float:
        return self.wanted_rows * self.row_s / self.period_s

    @property
    def held(self) -> bool:
        """Whether its limit leaves rows behind; one beyond all that there is does not."""
        return self.limit is not None and self.limit < self.wanted_rows

    @property
    def budget_s(self) -> float:
        """What the objective leaves for a backlog: a row waits up to a period for its batch, and then for the batch."""
        assert self.known.workload is not None
        spent_s = self.period_s + self.known.workload.cost.overhead_s
        return max(self.latency_s - spent_s, _LEAST_BUDGET * self.latency_s)

    @property
    def late(self) -> bool:
        assert self.known.workload is not None
        return (self.known.workload.latency_p99_s or 0.0) > self.latency_s


def load_of(members: list[Member]) -> Load:
    """The applications as arrays; the forecast of a period stands for all steps ahead."""
    rates = np.array([member.rows_per_s for member in members])
    return Load(
        backlog_rows=np.array([member.backlog_rows for member in members]),
        expected_rows_per_s=rates[:, None],
        rows_per_s=rates,
        row_s=np.array([member.row_s for member in members]),
        group=np.arange(len(members), dtype=np.int64),
        margin_rows_per_s=np.zeros(len(members)),
    )


def classes_of(members: list[Member]) -> Classes:
    """Every application is a class of its own here: what its objective leaves for a backlog depends on its trigger."""
    weight = np.array([member.weight for member in members])
    return Classes(
        latency_s=np.array([member.budget_s for member in members]),
        tail=-np.log(1 - np.array([member.percentile for member in members])),
        weight=weight,
        floor=np.array([member.floor for member in members]),
        level=np.unique(-weight, return_inverse=True)[1].astype(np.int64),
    )


def rows_limit(member: Member, slots_of: float) -> int | None:
    """Rows that the grant does in one trigger; None where that is all there are."""
    if not (member.gated or member.limited) or slots_of >= member.wanted_slots * (1 - 1e-9):
        return None
    least = ceil(member.floor * member.rows_per_s * member.period_s)
    return max(int(slots_of * member.period_s / member.row_s), least, 1)


def response_text(member: Member, slots_of: float) -> str:
    """What a row can expect with so many slots, in words."""
    assert member.known.workload is not None
    response = bulk_response(
        member.rows_per_s, member.known.workload.cost, max(slots_of, 1e-6), member.period_s, member.backlog_rows
    )
    expected_s = response.quantile_s(member.percentile)
    return f"response ≈ {expected_s:.0f} s" if isfinite(expected_s) else "its backlog grows"
