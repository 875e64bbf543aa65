"""The newest state of a journal: the top of the page, and the source of the metrics."""

from __future__ import annotations

from typing import Any

from tidegate.control.journal.entry import Note
from tidegate.domain.codec import from_tree
from tidegate.domain.decision import Decision
from tidegate.domain.policy import Policy
from tidegate.evaluate.violations import report
from tidegate.view.book import Book
from tidegate.view.panels import ApplicationNow, ClassNow, Lag, Overview, PoolNow

_HOUR_S = 3600.0
_MOST_NOTES = 50


def overview(book: Book, steerable: bool = False, paused: bool = False) -> Overview:
    """The journal at a glance."""
    tree, policy, span = book.newest, book.policy(), book.span_s
    decision = tree["d"] if tree else None
    undone = decision is not None and tree is not None and tree["r"] is None and bool(decision["actions"])
    return Overview(
        journal=book.name,
        first_s=span[0] if span else None,
        last_s=span[1] if span else None,
        steps=book.steps,
        mode=policy.mode.value if policy else None,
        interval_s=policy.interval_s if policy else 1.0,
        indexed=round(book.indexed, 3),
        steerable=steerable,
        paused=paused,
        pool=pool_now(book, policy),
        applications=applications_now(book),
        recommendation=_words(decision) if undone and decision is not None else [],
        step=decision["step"] if decision else None,
        notes=[Note(*row) for row in book.notes(_MOST_NOTES)],
    )


def pool_now(book: Book, policy: Policy | None) -> PoolNow | None:
    """The executors of the newest step."""
    tree = book.newest
    if tree is None or tree["o"] is None:
        return None
    pool, decision = tree["o"]["pool"], tree["d"]
    proposed = [held["wanted"] for held in decision["held"]] + decision["actions"] if decision else []
    sizes = [action["target"] for action in proposed if action["kind"] == "scale-executors"]
    return PoolNow(
        wanted=sizes[0] if sizes else pool["requested"],
        requested=pool["requested"],
        registered=len(pool["executors"]),
        slots_per_executor=pool["slots_per_executor"],
        least=policy.executors.min if policy else None,
        most=policy.executors.max if policy else None,
        disruptions_left=_disruptions_left(book, policy, tree["t"]),
    )


def applications_now(book: Book) -> list[ApplicationNow]:
    """Every application of the newest step."""
    tree = book.newest
    if tree is None or tree["o"] is None:
        return []
    policy = book.policy()
    slots = sum(executor["slots"] for executor in tree["o"]["pool"]["executors"])
    names = [sample["name"] for sample in tree["o"]["applications"]]
    busy = {name: _busy_slots(book.beliefs.get(name, {})) for name in names}
    everybody = sum(busy.values())
    return [
        _application(book, sample, policy, slots_left(slots, everybody - busy[sample["name"]], len(names)))
        for sample in tree["o"]["applications"]
    ]


def classes_now(book: Book) -> list[ClassNow]:
    """Service classes as the controller knows them, and the shares of applications without a class."""
    knowledge = book.knowledge()
    if knowledge is None:
        return []
    shares = dict(knowledge.targets.shares)
    found = [
        ClassNow(
            name=one.name,
            latency_s=one.latency_s,
            rows=one.rows,
            late_share=one.late_share,
            window_share=one.window_share,
            bound=one.bound,
            incidents=one.incidents,
            worst_p99_s=one.worst_p99_s,
            share=shares.pop(one.name, None),
        )
        for one in report(knowledge.evaluation.classes)
    ]
    rest = [ClassNow(name, None, 0.0, None, None, None, 0, None, share) for name, share in shares.items()]
    return found + rest


def lag_now(book: Book, application: str) -> list[Lag]:
    """Backlog by partition, largest first."""
    return [Lag(one["partition"], one["rows"]) for one in book.samples.get(application, {}).get("lag", ())]


def recommended(book: Book) -> Decision | None:
    """The newest decision, if it has actions that were not carried out."""
    tree = book.newest
    if tree is None or tree["d"] is None or tree["r"] is not None or not tree["d"]["actions"]:
        return None
    return from_tree(Decision, tree["d"])


def _application(book: Book, sample: dict[str, Any], policy: Policy | None, slots: float) -> ApplicationNow:
    name = sample["name"]
    batch, belief = book.samples.get(name, {}), book.beliefs.get(name, {})
    latency = batch.get("latency") or {}
    arrival, row_s = belief.get("arrival_rows_per_s"), belief.get("service_s_per_row")
    capacity = capacity_rows_per_s(slots, row_s)
    backlog = batch.get("backlog_rows")
    reason = belief.get("reason")
    return ApplicationNow(
        application=name,
        running=sample["running"],
        class_name=policy.class_name(name) if policy else None,
        objective_s=belief.get("objective_s") or (policy.objective_of(name).latency_s if policy else None),
        percentile=policy.objective_of(name).percentile if policy else None,
        latency_p50_s=latency.get("p50_s"),
        latency_p90_s=latency.get("p90_s"),
        latency_p99_s=latency.get("p99_s"),
        predicted_p99_s=book.predicted.get(name),
        budget_left=belief.get("budget_left"),
        backlog_rows=backlog,
        backlog_s=backlog_s(backlog, arrival),
        catch_up_s=catch_up_s(backlog, arrival, capacity),
        arrival_rows_per_s=arrival,
        expected_rows_per_s=belief.get("expected_rows_per_s"),
        capacity_rows_per_s=capacity,
        watermark_gap_s=batch.get("watermark_gap_s"),
        admission_rows=sample["admission_rows"],
        state_rows=batch.get("state_rows"),
        distrust=reason["text"] if reason else None,
        error=sample["error"],
    )


def slots_left(slots: float, others: float, sharing: int) -> float:
    """Slots for one of several applications: what the others do not keep busy, but at least its fair share.

    >>> slots_left(8, others=3, sharing=2), slots_left(8, others=11, sharing=2)
    (5, 4.0)
    """
    return max(slots - others, slots / max(1, sharing))


def capacity_rows_per_s(slots: float | None, row_s: float | None) -> float | None:
    """Rows per second that the slots could process if only rows cost time: an upper bound.

    >>> capacity_rows_per_s(4, 0.01)
    400.0
    """
    return None if slots is None or not row_s else slots / row_s


def backlog_s(rows: float | None, arrival: float | None) -> float | None:
    """How long the backlog took to arrive.

    >>> backlog_s(600, 200), backlog_s(600, 0), backlog_s(0, 0)
    (3.0, None, 0.0)
    """
    if rows is None:
        return None
    return 0.0 if not rows else rows / arrival if arrival else None


def catch_up_s(rows: float | None, arrival: float | None, capacity: float | None) -> float | None:
    """Time until the backlog is gone at the current load and capacity; None if capacity does not exceed the load.

    >>> catch_up_s(600, 200, 300), catch_up_s(600, 200, 150)
    (6.0, None)
    """
    if rows is None or arrival is None or capacity is None or capacity <= arrival:
        return None
    return rows / (capacity - arrival)


def _busy_slots(belief: dict[str, Any]) -> float:
    return (belief.get("arrival_rows_per_s") or 0.0) * (belief.get("service_s_per_row") or 0.0)


def _disruptions_left(book: Book, policy: Policy | None, time_s: float) -> int | None:
    knowledge = book.knowledge()
    if policy is None or knowledge is None:
        return None
    recent = sum(1 for at_s in knowledge.guards.disruptions_s if at_s > time_s - _HOUR_S)
    return max(0, policy.guards.disruptions_per_hour - recent)


def _words(decision: dict[str, Any]) -> list[str]:
    return [str(action) for action in from_tree(Decision, decision).actions]
