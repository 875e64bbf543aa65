"""The policy: the user's objectives, and how freely the controller may act. Every field has a default."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches
from operator import attrgetter
from typing import Any, ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from tidegate.domain.calendar import day_end_s, day_start_s, time_zone
from tidegate.domain.decision import Mode
from tidegate.domain.misfit import Misfit, misfit_error
from tidegate.domain.money import affordable_executors, cost
from tidegate.domain.objective import Objective
from tidegate.domain.python310 import Self
from tidegate.domain.retired import RETIRED
from tidegate.domain.rules import (
    ApplicationRule,
    ConsoleRule,
    ExecutorRule,
    Freeze,
    GuardRule,
    JournalRule,
    KnobRule,
    ObjectiveRule,
    ScheduledMinimum,
)
from tidegate.domain.section import PositiveSeconds, Retired, Section
from tidegate.domain.serviceclasses import QosClass, QosClassRule

FIXED_WHILE_RUNNING = ("journal.path", "journal.history", "dynamic_allocation", "console")
"""Settings that are read once, when control starts."""
_NO_CLASS = QosClassRule()


class Policy(Section):
    """Objectives, bounds and settings: the contents of a policy file."""

    retired: ClassVar[Retired] = RETIRED

    mode: Mode = Field(Mode.APPLY, description="off observes only, recommend decides and journals, apply acts.")
    objective: ObjectiveRule = Field(default_factory=ObjectiveRule, description="For every application.")
    executors: ExecutorRule = Field(default_factory=ExecutorRule, description="Bounds and price of the pool.")
    classes: dict[str, QosClassRule] = Field(default_factory=dict, description="Service classes by name.")
    applications: dict[str, ApplicationRule] = Field(default_factory=dict, description="By query name.")
    freeze: tuple[Freeze, ...] = Field((), description="Times without disruptive changes.")
    timezone: str = Field("UTC", description="Time zone of cron lines and of a budget's day, such as Europe/Berlin.")
    knobs: KnobRule = Field(default_factory=KnobRule, description="Which knobs Tidegate may use.")
    guards: GuardRule = Field(default_factory=GuardRule, description="Limits on decisions.")
    dynamic_allocation: Literal["refuse", "take-over"] = Field(
        "refuse", description="If Spark's own dynamic allocation is on: do not scale, or switch it off and scale."
    )
    journal: JournalRule = Field(default_factory=JournalRule, description="Where decisions are recorded.")
    console: ConsoleRule | None = Field(None, description="Serve a page and metrics; default: neither.")
    interval_s: PositiveSeconds = Field(1.0, description="Seconds between controller steps.")

    @field_validator("mode", mode="before")
    @classmethod
    def _off_is_a_word(cls, mode: Any) -> Any:
        return Mode.OFF if mode is False else mode  # YAML reads a bare `off` as false

    @field_validator("timezone")
    @classmethod
    def _on_the_map(cls, timezone: str) -> str:
        time_zone(timezone)
        return timezone

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        misfits = list(self._misfits())
        if misfits:
            raise misfit_error(misfits)
        return self

    def _misfits(self) -> Iterator[Misfit]:
        """Yield references to undefined classes, and classes that no application uses."""
        used = {rule.qos_class for rule in self.applications.values()}
        known = ", ".join(self.classes) or "none"
        for name, rule in self.applications.items():
            if rule.qos_class is not None and rule.qos_class not in self.classes:
                close = get_close_matches(rule.qos_class, self.classes, n=1)
                meant = f"did you mean {close[0]}?" if close else f"defined are: {known}"
                text = f"no class {rule.qos_class!r} is defined; {meant}"
                yield Misfit(("applications", name, "class"), text, needs=("classes", rule.qos_class))
        for name in self.classes:
            if name not in used:
                text = f"class {name!r} is defined but no application uses it: "
                text += f"remove it or write applications.NAME.class: {name}"
                yield Misfit(("classes", name), text, needs=("applications",))

    # objectives

    def objective_of(self, application: str) -> Objective:
        """Return the application's objective. Missing values come from its class, then from the policy."""
        rule, latency_s, percentile = self.applications.get(application), None, None
        if rule is not None:
            stated = (rule.objective, self.classes.get(rule.qos_class) if rule.qos_class else None)
            latency_s = next((one.latency_s for one in stated if one and one.latency_s is not None), None)
            percentile = next((one.percentile for one in stated if one and one.percentile is not None), None)
        return Objective(
            self.objective.latency_s if latency_s is None else latency_s,
            self.objective.percentile if percentile is None else percentile,
        )

    def class_of(self, application: str) -> QosClass:
        """Return the service class of an application. Without a class its weight is 1."""
        name = self.class_name(application)
        return (self.classes[name] if name else _NO_CLASS).with_objective(self.objective_of(application))

    def class_name(self, application: str) -> str | None:
        rule = self.applications.get(application)
        return rule.qos_class if rule else None

    def ignores(self, application: str) -> bool:
        rule = self.applications.get(application)
        return bool(rule and rule.ignore)

    @property
    def consumer_groups(self) -> dict[str, str]:
        """The consumer group for each application that has one."""
        return {name: rule.consumer_group for name, rule in self.applications.items() if rule.consumer_group}

    # rules that depend on time (of the observation, in seconds since 1970)

    def least_executors(self, time_s: float) -> int:
        """Return the minimum at this time, including scheduled minimums.

        >>> policy = Policy.model_validate(
        ...     {"executors": {"minimum": [{"cron": "0 7 * * 1-5", "for": "3h", "executors": 3}]}}
        ... )
        >>> [policy.least_executors(hour * 3600) for hour in (6, 7, 9, 10)]  # of Thursday, 1 January 1970
        [1, 3, 3, 1]
        """
        scheduled = self.scheduled_minimum(time_s)
        return max(self.executors.min, scheduled.executors) if scheduled else self.executors.min

    def scheduled_minimum(self, time_s: float) -> ScheduledMinimum | None:
        """Return the largest scheduled minimum at this time."""
        if not self.executors.minimum:
            return None
        open_now = [rule for rule in self.executors.minimum if rule.spans(self.timezone).active(time_s)]
        return max(open_now, key=lambda rule: rule.executors, default=None)

    def frozen(self, time_s: float) -> Freeze | None:
        """Return the freeze at this time, or the strictest of several."""
        open_now = [rule for rule in self.freeze if rule.spans(self.timezone).active(time_s)]
        return min(open_now, key=lambda rule: rule.growth, default=None)

    def next_change_s(self, time_s: float) -> float | None:
        """Return when a freeze or a scheduled minimum next begins or ends, or None."""
        spans = (rule.spans(self.timezone) for rule in (*self.freeze, *self.executors.minimum))
        return min((at_s for one in spans if (at_s := one.next_change_s(time_s)) is not None), default=None)

    # money

    def affordable_executors(self, time_s: float, spent_today: float) -> int | None:
        """Return the largest pool that the budget allows now, or None without a budget.

        `spent_today`: executor-seconds since midnight in the policy's time zone (`day_start_s`).
        """
        rule = self.executors
        if rule.budget_per_day is None:
            return None
        left_s = day_end_s(time_s, self.timezone) - time_s
        affordable = affordable_executors(rule.budget_per_day, rule.price_per_hour, spent_today, left_s, rule.min)
        return max(affordable, self.least_executors(time_s))

    def most_executors(self, time_s: float, spent_today: float = 0.0) -> int:
        """Return the maximum at this time: the policy's, or what the budget allows."""
        affordable = self.affordable_executors(time_s, spent_today)
        return self.executors.max if affordable is None else min(self.executors.max, affordable)

    def day_start_s(self, time_s: float) -> float:
        """Return the start of the budget's day."""
        return day_start_s(time_s, self.timezone)

    def cost(self, executor_s: float) -> float:
        """Return the price of this many executor-seconds."""
        return cost(executor_s, self.executors.price_per_hour)

    # changes while running

    def live_from(self, before: Policy) -> tuple[Policy, tuple[str, ...]]:
        """Return this policy as a replacement for `before` in a running controller, and the settings that cannot
        change.

        >>> changed = Policy.model_validate({"mode": "recommend", "journal": {"path": "other.db"}})
        >>> live, fixed = changed.live_from(Policy())
        >>> live.mode.value, live.journal.path, fixed
        ('recommend', None, ('journal.path',))
        """
        changed = tuple(name for name in FIXED_WHILE_RUNNING if _at(before, name) != _at(self, name))
        if not changed:
            return self, ()
        kept = {"path": before.journal.path, "history": before.journal.history}
        journal = self.journal.model_copy(update=kept)
        update = {"journal": journal, "dynamic_allocation": before.dynamic_allocation, "console": before.console}
        return self.model_copy(update=update), changed


def _at(policy: Policy, name: str) -> object:
    return attrgetter(name)(policy)
