"""`tidegate simulate`: runs a scenario, in seconds or live."""

from __future__ import annotations

import json as json_text
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from tidegate.cli import output
from tidegate.domain import InvalidInput

if TYPE_CHECKING:
    from tidegate.control.journal import MemoryJournal

_MOST_COLUMNS = 6

_OURS, _NOBODY = "tidegate", "none"


def simulate(
    scenario: Annotated[Path, typer.Argument(help="A scenario file (YAML).")],
    controller: Annotated[
        str | None, typer.Option(help="Controller of the pool: tidegate, none, or an installed controller.")
    ] = None,
    live: Annotated[bool, typer.Option("--live", help="Watch it in the terminal.")] = False,
    speed: Annotated[float, typer.Option(help="With --live: simulated seconds per second.")] = 10.0,
    seed: Annotated[int | None, typer.Option(min=0, help="Overrides the scenario's seed.")] = None,
    out: output.Out = None,
    json: output.Json = False,
) -> None:
    """Run a scenario: hosts, applications, loads and events, or a pool under control.

    Example: tidegate simulate examples/scenarios/burst.yaml --out out/burst
    """
    from tidegate.adapters.sim import Simulation, load_scenario, watch
    from tidegate.domain.policy import Policy

    loaded = load_scenario(scenario)
    if seed is not None:
        loaded = loaded.model_copy(update={"seed": seed})
    if controller is not None:
        if loaded.pool is None:
            raise InvalidInput(f"{scenario}: has no pool to control; add one, or omit --controller")
        policy = None if controller == _NOBODY else loaded.pool.policy or Policy()
        loaded = loaded.model_copy(update={"pool": loaded.pool.model_copy(update={"policy": policy})})
    plugged_in = None if controller in {None, _NOBODY, _OURS} else controller
    simulation = Simulation(loaded, plugged_in)
    result = watch(simulation, speed) if live else simulation.run()
    document = result.to_dict()
    if out is not None:
        from tidegate.adapters.sim.charts import write_charts

        out.mkdir(parents=True, exist_ok=True)
        (out / "simulation.json").write_text(json_text.dumps(document, indent=1, allow_nan=False))
        steered = simulation.pool is not None and bool(simulation.pool.journal.entries)
        journals = [_write_journal(simulation.pool.journal, out / "tidegate.db")] if steered and simulation.pool else []
        written = [out / "simulation.json", write_charts(result, journals, out), *journals]
        output.console.print(f"written: {', '.join(map(str, written))}")
    if json:
        output.print_json(document["summary"])
        return
    _show(document["summary"])


def _write_journal(kept: MemoryJournal, path: Path) -> Path:
    """Write the controller's steps as the journal of a job."""
    from tidegate.control.journal import SqliteJournal

    path.unlink(missing_ok=True)
    journal = SqliteJournal(path)
    for note in kept.notes:
        journal.note(note.time_s, note.event, note.text)
    for entry in kept.entries:
        assert entry.observation is not None
        journal.record(entry.observation, entry.decision, entry.receipt)
        if entry.decision is not None:
            for outcome in entry.outcomes:
                journal.judge(entry.decision.step, outcome)
    for name, body in kept.blobs.items():
        journal.save_blob(name, body)
    journal.close()
    return path


def _show(summary: dict[str, Any]) -> None:
    """The summary as tables: a column per application, host or pool, a row per measure."""
    typer.echo(f"{summary['name']}: {summary['duration_s']:g} simulated seconds, seed {summary['seed']}")
    for title, things in _sections(summary):
        flat = {name: _flat(values) for name, values in list(things.items())[:_MOST_COLUMNS]}
        table = output.table(title, *flat)
        for measure in dict.fromkeys(measure for values in flat.values() for measure in values):
            table.add_row(measure, *(_cell(values.get(measure)) for values in flat.values()))
        Console(highlight=False).print(table)
        if len(things) > len(flat):
            typer.echo(f"… and {len(things) - len(flat)} more: see --json or --out")


def _sections(summary: dict[str, Any]) -> list[tuple[str, dict[str, dict[str, Any]]]]:
    pool = summary.get("pool") or {}
    found = [("application", summary.get("applications") or {}), ("host", summary.get("hosts") or {})]
    found.append(("pool application", pool.get("applications") or {}))
    whole = {key: value for key, value in pool.items() if not isinstance(value, dict | list)}
    found.append(("pool", {"executors": whole} if whole else {}))
    return [(title, rows) for title, rows in found if rows]


def _flat(row: dict[str, Any]) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in row.items():
        if isinstance(value, dict):
            flat |= {inner: item for inner, item in value.items() if not isinstance(item, dict | list)}
        elif not isinstance(value, list):
            flat[key] = value
    return flat


def _cell(value: Any) -> str:
    if value is None:
        return "–"
    return f"{value:,.3f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
