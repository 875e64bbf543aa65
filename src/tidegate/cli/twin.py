"""`tidegate twin` and `tidegate whatif`: replay a recorded run in the simulator, unchanged or under another policy."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from tidegate.cli import output
from tidegate.domain import InvalidInput

if TYPE_CHECKING:
    from tidegate.twin.recordedrun import Recording

Recorded = Annotated[
    Path,
    typer.Argument(help="The journal that a job under Tidegate writes, or the event log of any Spark streaming job."),
]


def twin(
    run: Recorded,
    scenario: Annotated[Path, typer.Option("-o", "--scenario", help="Scenario file to write (YAML).")],
    json: output.Json = False,
) -> None:
    """Calibrate the simulator from a recorded run and write it as a scenario.

    Example: tidegate twin tidegate-words.db -o twin.yaml
    """
    from tidegate.twin.calibrate import calibrate, to_yaml
    from tidegate.twin.recordings import read_recording

    recording = read_recording(run)
    found = calibrate(recording)
    _print_notes(recording)
    scenario.parent.mkdir(parents=True, exist_ok=True)
    scenario.write_text(to_yaml(found), encoding="utf-8")
    pool = found.pool
    if pool is None:
        raise InvalidInput(f"{run}: contains no executor pool; record a run first")
    figures: dict[str, Any] = {
        "scenario": str(scenario),
        "notes": list(recording.notes),
        "duration_s": found.duration_s,
        "executors": pool.executors,
        "startup_s": pool.startup_s,
        "noise": pool.noise,
        "queries": {
            query.name: {
                "row_s": sum(operator.cost_s_per_row for operator in query.operators),
                "overhead_s": query.overhead_s,
                "interval_s": query.interval_s,
            }
            for query in pool.applications
        },
    }
    if json:
        output.print_json(figures)
        return
    typer.echo(f"{found.duration_s:g} s recorded; executors take {pool.startup_s:g} s to start, noise {pool.noise:.1%}")
    for name, query in figures["queries"].items():
        typer.echo(f"{name}: {query['row_s'] * 1e3:.3f} ms per row, {query['overhead_s']:.2f} s per batch")
    typer.echo(f"run it: tidegate simulate {scenario}")


def whatif(
    run: Recorded,
    policy: Annotated[Path, typer.Option(help="The policy to try (YAML).")],
    application: Annotated[str | None, typer.Option(help="The query to compare, if there are several.")] = None,
    out: output.Out = None,
    json: output.Json = False,
) -> None:
    """Replay the load of a recorded run under another policy, and compare the result with what happened.

    Example: tidegate whatif tidegate-words.db --policy new.yaml --out out/whatif
    """
    from tidegate.control.policyfile import load_policy
    from tidegate.twin import replay
    from tidegate.twin.calibrate import calibrate
    from tidegate.twin.recordings import read_recording

    rules = load_policy(policy)
    recording = read_recording(run)
    scenario = calibrate(recording)
    with_batches = [name for name, query in recording.queries.items() if query.batches]
    name = application or with_batches[0]
    if name not in with_batches:
        raise InvalidInput(f"{run}: no query {name!r} with batches; there are {', '.join(with_batches)}")
    objective_s = rules.objective_of(name).latency_s
    _print_notes(recording)
    with output.console.status("replaying the recorded load"):
        again, other = replay.as_recorded(scenario, recording, rules), replay.under(scenario, rules)
    outcomes = {
        "measured": recording.outcome(name, objective_s),
        "twin": again.outcome(name),
        "predicted": other.outcome(name),
    }
    if out is not None:
        from tidegate.twin.figure import draw

        out.mkdir(parents=True, exist_ok=True)
        output.console.print(f"written: {draw(recording, name, again, other, objective_s, out / 'whatif.png')}")
    if json:
        figures = {key: asdict(outcome) for key, outcome in outcomes.items()}
        output.print_json({"application": name, "objective_s": objective_s, "notes": list(recording.notes), **figures})
        return
    table = Table("", "violations", "executor-seconds", "p99", "median batch", box=None)
    rows = (("what happened", "measured"), ("the twin, same sizes", "twin"), ("with the other policy", "predicted"))
    for title, key in rows:
        found = outcomes[key]
        p99, batch = (_text(value_s, ".2f", " s") for value_s in (found.p99_s, found.batch_p50_s))
        table.add_row(title, _text(found.late, ".2%"), f"{found.executor_seconds:,.0f}", p99, batch)
    typer.echo(f"{name}: rows within {objective_s:g} s")
    Console(highlight=False).print(table)


def _print_notes(recording: Recording) -> None:
    for note in recording.notes:
        output.console.print(note, markup=False)


def _text(value: float | None, form: str, unit: str = "") -> str:
    return "–" if value is None else f"{value:{form}}{unit}"
