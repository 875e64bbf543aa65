"""The tables of a tournament, in 80 columns: rivals over all runs, the winner of each load, and single runs."""

from __future__ import annotations

from rich.table import Table

from tidegate_lab.arena.judge import ORACLE, STATIC, TIDEGATE, Summary, holds
from tidegate_lab.arena.play import Run
from tidegate_lab.arena.tournament import Tournament


def summary_table(tournament: Tournament) -> Table:
    table = Table("rival", "holds", "÷ static", "÷ oracle", "violations", "worst", "changes/h", box=None)
    for name, found in ranked(tournament):
        table.add_row(
            name,
            f"{found.holds}/{found.runs}",
            _ratio(found.cost_vs_static),
            _ratio(found.cost_vs_oracle),
            f"{found.late_mean:.2%}",
            f"{found.late_worst:.1%}",
            f"{found.changes_per_hour:.1f}",
            style="bold" if name == TIDEGATE else "",
        )
    return table


def ranked(tournament: Tournament) -> list[tuple[str, Summary]]:
    """Rivals that hold most often first, then the cheapest."""
    return sorted(
        tournament.summary.items(),
        key=lambda item: (-item[1].holds / item[1].runs, item[1].cost_vs_static or 0.0),
    )


def winners_table(tournament: Tournament) -> Table:
    """Per load: the cheapest rival that holds, except static and oracle, next to Tidegate."""
    table = Table("load", "seed", "static", "oracle", "tidegate", "violations", "cheapest rival that holds", box=None)
    for load in tournament.loads:
        runs = {run.rival: run for run in tournament.runs if (run.load, run.seed) == (load.name, load.seed)}
        others = [run for name, run in runs.items() if name not in {STATIC, ORACLE, TIDEGATE}]
        winner = cheapest_that_holds(others, tournament)
        ours = runs.get(TIDEGATE)
        table.add_row(
            load.name,
            str(load.seed),
            _cost(runs.get(STATIC)),
            _cost(runs.get(ORACLE)),
            _cost(ours),
            f"{ours.late:.2%}" if ours else "–",
            f"{winner.rival} {_cost(winner)}" if winner else "none",
        )
    return table


def runs_table(tournament: Tournament) -> Table:
    """Every run, with the rows that were lost or doubled in its output."""
    table = Table("run", "violations", "p99", "executor-s", "÷ static", "changes", "lost", "doubled", box=None)
    static = next((run.executor_seconds for run in tournament.runs if run.rival == STATIC), None)
    for run in tournament.runs:
        table.add_row(
            run.rival,
            f"{run.late:.2%}",
            f"{run.p99_s:.1f} s",
            f"{run.executor_seconds:.0f}",
            _ratio(run.executor_seconds / static if static else None),
            str(run.changes),
            str(run.rows_lost),
            str(run.rows_doubled),
            style="bold" if run.rival == TIDEGATE else "",
        )
    return table


def worlds_table(tournament: Tournament) -> Table:
    """A tournament on Spark beside the same in the simulator."""
    columns = ("run", "violations", "simulated", "÷ static", "simulated", "changes", "simulated")
    table = Table(*columns, box=None)
    simulated, static = tournament.more["simulated"], next(run for run in tournament.runs if run.rival == STATIC)
    for run in tournament.runs:
        if run.rival in simulated:
            other = simulated[run.rival]
            table.add_row(
                run.rival,
                f"{run.late:.2%}",
                f"{other['late']:.2%}",
                _ratio(run.executor_seconds / static.executor_seconds),
                _ratio(other["cost_vs_static"]),
                str(run.changes),
                str(other["changes"]),
                style="bold" if run.rival == TIDEGATE else "",
            )
    return table


def cheapest_that_holds(runs: list[Run], tournament: Tournament) -> Run | None:
    holding = [run for run in runs if holds(run, tournament.setting)]
    return min(holding, key=lambda run: run.executor_seconds, default=None)


def _ratio(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def _cost(run: Run | None) -> str:
    return "–" if run is None else f"{run.executor_seconds / 1000:.1f} k"
