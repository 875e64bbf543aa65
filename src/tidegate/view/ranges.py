"""Panels over a range of time, aggregated in SQL."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil
from typing import Any, NamedTuple

from tidegate.domain.action import Action
from tidegate.domain.codec import from_tree
from tidegate.domain.decision import Decision
from tidegate.domain.money import cost as money
from tidegate.view.book import FINE_RANGE_S, Book
from tidegate.view.now import backlog_s, capacity_rows_per_s, catch_up_s, slots_left
from tidegate.view.panels import Column, Cost, DecisionDetail, Moment, OperatorLoad, Series

_WEIGHTED = "sum({0} * latency_rows) / nullif(sum(CASE WHEN {0} IS NULL THEN 0 ELSE latency_rows END), 0)"
_APPLICATION = {
    "rows": "sum(rows)",
    "batches": "sum(batches)",
    "p50_s": _WEIGHTED.format("p50_s"),
    "p90_s": _WEIGHTED.format("p90_s"),
    "p99_s": "max(p99_s)",
    "objective_s": "min(objective_s)",
    "budget_left": "min(budget_left)",
    "arrival": "avg(arrival)",
    "expected": "avg(expected)",
    "expected_low": "avg(expected_low)",
    "expected_high": "avg(expected_high)",
    "backlog_rows": "max(backlog_rows)",
    "needed_slots": "max(needed_slots)",
    "row_s": "avg(row_s)",
    "duration_s": "sum(duration_s) / nullif(sum(batches), 0)",
    "planning_s": "sum(planning_s) / nullif(sum(batches), 0)",
    "offsets_s": "sum(offsets_s) / nullif(sum(batches), 0)",
    "log_s": "sum(log_s) / nullif(sum(batches), 0)",
    "sink_s": "sum(sink_s) / nullif(sum(batches), 0)",
    "state_rows": "max(state_rows)",
    "state_bytes": "max(state_bytes)",
    "watermark_gap_s": "max(watermark_gap_s)",
    "admission_rows": "min(admission_rows)",
    "interval_s": "max(interval_s)",
}
_POOL = {
    "wanted": "avg(wanted)",
    "requested": "avg(requested)",
    "registered": "avg(registered)",
    "slots": "avg(slots)",
    "acted": "sum(acted)",
    "held": "sum(held)",
}
_MOST_MOMENTS = 400


def series(book: Book, application: str, start_s: float, end_s: float, points: int) -> Series:
    """All time series of one application."""
    buckets = _Buckets.of(start_s, end_s, points)
    times, columns = _grouped(book, "minutes", _APPLICATION, buckets, application)
    _, pool = _on(times, *_grouped(book, "minutes_pool", _POOL, buckets))
    busy = {"busy": "sum(arrival * row_s) / count(DISTINCT time_s)", "sharing": "count(DISTINCT application)"}
    _, everybody = _on(times, *_grouped(book, "minutes", busy, buckets))
    columns |= pool
    _derive(columns, everybody)
    return Series(*buckets, times, {name: [_short(one) for one in of] for name, of in columns.items()})


def pool_series(book: Book, start_s: float, end_s: float, points: int) -> Series:
    """Executors over time."""
    buckets = _Buckets.of(start_s, end_s, points)
    times, columns = _grouped(book, "minutes_pool", _POOL, buckets)
    return Series(*buckets, times, {name: [_short(one) for one in of] for name, of in columns.items()})


def operators(book: Book, application: str, start_s: float, end_s: float) -> list[OperatorLoad]:
    """The operators of an application in their order, over the range."""
    source = book.source("minutes_operators", start_s, end_s)
    pool = book.source("minutes_pool", start_s, end_s)
    slots, seconds = book.database.execute(
        f"SELECT avg(slots), max(time_s) - min(time_s) FROM {pool} WHERE time_s BETWEEN ? AND ?", (start_s, end_s)
    ).fetchone()
    rows = book.database.execute(
        "SELECT operator, min(place), sum(rows_in), sum(rows_out), sum(busy_s), sum(communication_s), max(time_s),"
        f" parallelism, avg(skew), max(state_rows), max(state_bytes) FROM {source}"
        " WHERE application = ? AND time_s BETWEEN ? AND ? GROUP BY operator ORDER BY min(place), operator",
        (application, start_s, end_s),
    ).fetchall()
    grain_s = 1.0 if end_s - start_s <= FINE_RANGE_S else 60.0
    return [_operator(row, slots, max(seconds or 0.0, grain_s)) for row in rows]


def timeline(book: Book, start_s: float, end_s: float) -> list[Moment]:
    """Decisions and holds, oldest first. Consecutive holds for one reason are one moment."""
    source = book.source("moments", start_s, end_s)
    where = f"FROM {source} WHERE end_s >= ? AND time_s <= ?"
    rows = book.database.execute(
        "SELECT number, end_s, steps, kind, code, CASE kind WHEN 'acted' THEN '' ELSE body END"
        f" {where} ORDER BY number",
        (start_s, end_s),
    )
    spans: list[_Span] = []
    for number, until_s, steps, kind, code, body in rows:
        last = spans[-1] if spans else None
        if last is not None and kind != "acted" and (kind, code, body) == (last.kind, last.code, last.body):
            last.end_s, last.steps = until_s, last.steps + steps
        else:
            spans.append(_Span(number, until_s, steps, kind, code, body))
    if len(spans) > _MOST_MOMENTS:  # actions matter more than holds
        deeds = [one for one in spans if one.kind == "acted"][-_MOST_MOMENTS:]
        others = sorted((one for one in spans if one.kind != "acted"), key=lambda one: -one.steps)
        spans = sorted(deeds + others[: _MOST_MOMENTS - len(deeds)], key=lambda one: one.number)
    marks = ",".join(str(one.number) for one in spans)
    told = book.database.execute(
        f"SELECT number, time_s, title, reason, body {where} AND number IN ({marks})", (start_s, end_s)
    )
    texts = {number: rest for number, *rest in told}
    return [_moment(one, *texts[one.number]) for one in spans]


@dataclass(slots=True)
class _Span:
    """Consecutive moments that are shown as one."""

    number: int
    end_s: float
    steps: int
    kind: str
    code: str
    body: str


def decision(book: Book, number: int) -> DecisionDetail | None:
    """One step in full."""
    found = book.step(number)
    if found is None or found[0].get("d") is None:
        return None
    tree, outcomes = found
    plain = {**tree["d"], "action_texts": [str(action) for action in from_tree(Decision, tree["d"]).actions]}
    return DecisionDetail(number, tree["t"], plain, tree["r"], outcomes)


def cost(book: Book, start_s: float, end_s: float) -> Cost:
    """The cost of the pool, and of the fixed pool that the busiest minute needs."""
    policy, pool = book.policy(), book.source("minutes_pool", start_s, end_s)
    executor_s, seconds, slots_each = book.database.execute(
        "SELECT sum(registered * seconds), sum(seconds), max(slots / nullif(registered, 0))"
        f" FROM {pool} WHERE time_s BETWEEN ? AND ?",
        (start_s, end_s),
    ).fetchone()
    source = book.source("minutes", start_s, end_s)
    # An application needs slots at least for its arriving rows; the pool must serve all of them in the busiest minute.
    needed = book.database.execute(
        "SELECT max(needed) FROM (SELECT sum(needed) AS needed FROM (SELECT application,"
        " CAST(time_s / 60 AS INTEGER) AS minute, max(coalesce(needed_slots, arrival * row_s)) AS needed"
        f" FROM {source} WHERE time_s BETWEEN ? AND ? GROUP BY application, minute) GROUP BY minute)",
        (start_s, end_s),
    ).fetchone()[0]
    price = policy.executors.price_per_hour if policy else 1.0
    executor_s, seconds = executor_s or 0.0, seconds or 0.0
    fixed = max(1, ceil(needed / slots_each - 1e-9)) if needed and slots_each else None
    fixed = max(fixed, policy.executors.min) if fixed is not None and policy is not None else fixed
    fixed_money = None if fixed is None else money(fixed * seconds, price)
    spent = money(executor_s, price)
    return Cost(
        hours=round(seconds / 3600, 4),
        executor_hours=round(executor_s / 3600, 4),
        price_per_hour=price,
        money=round(spent, 4),
        fixed_executors=fixed,
        fixed_money=None if fixed_money is None else round(fixed_money, 4),
        saved=None if not fixed_money else round(1.0 - spent / fixed_money, 4),
    )


class _Buckets(NamedTuple):
    """A range of time in equal parts."""

    start_s: float
    end_s: float
    width_s: float

    @classmethod
    def of(cls, start_s: float, end_s: float, points: int) -> _Buckets:
        return cls(start_s, end_s, max(1.0, (end_s - start_s) / points))


def _grouped(
    book: Book, table: str, columns: dict[str, str], buckets: _Buckets, application: str | None = None
) -> tuple[list[float], dict[str, Column]]:
    start_s, end_s, bucket_s = buckets
    source = book.source(table, start_s, end_s)
    where = "" if application is None else " AND application = :application"
    rows = book.database.execute(
        f"SELECT CAST((time_s - :start) / :bucket AS INTEGER) AS place, {', '.join(columns.values())}"
        f" FROM {source} WHERE time_s BETWEEN :start AND :end{where} GROUP BY place ORDER BY place",
        {"start": start_s, "end": end_s, "bucket": bucket_s, "application": application},
    ).fetchall()
    times = [round(min(end_s, start_s + (row[0] + 0.5) * bucket_s), 3) for row in rows]
    return times, {name: [row[place] for row in rows] for place, name in enumerate(columns, 1)}


def _on(times: list[float], own: list[float], columns: dict[str, Column]) -> tuple[list[float], dict[str, Column]]:
    """Columns at other times; None where a value is unknown."""
    place = {time: at for at, time in enumerate(own)}
    at = [place.get(time) for time in times]
    return times, {name: [None if one is None else of[one] for one in at] for name, of in columns.items()}


def _derive(columns: dict[str, Column], everybody: dict[str, Column]) -> None:
    """Compute the capacity from the slots that the others leave, and what follows from it."""
    capacity: Column = []
    seen = (columns["slots"], everybody["busy"], everybody["sharing"], columns["arrival"], columns["row_s"])
    for slots, busy, sharing, arrival, row_s in zip(*seen, strict=True):
        others = (busy or 0.0) - (arrival or 0.0) * (row_s or 0.0)
        left = None if slots is None else slots_left(slots, others, int(sharing or 1))
        capacity.append(capacity_rows_per_s(left, row_s))
    columns["capacity"] = capacity
    together = list(zip(columns["backlog_rows"], columns["arrival"], capacity, strict=True))
    columns["backlog_s"] = [backlog_s(rows, arrival) for rows, arrival, _ in together]
    columns["catch_up_s"] = [catch_up_s(rows, arrival, most) for rows, arrival, most in together]
    parts = [columns[name] for name in ("duration_s", "planning_s", "offsets_s", "log_s", "sink_s")]
    columns["stages_s"] = [
        None if one[0] is None or one[1] is None else max(0.0, one[0] - sum(part or 0.0 for part in one[1:]))
        for one in zip(*parts, strict=True)
    ]


def _operator(row: tuple[Any, ...], slots: float | None, seconds: float) -> OperatorLoad:
    name, place, rows_in, rows_out, busy_s, communication_s, _, parallelism, skew, state_rows, state_bytes = row
    usable = min(parallelism or 0, slots or 0.0)
    row_s = busy_s / rows_in if rows_in else None
    return OperatorLoad(
        operator=name,
        place=place,
        rows_in_per_s=_short(rows_in / seconds if rows_in else None),
        rows_out_per_s=_short(rows_out / seconds if rows_out else None),
        busy_slots=_short(busy_s / seconds) or 0.0,
        load=_short(busy_s / seconds / usable if usable else None),
        parallelism=parallelism,
        skew=_short(skew),
        communication=_short(communication_s / busy_s if busy_s else 0.0) or 0.0,
        row_s=_short(row_s),
        capacity_rows_per_s=_short(capacity_rows_per_s(usable, row_s) if usable else None),
        state_rows=state_rows,
        state_bytes=state_bytes,
    )


def _moment(span: _Span, time_s: float, title: str, reason: str, text: str) -> Moment:
    body = json.loads(text)
    title = title or ", ".join(_titles(body["actions"])) or "held"
    return Moment(
        span.number, time_s, span.end_s, span.steps, span.kind, title, reason, span.code, body["guards"], body["advice"]
    )


def _titles(actions: list[dict[str, Any]]) -> Iterator[str]:
    """One title per action. State moves of a decision share one, however many partitions they involve."""
    moves = Counter(action["application"] for action in actions if action["kind"] == "move-state")
    yield from (_action_text(action) for action in actions if action["kind"] != "move-state" or moves.total() == 1)
    if moves.total() > 1:
        yield from (f"{name}: moving {count} state partitions" for name, count in moves.items())


def _action_text(action: dict[str, Any]) -> str:
    known = {key: value for key, value in action.items() if key != "outcome"}
    outcome = action.get("outcome")
    return str(from_tree(Action, known)) + (f" ({outcome})" if outcome not in {None, "done"} else "")  # type: ignore[arg-type]


def _short(value: float | None) -> float | None:
    """Five significant digits: more would be sent but not visible."""
    if value is None:
        return None
    return float(f"{value:.5g}") if abs(value) < 1e9 else float(round(value))
