"""Per-minute summaries of steps, as rows that SQL can aggregate further. Pages and reports are drawn from them.

Reading an hour of exact steps takes seconds; reading a week of minutes takes a fraction of a second. The rows are
written when a stretch of steps is sealed. Newer steps are summarised on demand with the same function.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

MINUTE_S = 60.0
_MOST_TEXT = 400

APPLICATION_COLUMNS = (
    "time_s",
    "application",
    "steps",
    "batches",
    "rows",  # of committed batches
    "latency_rows",  # rows with a known latency
    "p50_s",  # row-weighted mean of the batches' medians
    "p90_s",
    "p99_s",  # the largest of the batches' 99th percentiles
    "arrival",  # rows/s, mean of the controller's estimates
    "expected",
    "expected_low",
    "expected_high",
    "objective_s",
    "budget_left",  # at the end
    "backlog_rows",  # at the end
    "needed_slots",  # maximum
    "row_s",  # slot-seconds per row
    "duration_s",  # from here on: sums over batches
    "planning_s",
    "offsets_s",
    "log_s",
    "sink_s",
    "busy_s",
    "state_rows",  # from here on: values at the end
    "state_bytes",
    "watermark_gap_s",
    "admission_rows",
    "interval_s",
)
OPERATOR_COLUMNS = (
    "time_s",
    "application",
    "operator",
    "place",  # its position among the application's operators
    "batches",
    "rows_in",
    "rows_out",
    "busy_s",
    "communication_s",
    "execute_s",
    "parallelism",
    "skew",
    "state_rows",
    "state_bytes",
)
POOL_COLUMNS = ("time_s", "steps", "seconds", "wanted", "requested", "registered", "slots", "acted", "held")
MOMENT_COLUMNS = ("number", "time_s", "end_s", "steps", "kind", "title", "reason", "code", "body")
TABLES: Mapping[str, Sequence[str]] = {
    "minutes": APPLICATION_COLUMNS,
    "minutes_operators": OPERATOR_COLUMNS,
    "minutes_pool": POOL_COLUMNS,
    "moments": MOMENT_COLUMNS,
}
COVERED = "summarised"
"""Ranges of entries that have been summarised."""

Row = tuple[Any, ...]


@dataclass(slots=True)
class Summary:
    """Rows for the tables, by table name."""

    rows: dict[str, list[Row]] = field(default_factory=lambda: {table: [] for table in TABLES})
    first: int = 0
    last: int = 0


def create(database: sqlite3.Connection, schema: str = "main", prefix: str = "") -> None:
    """Create the tables if they do not exist; `schema` is `main` or `temp`."""
    for table, columns in TABLES.items():
        database.execute(f"CREATE TABLE IF NOT EXISTS {schema}.{prefix}{table} ({', '.join(columns)})")
        database.execute(f"CREATE INDEX IF NOT EXISTS {schema}.{prefix}{table}_time ON {prefix}{table} (time_s)")
    database.execute(f"CREATE TABLE IF NOT EXISTS {schema}.{prefix}{COVERED} (first INTEGER, last INTEGER)")


def insert(database: sqlite3.Connection, summary: Summary, prefix: str = "") -> None:
    """Write the rows. The caller has opened a transaction."""
    for table, rows in summary.rows.items():
        marks = ",".join("?" * len(TABLES[table]))
        database.executemany(f"INSERT INTO {prefix}{table} VALUES ({marks})", rows)
    database.execute(f"INSERT INTO {prefix}{COVERED} VALUES (?, ?)", (summary.first, summary.last))


def summarise(trees: Sequence[Mapping[str, Any]], grain_s: float = MINUTE_S, before_s: float | None = None) -> Summary:
    """Summarise steps, given in order as plain values. A grain of 0 keeps every step separate.

    `before_s` is the time of the previous step. If unknown, the first step is taken to last as long as the second.
    """
    summary = Summary()
    if not trees:
        return summary
    summary.first, summary.last = trees[0]["i"], trees[-1]["i"]
    if before_s is None and len(trees) > 1:
        before_s = 2 * trees[0]["t"] - trees[1]["t"]
    span: _Span | None = None
    for tree in trees:
        time_s = tree["t"]
        start_s = time_s if not grain_s else time_s // grain_s * grain_s
        if span is None or span.time_s != start_s:
            if span is not None:
                span.write(summary)
            span = _Span(start_s)
        gap_s = 0.0 if before_s is None else min(max(0.0, time_s - before_s), MINUTE_S)
        before_s = time_s
        span.take(tree, gap_s)
    if span is not None:
        span.write(summary)
    summary.rows["moments"] = list(moments(trees))
    return summary


def moments(trees: Iterable[Mapping[str, Any]]) -> Iterable[Row]:
    """One row for each decision that acted; consecutive holds with the same reason share a row."""
    open_: list[Any] | None = None
    key: tuple[str, ...] = ()
    for tree in trees:
        decision = tree["d"]
        if decision is None:
            continue
        row, own = _moment(tree, decision)
        if open_ is not None and own == key and not decision["actions"]:
            open_[2], open_[3] = tree["t"], open_[3] + 1
            continue
        if open_ is not None:
            yield tuple(open_)
        open_, key = row, own
    if open_ is not None:
        yield tuple(open_)


def _moment(tree: Mapping[str, Any], decision: Mapping[str, Any]) -> tuple[list[Any], tuple[str, ...]]:
    reason = decision["reasons"][0]
    guards = [held["guard"] for held in decision["held"]]
    answers = {json.dumps(one["action"]): one["outcome"] for one in (tree["r"] or {}).get("actions", ())}
    body = {
        "actions": [{**action, "outcome": answers.get(json.dumps(action))} for action in decision["actions"]],
        "guards": guards,
        "advice": [advice["reason"]["text"][:_MOST_TEXT] for advice in decision.get("advice", ())],
    }
    if decision["actions"]:
        kind, title = ("acted" if tree["r"] is not None else "recommended"), ""
    else:
        kind, title = "held", ", ".join(dict.fromkeys(guards))
    row = [
        tree["i"],
        tree["t"],
        tree["t"],
        1,
        kind,
        title,
        reason["text"][:_MOST_TEXT],
        reason["code"],
        json.dumps(body, separators=(",", ":")),
    ]
    return row, (kind, title, reason["code"], *body["advice"])


class _Span:
    """Aggregates the steps of one interval."""

    def __init__(self, time_s: float) -> None:
        self.time_s = time_s
        self.pool = _Pool()
        self.applications: dict[str, _Application] = {}
        self.operators: dict[tuple[str, str], _Operator] = {}

    def take(self, tree: Mapping[str, Any], gap_s: float) -> None:
        seen, decision = tree["o"], tree["d"]
        if seen is not None:
            self.pool.take(seen["pool"], decision, gap_s)
            for sample in seen["applications"]:
                application = self.applications.setdefault(sample["name"], _Application())
                application.take(sample)
                for batch in sample["batches"]:
                    for place, operator in enumerate(batch["operators"]):
                        key = sample["name"], operator["name"]
                        self.operators.setdefault(key, _Operator(place)).take(operator)
        for assessment in decision["assessments"] if decision else ():
            self.applications.setdefault(assessment["application"], _Application()).believe(assessment)

    def write(self, summary: Summary) -> None:
        if self.pool.steps:
            summary.rows["minutes_pool"].append(self.pool.row(self.time_s))
        for name, application in self.applications.items():
            summary.rows["minutes"].append(application.row(self.time_s, name))
        for (name, operator), sums in self.operators.items():
            summary.rows["minutes_operators"].append(sums.row(self.time_s, name, operator))


class _Pool:
    __slots__ = ("acted", "held", "registered", "requested", "seconds", "slots", "steps", "wanted")

    def __init__(self) -> None:
        self.steps = self.acted = self.held = 0
        self.wanted = self.requested = self.registered = self.slots = self.seconds = 0.0

    def take(self, pool: Mapping[str, Any], decision: Mapping[str, Any] | None, gap_s: float) -> None:
        self.steps += 1
        self.seconds += gap_s
        self.requested += pool["requested"]
        self.registered += len(pool["executors"])
        self.slots += sum(executor["slots"] for executor in pool["executors"])
        self.wanted += _wanted(decision, pool["requested"])
        if decision is not None:
            self.acted += len(decision["actions"])
            self.held += len(decision["held"])

    def row(self, time_s: float) -> Row:
        means = (round(total / self.steps, 3) for total in (self.wanted, self.requested, self.registered, self.slots))
        return (time_s, self.steps, round(self.seconds, 3), *means, self.acted, self.held)


def _wanted(decision: Mapping[str, Any] | None, requested: float) -> float:
    """Executors requested before the guards limited them."""
    if decision is None:
        return requested
    proposed = [held["wanted"] for held in decision["held"]] + list(decision["actions"])
    sizes = [action["target"] for action in proposed if action["kind"] == "scale-executors"]
    return float(sizes[0]) if sizes else requested


class _Mean:
    __slots__ = ("count", "total")

    def __init__(self) -> None:
        self.total, self.count = 0.0, 0.0

    def add(self, value: float | None, weight: float = 1.0) -> None:
        if value is not None:
            self.total += value * weight
            self.count += weight

    @property
    def value(self) -> float | None:
        return round(self.total / self.count, 6) if self.count else None


_BELIEFS = {
    "arrival": "arrival_rows_per_s",
    "expected": "expected_rows_per_s",
    "expected_low": "expected_low_rows_per_s",
    "expected_high": "expected_high_rows_per_s",
    "row_s": "service_s_per_row",
}
_DRIVER_TIMES = ("planning_s", "offsets_s", "log_s", "sink_s")


class _Application:
    """Means of estimates, sums and last values of measurements."""

    def __init__(self) -> None:
        self.means = {name: _Mean() for name in (*_BELIEFS, "p50_s", "p90_s")}
        self.sums = dict.fromkeys(("steps", "batches", "rows", "latency_rows", "duration_s", "busy_s"), 0.0)
        self.driver: dict[str, float] | None = None
        self.most: dict[str, float | None] = {"p99_s": None, "needed_slots": None}
        self.last: dict[str, Any] = {}

    def take(self, sample: Mapping[str, Any]) -> None:
        self.sums["steps"] += 1
        self.last["admission_rows"] = sample["admission_rows"]
        self.last["interval_s"] = sample["interval_s"]
        for batch in sample["batches"]:
            self.sums["batches"] += 1
            self.sums["rows"] += batch["rows"]
            self.sums["duration_s"] += batch["duration_s"]
            self.sums["busy_s"] += batch["busy_s"] or 0.0
            for name in ("backlog_rows", "state_rows", "watermark_gap_s"):
                if batch.get(name) is not None:
                    self.last[name] = batch[name]
            held = [one["state_bytes"] for one in batch["operators"] if one.get("state_bytes") is not None]
            if held:
                self.last["state_bytes"] = sum(held)
            if batch.get("driver") is not None:
                self.driver = self.driver or dict.fromkeys(_DRIVER_TIMES, 0.0)
                for name in _DRIVER_TIMES:
                    self.driver[name] += batch["driver"][name]
            latency = batch["latency"]
            if latency is not None:
                self.sums["latency_rows"] += latency["rows"]
                self.means["p50_s"].add(latency["p50_s"], latency["rows"])
                self.means["p90_s"].add(latency["p90_s"], latency["rows"])
                self._raise("p99_s", latency["p99_s"])

    def believe(self, assessment: Mapping[str, Any]) -> None:
        for name, key in _BELIEFS.items():
            self.means[name].add(assessment.get(key))
        self._raise("needed_slots", assessment["needed_slots"])
        for name in ("objective_s", "budget_left"):
            if assessment.get(name) is not None:
                self.last[name] = assessment[name]

    def _raise(self, name: str, value: float | None) -> None:
        before = self.most[name]
        if value is not None and (before is None or value > before):
            self.most[name] = value

    def row(self, time_s: float, name: str) -> Row:
        driver: Mapping[str, float | None] = self.driver or {}
        found: dict[str, Any] = {"time_s": time_s, "application": name, **self.sums, **driver, **self.most, **self.last}
        found |= {key: mean.value for key, mean in self.means.items()}
        return tuple(_short(found.get(column)) for column in APPLICATION_COLUMNS)


class _Operator:
    __slots__ = ("last", "place", "skew", "sums")

    def __init__(self, place: int) -> None:
        self.place = place
        self.sums = dict.fromkeys(("batches", "rows_in", "rows_out", "busy_s", "communication_s", "execute_s"), 0.0)
        self.skew: float | None = None
        self.last: dict[str, Any] = {}

    def take(self, operator: Mapping[str, Any]) -> None:
        sums = self.sums
        sums["batches"] += 1
        for name in ("rows_in", "rows_out", "busy_s", "communication_s"):
            sums[name] += operator.get(name) or 0.0
        sums["execute_s"] += operator["execute_latency_s"] or 0.0
        longest_s, busy_s = operator.get("longest_task_s"), operator["busy_s"]
        if longest_s is not None and busy_s:
            self.skew = max(self.skew or 0.0, longest_s * operator["parallelism"] / busy_s)
        for name in ("parallelism", "state_rows", "state_bytes"):
            if operator.get(name) is not None:
                self.last[name] = operator[name]

    def row(self, time_s: float, application: str, operator: str) -> Row:
        found: dict[str, Any] = {"time_s": time_s, "application": application, "operator": operator}
        found |= {"place": self.place, "skew": self.skew, **self.sums, **self.last}
        return tuple(_short(found.get(column)) for column in OPERATOR_COLUMNS)


def _short(value: Any) -> Any:
    """Integers take SQLite one or two bytes; floats always take eight."""
    if isinstance(value, float):
        value = round(value, 4)
        return int(value) if value.is_integer() else value
    return value
