"""From idea to deed: what a planner proposes, what guards hold back, what is decided and what became of it."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.domain.action import Action, MoveState
from tidegate.domain.python310 import StrEnum


class Mode(StrEnum):
    """How far the controller may go."""

    OFF = "off"
    RECOMMEND = "recommend"
    APPLY = "apply"


@dataclass(frozen=True, slots=True)
class Reason:
    """Why: a code to count by, and a sentence for people."""

    code: str
    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Proposal:
    """One action that a planner wants, before the guards have seen it."""

    action: Action
    reason: Reason
    pause_s: float = 0.0
    """How long the application is expected to stand still for it."""
    score: float = 0.0
    """What it is worth, where whoever decides has to choose: the higher, the sooner."""
    urgent: bool = False
    """An objective is being missed: it may take a token of the rescue lane."""


@dataclass(frozen=True, slots=True)
class Held:
    """Something that was not done, or only in part, and the guard that says so."""

    guard: str
    wanted: Action
    reason: Reason
    score: float = 0.0
    urgent: bool = False


@dataclass(frozen=True, slots=True)
class Assessment:
    """What the controller believed about an application when it decided."""

    application: str
    usable: bool
    """False where the metrics cannot be trusted; nothing is changed on their account."""
    reason: Reason | None = None
    """Why they cannot be trusted."""
    arrival_rows_per_s: float | None = None
    expected_rows_per_s: float | None = None
    """Arrival at the time when a change would take effect."""
    service_s_per_row: float | None = None
    """Slot-seconds a row costs."""
    overhead_s: float | None = None
    backlog_rows: int | None = None
    latency_p99_s: float | None = None
    needed_slots: float | None = None
    objective_s: float | None = None
    """The latency that was promised."""
    budget_left: float | None = None
    """Of the error budget: 1 is untouched, 0 is spent."""
    expected_low_rows_per_s: float | None = None
    """Edges of the forecast over the next minute."""
    expected_high_rows_per_s: float | None = None


@dataclass(frozen=True, slots=True)
class QosReading:
    """One row of a QoS table, or one QoS graph, over its window."""

    application: str
    objective: str
    """The row or graph in words."""
    met: bool | None
    """None where too little has been measured, or nothing is asked of it."""
    score: float | None
    """Of a row: the share of samples that kept the bound. Of a graph: the mean utility."""
    value: float | None
    """The metric's mean; of latencies the mean of the batches' 99th percentiles."""


@dataclass(frozen=True, slots=True)
class Advice:
    """What would hold an objective that the controller cannot hold with what it may use."""

    application: str
    reason: Reason
    executors: int | None = None
    """Of the whole pool."""
    hosts: int | None = None
    parallelism: int | None = None
    """Tasks of the busiest operator, where it has too few to use those executors."""
    latency_s: float | None = None
    """The objective that can be held with what there is."""
    rows_per_s: float | None = None
    """The load that can be carried with what there is."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """What the model expects of an application until `due_s`, with the configuration that the decision leads to."""

    application: str
    due_s: float
    p99_s: float
    late_share: float
    """Share of the rows over the objective."""
    executors: int


@dataclass(frozen=True, slots=True)
class Judgement:
    """What came of a prediction."""

    step: int
    """Of the decision that made it."""
    prediction: Prediction
    p99_s: float | None
    """As measured; None where latency could not be."""
    late_share: float | None


@dataclass(frozen=True, slots=True)
class MoveJudgement:
    """What came of a state move."""

    move: MoveState
    batches: int | None
    """The partition ran where it was told to after this many batches; None where it never did."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What one step of the controller came to; a decision to hold has no actions and says why."""

    step: int
    time_s: float
    actions: tuple[Action, ...]
    held: tuple[Held, ...]
    reasons: tuple[Reason, ...]
    assessments: tuple[Assessment, ...] = ()
    qos: tuple[QosReading, ...] = ()
    """Every row and graph of the policy, and the latency objectives that are missed."""
    set_aside: tuple[Reason, ...] = ()
    """Abnormal samples that were neither learnt from nor planned on."""
    advice: tuple[Advice, ...] = ()
    predictions: tuple[Prediction, ...] = ()
    judged: tuple[Judgement, ...] = ()
    """Earlier predictions that fell due."""
    moved: tuple[MoveJudgement, ...] = ()
    """Earlier state moves that are in place by now, or were given up."""
    rolled_out: int = 0
    """Applications outside their band, for which candidates were rolled out."""

    @property
    def holds(self) -> bool:
        return not self.actions


class Outcome(StrEnum):
    """What the world did with one action."""

    DONE = "done"
    UNDER_WAY = "under way"
    REFUSED = "refused"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class ActionReceipt:
    """The answer to one action."""

    action: Action
    outcome: Outcome
    note: str = ""
    pause_s: float | None = None


@dataclass(frozen=True, slots=True)
class Receipt:
    """What the world did about its targets in one tick: an answer for each that it acted on, or could not act on.

    A target that had been reached before needs no answer.
    """

    actions: tuple[ActionReceipt, ...] = ()
