"""Everything known at one step, computed before planning: one frozen value.

Figures of all applications are columns. `Evaluation.applications` shows the same by application, for planners that look
at a few. Unknown values are None in the views and NaN in the columns, never a guess.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import ceil

import numpy as np

from tidegate.domain import (
    ApplicationSample,
    ExecutorPool,
    FleetSample,
    HostSample,
    Objective,
    QosReading,
    Reason,
    Standing,
)
from tidegate.domain.policy import Policy
from tidegate.evaluate import quality
from tidegate.evaluate.expected import ArrivalPath, Expected
from tidegate.evaluate.intake import Status
from tidegate.evaluate.lateness import Budgets, Promises
from tidegate.evaluate.profiles import OperatorProfile, ProfileMemory, profiles, worst
from tidegate.evaluate.residual import ResidualMemory, correction
from tidegate.evaluate.saturation import Saturation
from tidegate.evaluate.table import Flags, Floats, Ints
from tidegate.evaluate.violations import ClassReport
from tidegate.evaluate.workload import Loads, Workload


@dataclass(frozen=True)
class Detail:
    """Details of one application: computed at every step if there are few applications, in turns if there are many.

    Profiles and the correction are computed on demand, within the step of the detail, because their inputs keep
    changing.
    """

    operators: ProfileMemory = field(default_factory=ProfileMemory)
    slots: int = 0
    residuals: ResidualMemory = field(default_factory=ResidualMemory)
    metrics: Sequence[float] = ()
    """The inputs of the correction, in the order of `residual.METRICS`."""
    qos: tuple[QosReading, ...] = ()
    """The rows of its QoS table and its QoS graphs."""
    in_waves: bool = True
    """False if batches have shown that slots do not idle at the end of a wave of tasks."""

    @cached_property
    def profiles(self) -> tuple[OperatorProfile, ...]:
        return profiles(self.operators, self.slots)

    @cached_property
    def residual(self) -> float:
        """Learned correction of the model's batch time."""
        return correction(self.residuals, self.metrics)

    @property
    def bottleneck(self) -> OperatorProfile | None:
        return worst(self.profiles)


NO_DETAIL = Detail()


@dataclass(frozen=True, slots=True)
class ApplicationEvaluation:
    """One application, as far as it is known."""

    place: int
    """Its index in the columns of the evaluation."""
    sample: ApplicationSample
    objective: Objective
    workload: Workload | None
    """None until enough has been observed."""
    distrust: Reason | None
    """Why its metrics must not be acted on."""
    late_share: float
    """Share of rows over the objective in the current window."""
    budget_left: float
    """Share of the error budget that is left: 1 is untouched, 0 is spent."""
    expected: Expected
    """Forecasts of all applications, each computed on demand."""
    detail: Detail

    @property
    def name(self) -> str:
        return self.sample.name

    @property
    def path(self) -> ArrivalPath | None:
        """Expected arrivals; None if they were never counted."""
        return self.expected.path(self.place)

    @property
    def unknown(self) -> tuple[str, ...]:
        """What could not be measured."""
        unmeasured = ["latency"] if self.workload is not None and self.workload.latency_p99_s is None else []
        return (*unmeasured, *(["arrivals"] if self.path is None else []))

    @property
    def usable(self) -> bool:
        return self.distrust is None and self.workload is not None


@dataclass(frozen=True)
class Evaluation:
    """Everything that is known at one step, for proposers, the arbiter and guards."""

    step: int
    time_s: float
    policy: Policy
    pool: ExecutorPool
    hosts: tuple[HostSample, ...]
    samples: tuple[ApplicationSample, ...]
    loads: Loads
    promises: Promises
    budgets: Budgets
    codes: Ints
    """Quality of the metrics by application; `quality.USABLE` if they may be acted on."""
    planned: Flags
    """False for applications that are only observed: the policy ignores them, or they end by themselves."""
    usable: Flags
    """Whether enough is known to plan for it."""
    telling: tuple[int, ...]
    """Applications that report more than sizes and times: lags, state, memory, dropped rows, a running batch."""
    status: Status
    """Triggers, gates and other properties that rarely change, by application."""
    limits: Floats
    """Admitted rows per trigger; infinite without a limit."""
    busy_s: Floats
    """Slot-seconds of the batches committed since the last step."""
    places: Mapping[str, int]
    """Index of each application in the columns."""
    expected: Expected
    """Forecasts, computed on demand."""
    details: Mapping[str, Detail]
    saturation: Saturation
    classes: tuple[ClassReport, ...] = ()
    set_aside: tuple[Reason, ...] = ()
    """Abnormal samples that were neither learned from nor planned on."""
    spent_s: float = 0.0
    """Executor-seconds that the budget day has cost so far."""
    fleet: FleetSample | None = None
    """Hosts and their applications, in the evaluation of a centre or a region's manager."""
    standing: Standing | None = None
    """How this host or region stands with the centre; None if there is no centre."""

    @cached_property
    def executor_bounds(self) -> tuple[int, int]:
        """The fewest and the most executors that the policy allows now, including its schedule and budget.

        Real-time queries raise the minimum, because they do not run at all with fewer slots than tasks.
        """
        least = self.policy.least_executors(self.time_s)
        most = max(least, self.policy.most_executors(self.time_s, self.spent_s))
        return min(max(least, self.real_time_executors), most), most

    @cached_property
    def real_time_executors(self) -> int:
        """Executors that the real-time queries fill together."""
        return ceil(sum([self.samples[place].held_slots or 0 for place in self.telling]) / self.pool.slots_per_executor)

    @cached_property
    def busy_slots(self) -> Floats:
        """Slots that each application's rows and batches keep busy on average; 0 if unknown."""
        loads = self.loads
        period_s = np.maximum(np.maximum(self.status.interval_s, loads.overhead_s), 0.5)
        return np.where(self.usable, loads.expected * loads.row_s + loads.batch_s / period_s, 0.0)

    def busy_beside(self, place: int) -> float:
        """Slots kept busy by other applications that weigh at least as much as the one at this place."""
        if len(self.samples) == 1:
            return 0.0
        weight = float(self.promises.weight[place])
        total = self._busy_from.get(weight)
        if total is None:
            total = self._busy_from[weight] = float(self.busy_slots[self.promises.weight >= weight].sum())
        return total - float(self.busy_slots[place])

    @cached_property
    def all_busy_slots(self) -> float:
        return float(self.busy_slots.sum())

    @cached_property
    def _busy_from(self) -> dict[float, float]:
        """Busy slots of all applications of at least this weight. Cached: every pool size is compared with them."""
        return {}

    @cached_property
    def applications(self) -> tuple[ApplicationEvaluation, ...]:
        """The applications that are planned for."""
        return tuple([self.of(place) for place in self.planned.nonzero()[0].tolist()])

    def of(self, place: int) -> ApplicationEvaluation:
        """The application at this index of the columns."""
        found = self._views.get(place)
        if found is None:
            found = self._views[place] = self._view(place)
        return found

    @cached_property
    def _views(self) -> dict[int, ApplicationEvaluation]:
        """Cached, because several proposers use the same applications."""
        return {}

    def _view(self, place: int) -> ApplicationEvaluation:
        sample, budgets = self.samples[place], self.budgets
        late_share = budgets.late.item(place) / max(budgets.rows.item(place), 1.0)
        return ApplicationEvaluation(
            place=place,
            sample=sample,
            objective=Objective(self.promises.latency_s.item(place), self.promises.percentile.item(place)),
            workload=self.loads.of(place),
            distrust=quality.reason(int(self.codes[place]), sample, self.time_s, self.policy.guards.max_age_s),
            late_share=late_share,
            budget_left=1.0 - late_share / budgets.allowed.item(place),
            expected=self.expected,
            detail=self.details.get(sample.name, NO_DETAIL),
        )
