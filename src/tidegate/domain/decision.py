"""What a planner proposes, what guards hold back, what is decided, and the outcome."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.domain.action import Action, MoveState
from tidegate.domain.python310 import StrEnum


class Mode(StrEnum):
    """What the controller may do: only observe, decide and record, or act."""

    OFF = "off"
    RECOMMEND = "recommend"
    APPLY = "apply"


@dataclass(frozen=True, slots=True)
class Reason:
    """Why something was decided: a code to count by, and a sentence for readers."""

    code: str
    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Proposal:
    """One proposed action with its reason, before guards refuse or reduce it."""

    action: Action
    reason: Reason
    pause_s: float = 0.0
    """Expected downtime of the application."""
    score: float = 0.0
    """Priority among competing proposals: higher comes first."""
    urgent: bool = False
    """An objective is being missed, so the proposal may use a token of the rescue lane."""


@dataclass(frozen=True, slots=True)
class Held:
    """An action that a guard held back or reduced."""

    guard: str
    wanted: Action
    reason: Reason
    score: float = 0.0
    urgent: bool = False


@dataclass(frozen=True, slots=True)
class Assessment:
    """What the controller assumed about an application when it decided."""

    application: str
    usable: bool
    """False if the metrics cannot be trusted. Nothing is changed based on them."""
    reason: Reason | None = None
    """Why the metrics cannot be trusted."""
    arrival_rows_per_s: float | None = None
    expected_rows_per_s: float | None = None
    """Expected arrival rate when a change would take effect."""
    service_s_per_row: float | None = None
    """Slot-seconds per row."""
    overhead_s: float | None = None
    backlog_rows: int | None = None
    latency_p99_s: float | None = None
    needed_slots: float | None = None
    objective_s: float | None = None
    """The latency objective."""
    budget_left: float | None = None
    """Remaining error budget: 1 is untouched, 0 is spent."""
    expected_low_rows_per_s: float | None = None
    """Edges of the forecast over the next minute."""
    expected_high_rows_per_s: float | None = None


@dataclass(frozen=True, slots=True)
class QosReading:
    """One row of a QoS table, or one QoS graph, over its window."""

    application: str
    objective: str
    """The row or graph as text."""
    met: bool | None
    """None if too little has been measured or nothing is required."""
    score: float | None
    """For a row, the share of samples within the bound; for a graph, the mean utility."""
    value: float | None
    """Mean of the metric; for latencies, the mean of the batches' 99th percentiles."""


@dataclass(frozen=True, slots=True)
class Advice:
    """What would meet an objective that the controller cannot meet within its bounds."""

    application: str
    reason: Reason
    executors: int | None = None
    """Size of the whole pool."""
    hosts: int | None = None
    parallelism: int | None = None
    """Tasks of the busiest operator, if it has too few to use those executors."""
    latency_s: float | None = None
    """The objective that can be met within the current bounds."""
    rows_per_s: float | None = None
    """The load that is sustainable within the current bounds."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """What the model predicts for an application, given the configuration after the decision.

    It covers the rows that wait now or arrive until `due_s`, each followed to its commit. If it is about a changed
    interval, it leaves out the rows that wait now.
    """

    application: str
    due_s: float
    p99_s: float
    late_share: float
    """Share of the rows over the objective."""
    executors: int
    interval_s: float | None = None
    """The trigger interval, if the prediction is about a change of it."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """The outcome of a prediction."""

    step: int
    """Step of the decision that made it."""
    prediction: Prediction
    p99_s: float | None
    """Of the same rows; None if latency could not be measured."""
    late_share: float | None


@dataclass(frozen=True, slots=True)
class MoveJudgement:
    """The outcome of a state move."""

    move: MoveState
    batches: int | None
    """Batches until the partition ran in its new place; None if it never did."""


@dataclass(frozen=True, slots=True)
class Decision:
    """The result of one controller step. A decision to hold has no actions, only reasons."""

    step: int
    time_s: float
    actions: tuple[Action, ...]
    held: tuple[Held, ...]
    reasons: tuple[Reason, ...]
    assessments: tuple[Assessment, ...] = ()
    qos: tuple[QosReading, ...] = ()
    """Every row and graph of the policy, and the latency objectives that are missed."""
    set_aside: tuple[Reason, ...] = ()
    """Abnormal samples, used neither for learning nor for planning."""
    advice: tuple[Advice, ...] = ()
    predictions: tuple[Prediction, ...] = ()
    judged: tuple[Judgement, ...] = ()
    """Earlier predictions that are now due."""
    moved: tuple[MoveJudgement, ...] = ()
    """Earlier state moves that have taken effect or were given up."""
    rolled_out: int = 0
    """Applications outside their band, for which candidates were rolled out."""

    @property
    def holds(self) -> bool:
        return not self.actions


class Outcome(StrEnum):
    """What the cluster did with one action."""

    DONE = "done"
    UNDER_WAY = "under way"
    REFUSED = "refused"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class ActionReceipt:
    """The result of one action."""

    action: Action
    outcome: Outcome
    note: str = ""
    pause_s: float | None = None


@dataclass(frozen=True, slots=True)
class Receipt:
    """What the cluster did about its targets in one tick: a result for each target that it acted on or could not act
    on.

    A target that was already reached has no entry.
    """

    actions: tuple[ActionReceipt, ...] = ()
