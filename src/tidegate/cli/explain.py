"""`tidegate explain`: what was done, what was held back, and why."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import typer
from rich.table import Table

from tidegate.cli import output
from tidegate.control.journal import Entry, read_entries, read_knowledge, read_notes
from tidegate.evaluate.violations import ClassReport, report


@dataclass(slots=True)
class Stretch:
    """Consecutive steps with the same outcome and the same kind of reason, shown once."""

    start_s: float
    end_s: float
    steps: int
    outcome: str
    reason: str
    key: tuple[str, ...]
    advice: tuple[str, ...] = ()
    """What would make an infeasible objective feasible."""
    set_aside: int = 0
    """Abnormal samples excluded from learning."""
    missed: tuple[str, ...] = ()
    """Objectives that were missed over their window at the end of the stretch."""


def explain(
    journal: Annotated[Path, typer.Argument(help="The SQLite file that a job under Tidegate writes.")],
    every: Annotated[bool, typer.Option("--all", help="Show every step instead of grouping similar ones.")] = False,
    json: output.Json = False,
) -> None:
    """Show what the controller did, what it held back, and why.

    Example: tidegate explain out/demo/tidegate.db
    """
    entries = list(read_entries(journal, observations=False))
    stretches = list(summarise(entries, apart=every))
    accuracy, moves = judged_predictions(entries), judged_moves(entries)
    notes, knowledge = read_notes(journal), read_knowledge(journal)
    classes = report(knowledge.evaluation.classes) if knowledge else ()
    if json:
        output.print_json(
            {
                "steps": [_plain(stretch) for stretch in stretches],
                "notes": [{"time_s": note.time_s, "event": note.event, "text": note.text} for note in notes],
                "classes": [asdict(each) for each in classes],
                "predictions": asdict(accuracy),
                "state_moves": asdict(moves),
            }
        )
        return
    lines = [(stretch.start_s, _line(stretch)) for stretch in stretches]
    lines += [(note.time_s, f"{_clock(note.time_s)}  {note.event}: {note.text}") for note in notes if note.time_s]
    for _, line in sorted(lines, key=lambda line: line[0]):
        typer.echo(line)
    if classes:
        output.console.print(_class_table(classes))
    if accuracy.judged:
        typer.echo(str(accuracy))
    if moves.judged:
        typer.echo(str(moves))
    if not lines:
        typer.echo("the journal is empty: the controller has not made a step yet")


@dataclass(frozen=True, slots=True)
class Accuracy:
    """Accuracy of the predictions that have fallen due."""

    judged: int
    p99_error: float | None
    """Median of |predicted − measured| ÷ measured."""
    late_share_error: float | None
    """Mean of |predicted − measured|."""

    def __str__(self) -> str:
        text = f"predictions: {self.judged} fell due"
        text += f"; p99 latency was off by {self.p99_error:.0%} (median)" if self.p99_error is not None else ""
        if self.late_share_error is not None:
            text += f", the share of rows over the objective by {100 * self.late_share_error:.1f} points (mean)"
        return text


@dataclass(frozen=True, slots=True)
class Moves:
    """Outcomes of state moves."""

    judged: int
    soon: int
    """In place within two batches."""
    never: int

    def __str__(self) -> str:
        text = f"{self.soon} of {self.judged} state moves in place within two batches"
        return text + (f"; {self.never} never were" if self.never else "")


def judged_moves(entries: Iterable[Entry]) -> Moves:
    """Count the state moves by the number of batches they took."""
    batches = [one.batches for entry in entries if entry.decision is not None for one in entry.decision.moved]
    soon = sum(count is not None and count <= 2 for count in batches)
    return Moves(len(batches), soon, sum(count is None for count in batches))


def judged_predictions(entries: Iterable[Entry]) -> Accuracy:
    """Compare predictions with outcomes."""
    judged = [one for entry in entries if entry.decision is not None for one in entry.decision.judged]
    p99 = [abs(one.prediction.p99_s - one.p99_s) / one.p99_s for one in judged if one.p99_s]
    late = [abs(one.prediction.late_share - one.late_share) for one in judged if one.late_share is not None]
    return Accuracy(len(judged), median(p99) if p99 else None, sum(late) / len(late) if late else None)


def summarise(entries: Iterable[Entry], apart: bool = False) -> Iterable[Stretch]:
    """Join idle steps with the same kind of reason. Steps that acted stay separate."""
    current: Stretch | None = None
    for entry in entries:
        if entry.decision is None:
            continue
        stretch = _stretch(entry)
        acted = bool(entry.decision.actions)
        if current is not None and not apart and not acted and current.key == stretch.key:
            current.end_s, current.reason = stretch.end_s, stretch.reason
            current.advice, current.missed = stretch.advice, stretch.missed
            current.set_aside += stretch.set_aside
            current.steps += 1
            continue
        if current is not None:
            yield current
        current = stretch
    if current is not None:
        yield current


def _stretch(entry: Entry) -> Stretch:
    decision = entry.decision
    assert decision is not None
    held = [f"{held.guard} ({held.reason})" for held in decision.held]
    outcomes = [f"{answer.outcome}: {answer.action}" for answer in entry.receipt.actions] if entry.receipt else []
    if entry.receipt is None:
        outcomes = [f"recommended: {action}" for action in decision.actions]
    outcome = ", ".join(outcomes) or "held"
    if held:
        outcome += " — " + ", ".join(held)
    key = tuple(outcomes) or ("held", decision.reasons[0].code, *(held.guard for held in decision.held))
    key += tuple(f"advice {advice.reason.code} {advice.application}" for advice in decision.advice)
    return Stretch(
        entry.time_s,
        entry.time_s,
        1,
        outcome,
        str(decision.reasons[0]),
        key,
        advice=tuple(str(advice.reason) for advice in decision.advice),
        set_aside=len(decision.set_aside),
        missed=tuple(
            f"{reading.application}: {reading.objective} ({reading.score or 0.0:.3f} now)"
            for reading in decision.qos
            if reading.met is False
        ),
    )


def _line(stretch: Stretch) -> str:
    span = "" if stretch.steps == 1 else f" – {_clock(stretch.end_s)} ({stretch.steps} steps)"
    lines = [f"{_clock(stretch.start_s)}{span}  {stretch.outcome}", f"          because {stretch.reason}"]
    lines += [f"          missed  {missed}" for missed in stretch.missed]
    lines += (
        [f"          {stretch.set_aside} abnormal samples were excluded from learning"] if stretch.set_aside else []
    )
    lines += [f"          advice  {advice}" for advice in stretch.advice]
    return "\n".join(lines)


def _class_table(classes: Iterable[ClassReport]) -> Table:
    """Shares of rows over the objective for each service class, most important first."""
    table = output.table("class", "objective", "rows", "violations", "now", "worst", "allowed", "p99", "incidents")
    for each in classes:
        table.add_row(
            each.name,
            f"{each.latency_s:g} s",
            f"{each.rows:.0f}",
            f"{each.late_share:.1%}",
            f"{each.window_share:.1%}",
            f"{each.worst_share:.1%}",
            f"{each.bound:.0%}",
            f"{each.worst_p99_s:.1f} s",
            str(each.incidents),
        )
    return table


def _clock(time_s: float) -> str:
    return datetime.fromtimestamp(time_s).strftime("%H:%M:%S")


def _plain(stretch: Stretch) -> dict[str, Any]:
    return {
        "start_s": stretch.start_s,
        "end_s": stretch.end_s,
        "steps": stretch.steps,
        "outcome": stretch.outcome,
        "reason": stretch.reason,
        "advice": list(stretch.advice),
        "set_aside": stretch.set_aside,
        "missed": list(stretch.missed),
    }
