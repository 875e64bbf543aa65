"""What the operators proposer remembers: latency lines, trials and their results, pauses, and migration tables."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from tidegate.domain import BatchSample, Reason, RebalanceReport
from tidegate.evaluate.bottleneck import Links, ThresholdModel
from tidegate.plan.operators.migration import MigrationTable

_NEW_WEIGHT = 0.5  # weight of a measured pause against earlier ones
_STATELESS_PAUSE_S = 4.0
_STATEFUL_PAUSE_S = 12.0
_MILLION_STATE_ROWS_S = 6.0
_MOST_TABLES = 3


@dataclass(slots=True)
class Trial:
    """A requested change of parallelism, and its predicted effect."""

    asked_s: float
    before: dict[str, int]
    after: dict[str, int]
    rows: float
    """Rows of a mean batch before the change. Times scale with it."""
    execute_s: dict[str, float]
    """Execute latency before the change, by operator."""
    predicted_s: dict[str, float]
    busy_s: dict[str, float]
    pause_s: float
    stateful: bool
    batch_s: float
    failed_tasks: float = 0.0
    """Failed attempts in a mean batch before the change. If above zero, they were the reason for the change."""
    reversal: bool = False
    restarted: bool = False
    """Whether the application has restarted since."""


@dataclass(slots=True)
class Useless:
    """More tasks did not help an operator at this load, this cost and this many slots."""

    text: str
    rows_per_s: float
    busy_s_per_row: list[float]
    """Before and after the change."""
    slots: int


@dataclass(slots=True)
class Reversal:
    """Parallelisms to return to, because a trial did harm. It stays due until it is carried out."""

    after: dict[str, int]
    execute_s: dict[str, float]
    """Execute latency before the trial, which should come back."""


@dataclass(slots=True)
class ApplicationMemory:
    """Memory of one application. It is dropped when the application ends."""

    threshold: ThresholdModel = field(default_factory=ThresholdModel)
    links: Links = field(default_factory=Links)
    batches: list[BatchSample] = field(default_factory=list)
    """Warm batches of the last interval with the same parallelism."""
    pressed_s: list[float] = field(default_factory=list)
    """Commit times of batches that came too close to the objective."""
    seen_s: float = 0.0
    looked_s: float | None = None
    stuck: Reason | None = None
    """Why nothing could be done at the last look although something should have been."""
    trial: Trial | None = None
    reversal: Reversal | None = None
    useless: dict[str, Useless] = field(default_factory=dict)
    parallelism_ignored: dict[str, int] = field(default_factory=dict)
    """By operator: how often a requested parallelism was ignored."""

    def count_ignored(self, operators: Iterable[str]) -> None:
        """Count a requested parallelism that these operators ignored. Other parts of the same request continue."""
        for name in tuple(operators):
            self.parallelism_ignored[name] = self.parallelism_ignored.get(name, 0) + 1
            if self.trial is not None:
                self.trial.after.pop(name, None)
            if self.reversal is not None:
                self.reversal.after.pop(name, None)
        if self.trial is not None and not self.trial.after:
            self.trial = None
        if self.reversal is not None and not self.reversal.after:
            self.reversal = None

    def start_anew(self) -> None:
        """Discard the measurements: the application runs differently from now on."""
        self.threshold = ThresholdModel()
        self.batches = []
        self.pressed_s = []
        self.stuck = None

    def take_other_slots(self, before: int, after: int) -> None:
        """Reset after a change of the pool's size: predictions were made for other slots.

        What a batch of operators with fewer tasks than slots has cost stays true: its tasks do not share slots among
        themselves. Whether it was slow has to be seen again, because others may have had the slots.
        """
        tasks = max((stage.parallelism for batch in self.batches for stage in batch.operators), default=0)
        if tasks > min(before, after) or self.trial is not None or self.reversal is not None:
            self.start_anew()
        self.pressed_s = []
        self.trial = None
        self.reversal = None


@dataclass(slots=True)
class OperatorsMemory:
    """Everything the proposer remembers between two steps."""

    applications: dict[str, ApplicationMemory] = field(default_factory=dict)
    pauses_s: dict[str, float] = field(default_factory=dict)
    """Exponential mean of measured pauses, by application and whether state moved. Kept after the application ends."""
    tables: list[MigrationTable] = field(default_factory=list)
    """Newest last."""
    slots: int | None = None

    def learn_report(self, application: str, report: RebalanceReport) -> str | None:
        """Record how a restart went. Returns a message if it was rolled back.

        A rolled-back rescale counts once: the world may also report it as failed for the targets of an earlier
        decision.
        """
        known = self.applications[application]
        trial = known.trial
        if report.pause_s is not None:
            stateful = trial.stateful if trial is not None else report.state_rows is not None
            self.learn_pause(application, stateful, report.pause_s)
        if trial is None:
            return None
        trial.restarted = True
        if report.done:
            return None
        known.count_ignored(trial.after)
        return f"{application}: the rescale was rolled back ({report.note or 'no reason given'})"

    def learn_pause(self, application: str, stateful: bool, pause_s: float) -> None:
        """Record how long a restart paused the application."""
        key = _pause_key(application, stateful)
        before_s = self.pauses_s.get(key, pause_s)
        self.pauses_s[key] = before_s + _NEW_WEIGHT * (pause_s - before_s)

    def pause_s(self, application: str, stateful: bool, state_rows: int) -> float:
        """How long a restart will take: as measured, or by default what such restarts usually take.

        >>> memory = OperatorsMemory()
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
