"""What operator elasticity remembers: latency lines, what was tried and what came of it, pauses, migration tables."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from tidegate.analysis.bottleneck import ThresholdModel
from tidegate.domain import BatchSample, Outcome, Reason, RebalanceReport, Receipt, SetParallelism
from tidegate.planning.migration import MigrationTable

_NEW_WEIGHT = 0.5  # of a measured pause against those before it
_STATELESS_PAUSE_S = 4.0
_STATEFUL_PAUSE_S = 12.0
_MILLION_STATE_ROWS_S = 6.0
_MOST_TABLES = 3


@dataclass(slots=True)
class Trial:
    """A change of parallelism that was asked for, and what was promised of it."""

    asked_s: float
    before: dict[str, int]
    after: dict[str, int]
    rows: float
    """Of a mean batch before the change; times scale with it."""
    execute_s: dict[str, float]
    """Execute latency before, by operator."""
    predicted_s: dict[str, float]
    busy_s: dict[str, float]
    pause_s: float
    stateful: bool
    batch_s: float
    reversal: bool = False
    accepted: bool = False
    """A receipt, or a restart, says that somebody acted on it."""
    restarted: bool = False
    """The application has been seen to start anew since."""


@dataclass(slots=True)
class Useless:
    """More tasks did not help an operator, at this load and this cost."""

    text: str
    rows_per_s: float
    busy_s_per_row: list[float]
    """Before and after the change."""


@dataclass(slots=True)
class ApplicationMemory:
    """One application; it ends with it."""

    threshold: ThresholdModel = field(default_factory=ThresholdModel)
    batches: list[BatchSample] = field(default_factory=list)
    """Warm batches of the last interval that ran with the same parallelism."""
    pressed_s: list[float] = field(default_factory=list)
    """When batches were committed that came too close to the objective."""
    seen_s: float = 0.0
    looked_s: float | None = None
    stuck: Reason | None = None
    """Why nothing could be done at the last look, where something should have been."""
    trial: Trial | None = None
    useless: dict[str, Useless] = field(default_factory=dict)
    unheard: dict[str, int] = field(default_factory=dict)
    """How often another parallelism was asked for in vain, by operator."""

    def count_unheard(self, operators: Iterable[str]) -> None:
        """Another parallelism was asked for these in vain; what else was asked for with it goes on."""
        for name in tuple(operators):
            self.unheard[name] = self.unheard.get(name, 0) + 1
            if self.trial is not None:
                self.trial.after.pop(name, None)
        if self.trial is not None and not self.trial.after:
            self.trial = None

    def start_anew(self) -> None:
        """The application runs differently from now on: what was measured before says nothing about it."""
        self.threshold = ThresholdModel()
        self.batches = []
        self.pressed_s = []
        self.stuck = None


@dataclass(slots=True)
class MeStreamMemory:
    """The planner's whole state."""

    applications: dict[str, ApplicationMemory] = field(default_factory=dict)
    pauses_s: dict[str, float] = field(default_factory=dict)
    """Exponential mean of measured pauses, by application and whether state moved; it outlives the application."""
    tables: list[MigrationTable] = field(default_factory=list)
    """The newest last."""
    slots: int | None = None

    def learn(self, receipt: Receipt) -> None:
        """Take in the answer to a decision: was it carried out, or refused?"""
        for answer in receipt.actions:
            if not isinstance(answer.action, SetParallelism):
                continue
            known = self.applications.get(answer.action.application)
            if known is None or known.trial is None:
                continue
            if answer.outcome in {Outcome.REFUSED, Outcome.FAILED}:
                known.count_unheard([answer.action.operator])
            else:
                known.trial.accepted = True

    def learn_report(self, application: str, report: RebalanceReport) -> str | None:
        """Take in how a restart went; returns what to say where it was rolled back."""
        known = self.applications[application]
        trial = known.trial
        if report.pause_s is not None:
            stateful = trial.stateful if trial is not None else report.state_rows is not None
            self.learn_pause(application, stateful, report.pause_s)
        if trial is None:
            return None
        trial.accepted = trial.restarted = True
        if report.done:
            return None
        known.count_unheard(trial.after)
        return f"{application}: the rescale was rolled back ({report.note or 'no reason given'})"

    def learn_pause(self, application: str, stateful: bool, pause_s: float) -> None:
        """A restart took so long."""
        key = _pause_key(application, stateful)
        before_s = self.pauses_s.get(key, pause_s)
        self.pauses_s[key] = before_s + _NEW_WEIGHT * (pause_s - before_s)

    def pause_s(self, application: str, stateful: bool, state_rows: int) -> float:
        """How long a restart will take: as measured, or else by what such restarts usually take.

        >>> memory = MeStreamMemory()
        >>> memory.pause_s("words", stateful=True, state_rows=500_000)
        15.0
        >>> memory.learn_pause("words", stateful=True, pause_s=9.0)
        >>> memory.pause_s("words", stateful=True, state_rows=500_000), memory.pause_s("words", False, 0)
        (9.0, 4.0)
        """
        measured_s = self.pauses_s.get(_pause_key(application, stateful))
        if measured_s is not None:
            return measured_s
        return _STATEFUL_PAUSE_S + _MILLION_STATE_ROWS_S * state_rows / 1e6 if stateful else _STATELESS_PAUSE_S

    def keep(self, table: MigrationTable) -> None:
        self.tables = [*self.tables, table][-_MOST_TABLES:]


def _pause_key(application: str, stateful: bool) -> str:
    return f"{application} {'stateful' if stateful else 'stateless'}"
