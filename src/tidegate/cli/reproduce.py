"""`tidegate reproduce`: the papers' tables and figures."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import Progress
from rich.table import Table

from tidegate.cli import output
from tidegate.domain import InvalidInput


def reproduce(
    name: Annotated[str, typer.Argument(help="table1 or four-signals.")],
    seed: Annotated[int, typer.Option(min=0, help="Seed of everything random.")] = 1,
    samples: Annotated[int, typer.Option(min=1, help="table1: random samples per row.")] = 20,
    out: output.Out = None,
    json: output.Json = False,
) -> None:
    """Reproduce a table or figure; docs/ has a page for each, with the difference from the paper.

    Example: tidegate reproduce table1 --samples 3
    """
    if name not in _EXPERIMENTS:
        raise InvalidInput(f"reproduce {name!r}: use {' or '.join(_EXPERIMENTS)}")
    document = _EXPERIMENTS[name](seed, samples, out)
    if json:
        output.print_json(document)


def _table1(seed: int, samples: int, out: Path | None) -> dict[str, Any]:
    from tidegate.experiments.table1 import figures, table1

    with Progress(console=output.console, transient=True) as progress:
        bar = progress.add_task("table 1", total=None)

        def told(done: int, total: int, what: str) -> None:
            progress.update(bar, completed=done, total=total, description=what)

        document = table1(samples, seed, told)
    for family, rows in document["families"].items():
        table = Table("operators × hosts", "bound", "R-Storm", "paper's GA", "Tidegate", "never worse", title=family)
        for row in rows:
            hosts = [f"{row['schedulers'][who]['used_hosts']:.2f}" for who in ("rstorm", "paper-ga", "tidegate")]
            size = f"{row['operators']} × {row['hosts']}"
            table.add_row(size, f"{row['lower_bound']:.2f}", *hosts, "yes" if row["never_worse"] else "NO")
        output.console.print(table)
    if out is not None:
        for path in figures(seed, out):
            output.console.print(f"written: {path}")
    return document


def _four_signals(seed: int, samples: int, out: Path | None) -> dict[str, Any]:
    from tidegate.experiments import four_signals

    document = four_signals.run(seed=seed, out=out)
    output.console.print(f"pairs after the last schedule: {document['pairs'][-1]}")
    return document


_EXPERIMENTS: dict[str, Callable[[int, int, Path | None], dict[str, Any]]] = {
    "table1": _table1,
    "four-signals": _four_signals,
}
