"""`tidegate reproduce`: the papers' tables and figures by name."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from tidegate.cli import output
from tidegate.domain import InvalidInput
from tidegate_lab.commands.reproduce import eitherworld, onspark, simulated
from tidegate_lab.commands.reproduce.options import Options, Source, World

EXPERIMENTS: dict[str, Callable[[Options], dict[str, Any]]] = {
    "table1": simulated.run_table1,
    "four-signals": simulated.run_four_signals,
    "mestream": onspark.run_mestream,
    "qos-scale": simulated.run_qos_scale,
    "overhead": simulated.run_overhead,
    "sensitivity": simulated.run_sensitivity,
    "multilevel": simulated.run_multilevel,
    "qos-classes": onspark.run_qos_classes,
    "qos-processes": onspark.run_qos_processes,
    "batch-latency": onspark.run_batch_latency,
    "together": eitherworld.run_together,
    "model-check": eitherworld.run_model_check,
    "twin": eitherworld.run_twin,
    "fleet": onspark.run_fleet,
    "state-moves": onspark.run_state_moves,
    "kafka": onspark.run_kafka,
}


def reproduce(
    name: Annotated[str, typer.Argument(help="Name of the experiment; an unknown name shows the list.")],
    seed: Annotated[int, typer.Option(min=0, help="Random seed.")] = 1,
    samples: Annotated[int, typer.Option(min=1, help="table1: random samples per row.")] = 20,
    quick: Annotated[bool, typer.Option("--quick", help="A shorter form, if there is one.")] = False,
    full: Annotated[bool, typer.Option("--full", help="batch-latency: the paper's whole grid.")] = False,
    world: Annotated[World, typer.Option(help="together, model-check, twin: run on Spark or simulated.")] = World.SPARK,
    rate: Annotated[
        float | None, typer.Option(min=1.0, help="mestream: rows per second instead of the default.")
    ] = None,
    source: Annotated[Source, typer.Option(help="qos-classes: Tidegate's own source, or Kafka.")] = Source.TIDEGATE,
    only: Annotated[
        str, typer.Option(help="Comma-separated. together: only these runs; model-check: only these rows, from 1.")
    ] = "",
    out: output.Out = None,
    json: output.Json = False,
) -> None:
    """Reproduce a table or figure. docs/ has a page for each, with the difference from the paper.

    Simulated: table1, four-signals, qos-scale, overhead, sensitivity, multilevel.
    On Spark: mestream, qos-classes, qos-processes, batch-latency, fleet, state-moves, kafka.
    On Spark, or simulated with --world sim: together, model-check, twin.

    Example: tidegate reproduce table1 --samples 3
    """
    if name not in EXPERIMENTS:
        raise InvalidInput(f"reproduce {name!r}: use one of {', '.join(EXPERIMENTS)}")
    began_s = time.time()
    document = EXPERIMENTS[name](
        Options(seed, samples, quick, full, out, world.value, tuple(filter(None, only.split(","))), rate, source.value)
    )
    _report(name, out or Path("out") / name, began_s)
    if json:
        output.print_json(document)


def _report(name: str, folder: Path, began_s: float) -> None:
    """Write one report page from the journals of the experiment, if there are any."""
    from tidegate.view.book import journals_in_folders
    from tidegate.view.report import write_report

    journals = [path for path in journals_in_folders([folder]) if path.stat().st_mtime >= began_s]
    if journals:
        output.console.print(f"written: {write_report(journals, folder, f'Tidegate: {name}')}")
