"""`tidegate analyze`: analyses a recorded history."""

from __future__ import annotations

import json as json_text
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidegate.cli import output
from tidegate.domain import InvalidInput

if TYPE_CHECKING:
    from tidegate.analysis.correlation import Correction, Correlations, Engine
    from tidegate.analysis.study import Study
    from tidegate.history.metrictable import MetricTable

_SHOWN_DRIVERS = 3
_NEWEST = 50_000  # newest samples of a history on Spark, read for analyses that need them in order


def analyze(
    history: Annotated[
        Path,
        typer.Argument(
            help="A journal, recorded metrics (Parquet), a Spark event log or a folder of them, or progress JSON lines."
        ),
    ],
    application: Annotated[str | None, typer.Option(help="Only this application (query). Default: all.")] = None,
    horizon: Annotated[int, typer.Option(min=1, help="Predict this many batches ahead.")] = 3,
    correction: Annotated[
        str, typer.Option(help="Correction for multiple tests: bh (Benjamini-Hochberg), holm, or none.")
    ] = "bh",
    engine: Annotated[str, typer.Option(help="Where to compute correlations: memory or spark.")] = "memory",
    out: output.Out = None,
    json: output.Json = False,
) -> None:
    """Analyse a history: correlations, factors, drivers, anomalies, learning, profiles, recommendations.

    Example: tidegate analyze /var/log/spark/eventlog_v2_app-1 --out out/analysis
    """
    from tidegate.analysis.correlation import CORRECTIONS
    from tidegate.analysis.study import study, to_json
    from tidegate.control.journalhistory import holds_journal, journal_history
    from tidegate.history.read import holds_parquet, read_history

    if correction not in CORRECTIONS:
        raise InvalidInput(f"--correction {correction!r}: use {', '.join(CORRECTIONS)}")
    if engine not in ("memory", "spark"):
        raise InvalidInput(f"--engine {engine!r}: use memory or spark")
    with output.console.status("reading") as status:
        large = engine == "spark" and history.exists() and holds_parquet(history)
        found = (
            journal_history(history)
            if holds_journal(history)
            else read_history(history, newest=_NEWEST if large else None)
        )
        ours = holds_journal(history) or holds_parquet(history)
        if not found.tables and found.notes.spark_version is None and not ours:
            raise InvalidInput(
                f"{history}: not a history; give a journal, a folder of recorded metrics, a Spark event log, or a file "
                "of progress reports"
            )
        tables = [table for table in found.tables if application in (None, table.application)]
        if application is not None and not tables:
            known = ", ".join(table.application for table in found.tables) or "none"
            raise InvalidInput(f"{history}: no application {application!r}; there are: {known}")
        correlate, close = _engine(engine, correction, history if large else None, out)
        try:
            studies = []
            for table in tables:
                name = table.application
                studies.append(
                    study(table, correlate, horizon, lambda what, name=name: status.update(f"{name}: {what}"))  # type: ignore[misc]
                )
        finally:
            close()
    notes = found.notes.sentences()
    document: dict[str, Any] = {
        "source": found.source,
        "spark_version": found.notes.spark_version,
        "lines": found.notes.lines,
        "unreadable_lines": found.notes.unreadable_lines,
        "malformed_events": found.notes.malformed_events,
        "unknown_events": dict(found.notes.unknown_events),
        "notes": notes,
        "applications": [to_json(each) for each in studies],
    }
    if out is not None:
        _write(out, document, studies, history.name, notes)
    if json:
        output.print_json(document)
    else:
        _show(studies, notes)


def _engine(name: str, correction: Correction, parquet: Path | None, out: Path | None) -> tuple[Engine, Any]:
    """The function that computes correlations, and how to end it. Spark reads a Parquet history itself, in full."""
    from tidegate.analysis.correlation import correlate

    if name == "memory":
        return lambda table: correlate(table, correction), lambda: None
    from tidegate.adapters.spark.correlations import correlate_history, correlate_table
    from tidegate.adapters.spark.embedded import embedded_session

    with output.jvm_output_to((out or Path("out")) / "spark.log"):
        spark = embedded_session("tidegate-analyze", executors=1, most_executors=1, slots=2, memory_mb=2048)

    def on_spark(table: MetricTable) -> Correlations:
        if parquet is not None:
            return correlate_history(spark, str(parquet), table.application, table.names, correction)
        return correlate_table(spark, table, correction)

    return on_spark, spark.stop


def _write(out: Path, document: dict[str, Any], studies: list[Study], source: str, notes: list[str]) -> None:
    from tidegate.analysis.report import write_report

    out.mkdir(parents=True, exist_ok=True)
    (out / "analysis.json").write_text(json_text.dumps(document, indent=1, allow_nan=False), encoding="utf-8")
    write_report(studies, source, notes, out / "report.html")
    output.console.print(f"written: {out / 'report.html'}, {out / 'analysis.json'}")


def _show(studies: list[Study], notes: list[str]) -> None:
    from tidegate.analysis.report.page import profile_sentence

    if not studies:
        typer.echo("no batches were found")
    for found in studies:
        span_s = found.table.times_s[-1] - found.table.times_s[0]
        typer.echo(
            f"{found.table.application}: {len(found.table)} samples, {len(found.table.names)} metrics, {span_s:.0f} s"
        )
        for target, drivers in found.drivers.items():
            strongest = ", ".join(f"{each.name} (ρ {each.spearman:+.2f})" for each in drivers[:_SHOWN_DRIVERS])
            typer.echo(f"  {target} is driven by: {strongest or 'nothing that was recorded'}")
        if found.factors is not None:
            typer.echo(f"  {found.factors.count} factors explain {found.factors.explained.sum():.0%} of the variance")
        for each in found.replays:
            verdict = "used" if each.score.usable else "not used: no better than the last value"
            gain = "–" if each.score.gain is None else f"{each.score.gain:+.0%}"
            typer.echo(f"  {each.target} {each.horizon} batches ahead: {gain} against the last value ({verdict})")
        if found.profile.operators:
            typer.echo(f"  {profile_sentence(found.profile)}")
        typer.echo(f"  {len(found.anomalies)} abnormal stretches")
        for recommendation in found.recommendations:
            typer.echo(f"  → {recommendation.text}")
        for note in found.notes:
            typer.echo(f"  note: {note}")
    for note in notes:
        typer.echo(f"note: {note}")
