"""A tournament on one page: cost against SLO violations, tables, every run over time, and Tidegate's reasons."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from tidegate.view.comparison import Colour, Comparison, Line, Lines, Plane, Point, TextTable
from tidegate.view.report import write_report
from tidegate_lab.arena.figures import draw_pareto
from tidegate_lab.arena.judge import ORACLE, STATIC, TIDEGATE, elasticity, holds
from tidegate_lab.arena.play import Run
from tidegate_lab.arena.standings import ranked
from tidegate_lab.arena.tournament import BEST, Tournament

_MOST_CHANGES = 60
_LEAST = 1e-4
"""Smaller shares are drawn here, because the axis is logarithmic."""
_OURS: dict[str, Colour] = {TIDEGATE: "blue", ORACLE: "green", STATIC: "grey"}
_OTHERS: tuple[Colour, ...] = ("orange", "pink", "yellow", "sky")


def write_page(tournament: Tournament, folder: Path) -> Path:
    """Writes `arena.html`, `pareto.png`, and `arena.json` with everything that `--json` prints."""
    folder.mkdir(parents=True, exist_ok=True)
    draw_pareto(tournament).savefig(folder / "pareto.png", dpi=120)
    document = tournament.to_dict()
    (folder / "arena.json").write_text(json.dumps(document, indent=1, allow_nan=False), encoding="utf-8")
    comparison = Comparison("The arena", _setting(tournament), list(_parts(tournament)))
    return write_report([], folder, "Tidegate: the arena", comparison, "arena.html")


def _parts(tournament: Tournament) -> Iterator[Lines | Plane | TextTable]:
    yield _plane(tournament)
    yield _summary(tournament)
    for load in tournament.loads:
        yield from _load(tournament, load.name, load.seed)


def _setting(tournament: Tournament) -> str:
    setting = tournament.setting
    compressed = [load for load in tournament.loads if load.compress != 1]
    text = (
        f"Query {setting.query}; a row should be done within {setting.objective_s:g} s, and at most "
        f"{setting.allowed_late:.0%} may be late. {_executors(tournament)} Each load's peak needs "
        f"{setting.peak_executors} executors; up to {setting.max_executors} may be used."
    )
    if compressed:
        names = ", ".join(dict.fromkeys(f"{load.name} ({load.compress:g} times)" for load in compressed))
        others = "all rivals except flink" if tournament.more else "all rivals"
        text += f" Played faster than recorded: {names}. Start-up, windows and periods of {others} are not."
    return text


def _executors(tournament: Tournament) -> str:
    setting = tournament.setting
    if not tournament.more:
        speed, warmup_s = setting.warmup_speed, setting.warmup_s
        return f"Executors take {setting.startup_s:g} s to start and work at {speed:.0%} for {warmup_s:g} s."
    return (
        f"Played on Spark. A new executor registered after {setting.startup_s:g} s and had taken part in a batch "
        f"{setting.warmup_s:g} s later."
    )


def _plane(tournament: Tournament) -> Plane:
    points = [
        Point(
            f"{rival} {summary.holds / summary.runs:.0%}",
            summary.cost_vs_static,
            max(_LEAST, summary.late_mean),
            _OURS.get(rival, "orange"),
            hollow=rival.endswith(BEST),
            large=rival == TIDEGATE,
        )
        for rival, summary in tournament.summary.items()
        if summary.cost_vs_static is not None
    ]
    return Plane(
        "Cost against lateness",
        "mean over all runs; lower left is better. Beside each name: runs that hold. Hollow: best setting per load",
        "executor-seconds ÷ static-holds",
        "rows over the objective, %",
        points,
        tournament.setting.allowed_late,
    )


def _summary(tournament: Tournament) -> TextTable:
    rows = [
        [
            name,
            f"{found.holds}/{found.runs}",
            *("–" if value is None else f"{value:.2f}" for value in (found.cost_vs_static, found.cost_vs_oracle)),
            f"{found.late_mean:.2%}",
            f"{found.late_worst:.2%}",
            f"{found.changes_per_hour:.1f}",
        ]
        for name, found in ranked(tournament)
    ]
    heads = ["rival", "holds", "÷ static", "÷ oracle", "SLO violations, mean", "SLO violations, worst", "changes/h"]
    return TextTable("All runs", heads, rows)


def _load(tournament: Tournament, name: str, seed: int) -> Iterator[Lines | TextTable]:
    load = next(each for each in tournament.loads if (each.name, each.seed) == (name, seed))
    runs = [run for run in tournament.runs if (run.load, run.seed) == (name, seed)]
    rows = []
    for run in sorted(runs, key=lambda run: (not holds(run, tournament.setting), run.executor_seconds)):
        judged = elasticity(run, load, tournament.setting)
        rows.append(
            [
                run.rival,
                f"{run.late:.2%}",
                f"{run.executor_seconds:,.0f}",
                f"{run.p99_s:.1f} s",
                str(run.changes),
                f"{judged.under:.2f} ({judged.under_share:.0%})",
                f"{judged.over:.2f} ({judged.over_share:.0%})",
                f"{judged.instability:.2f}",
                ", ".join(f"{key} {value:g}" for key, value in run.settings.items()),
            ]
        )
    heads = ["rival", "SLO violations", "executor-s", "p99", "changes", "under", "over", "instability", "setting"]
    yield TextTable(f"{name}, seed {seed}", heads, rows)
    yield from _charts(runs, tournament.setting.objective_s)
    ours = next((run for run in runs if run.rival == TIDEGATE), None)
    if ours is not None:
        yield _changes(ours)


def _charts(runs: Sequence[Run], objective_s: float) -> Iterator[Lines]:
    """Executors and the longest wait. Most rivals are hidden at first; a click on a name in the legend shows them."""
    drawn = [(run, run.timeline) for run in runs if run.timeline is not None]
    if not drawn:
        return
    first = drawn[0][1]
    load = Line("load", first.rows_per_s, "sky", fill=True)
    yield Lines("Load", "rows per second", "rows/s", first.time_s, [load])
    common = [(run, seen) for run, seen in drawn if len(seen.time_s) == len(first.time_s)]
    rivals = [run.rival for run, _ in common if run.rival not in _OURS]

    def line(run: Run, values: Sequence[float], step: bool) -> Line:
        ours = run.rival in _OURS
        colour = _OURS[run.rival] if ours else _OTHERS[rivals.index(run.rival) % len(_OTHERS)]
        return Line(run.rival, values, colour, dashed=run.rival == STATIC, step=step, wide=run.rival == TIDEGATE,
                    hidden=not ours)  # fmt: skip

    executors = [line(run, seen.executors, True) for run, seen in common]
    hint = "registered; click a name to show or hide it"
    yield Lines("Executors", hint, "", first.time_s, executors)
    waits = [line(run, [min(value, 8 * objective_s) for value in seen.latency_s], False) for run, seen in common]
    objective = Line("objective", [objective_s] * len(first.time_s), "grey", dashed=True)
    yield Lines("Longest wait", "of a row, by the time of its commit", "s", first.time_s, [*waits, objective])


def _changes(ours: Run) -> TextTable:
    shown = ours.journal[:_MOST_CHANGES]
    rows = [[f"{change.time_s:.0f} s", str(change.executors), change.why] for change in shown]
    rest = len(ours.journal) - len(shown)
    rows += [["…", "", f"and {rest} more"]] if rest else []
    rows += [[f"{at_s:.0f} s", "–", f"step failed: {text}"] for at_s, text in ours.failed[:5]]
    return TextTable("Why Tidegate changed the pool", ["time", "executors", "reason"], rows, folded=True)
