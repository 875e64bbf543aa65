"""A journal at a glance, for a terminal of 80 columns."""

from __future__ import annotations

from datetime import datetime

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from tidegate.view import now, ranges
from tidegate.view.book import Book
from tidegate.view.panels import ApplicationNow, Overview, Series

_BARS = "▁▂▃▄▅▆▇█"
_SPARK = 60
_WINDOW_S = 300.0
_MOST_APPLICATIONS = 12
_MOST_MOMENTS = 6


def screen(book: Book) -> RenderableType:
    """Pool, applications, the last minutes of the worst one, and the newest decisions."""
    seen = now.overview(book)
    end_s = seen.last_s or 0.0
    parts: list[RenderableType] = [_head(seen)]
    worst = sorted(seen.applications, key=lambda one: 1.0 if one.budget_left is None else one.budget_left)
    parts.append(_applications(worst[:_MOST_APPLICATIONS]))
    if len(worst) > _MOST_APPLICATIONS:
        parts.append(Text(f"… and {len(worst) - _MOST_APPLICATIONS} more, with more error budget left", "dim"))
    if worst:
        start_s = max(seen.first_s or 0.0, end_s - _WINDOW_S)
        parts.append(_sparks(worst[0], ranges.series(book, worst[0].application, start_s, end_s, _SPARK)))
    parts.append(_moments(book, max(seen.first_s or 0.0, end_s - 3600.0), end_s))
    return Group(*parts)


def _head(seen: Overview) -> Text:
    text = Text()
    text.append(f"{_cut(seen.journal, 30)}  ", "bold")
    text.append(f"{seen.mode or 'mode unknown'}  ", "green" if seen.mode == "apply" else "yellow")
    text.append(f"{_clock(seen.last_s)}  step {seen.step if seen.step is not None else '–'}\n")
    pool = seen.pool
    if pool is not None:
        late = pool.registered != pool.requested
        text.append(f"executors {pool.registered}", "yellow" if late else "")
        bounds = f" of {pool.least}–{pool.most}" if pool.most is not None else ""
        text.append(f"{bounds}, requested {pool.requested}, wanted {pool.wanted}")
        if pool.disruptions_left is not None:
            text.append(f"; {pool.disruptions_left} disruptions left this hour")
    return text


def _applications(some: list[ApplicationNow]) -> Table:
    table = Table(box=None, padding=(0, 1), expand=False)
    table.add_column("application", max_width=20, no_wrap=True, overflow="ellipsis")
    for head in ("p99", "objective", "budget", "backlog", "catch-up", "rows/s"):
        table.add_column(head, justify="right", no_wrap=True)
    for one in some:
        late = one.latency_p99_s is not None and one.objective_s is not None and one.latency_p99_s > one.objective_s
        budget = "–" if one.budget_left is None else f"{max(0.0, one.budget_left):.0%}"
        table.add_row(
            Text(one.application, "" if one.running else "dim"),
            Text(_seconds(one.latency_p99_s), "red" if late else "green"),
            _seconds(one.objective_s),
            Text(budget, "red" if one.budget_left is not None and one.budget_left <= 0 else ""),
            _count(one.backlog_rows),
            "never" if one.backlog_rows and one.catch_up_s is None else _seconds(one.catch_up_s),
            _count(one.arrival_rows_per_s),
        )
    return table


def _sparks(one: ApplicationNow, series: Series) -> Table:
    table = Table.grid(padding=(0, 1))
    columns = series.columns
    for name, key in (
        ("p99", "p99_s"),
        ("backlog", "backlog_rows"),
        ("arrivals", "arrival"),
        ("executors", "registered"),
    ):
        top = one.objective_s if key == "p99_s" else None
        table.add_row(Text(name, "dim"), spark(columns[key], top))
    return table


def spark(values: list[float | None], objective: float | None = None) -> Text:
    """A line of blocks, red where a value exceeds the objective.

    >>> spark([0.0, 1.0, None, 2.0]).plain
    '▁▅ █'
    """
    known = [value for value in values if value is not None]
    most = max([*known, objective or 0.0], default=0.0) or 1.0
    text = Text()
    for value in values[-_SPARK:]:
        if value is None:
            text.append(" ")
        else:
            level = min(len(_BARS) - 1, int(max(0.0, value) / most * (len(_BARS) - 1) + 0.5))
            over = objective is not None and value > objective
            text.append(_BARS[level], "red" if over else "cyan")
    return text


def _moments(book: Book, start_s: float, end_s: float) -> RenderableType:
    told = [one for one in ranges.timeline(book, start_s, end_s) if one.kind != "held" or one.guards or one.advice][
        -_MOST_MOMENTS:
    ]
    if not told:
        return Text("no decisions in the last hour", "dim")
    table = Table(box=None, padding=(0, 1), show_header=False, width=80)
    table.add_column(no_wrap=True)
    table.add_column(max_width=26)
    table.add_column()
    for one in reversed(told):
        what = one.title if one.kind != "held" else "held: " + ", ".join(one.guards)
        table.add_row(
            _clock(one.time_s), Text(what, "bold" if one.kind == "acted" else ""), Text(_cut(one.reason, 110), "dim")
        )
    return table


def _seconds(value: float | None) -> str:
    return "–" if value is None else f"{value:.2g} s" if value < 10 else f"{value:.0f} s"


def _count(value: float | None) -> str:
    if value is None:
        return "–"
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if value >= size:
            return f"{value / (size if unit != 'k' else 1e3):.3g}{unit}"
    return f"{value:.0f}"


def _clock(time_s: float | None) -> str:
    if time_s is None:
        return "–"
    if time_s < 1e8:  # simulated time starts at 0
        return f"{int(time_s // 60):d}:{int(time_s % 60):02d}"
    return datetime.fromtimestamp(time_s).strftime("%H:%M:%S")


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
