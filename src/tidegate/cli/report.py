"""`tidegate report`: the console's panels in one file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tidegate.cli import output


def report(
    journals: Annotated[list[Path], typer.Argument(help="Journals, or folders with journals.")],
    out: Annotated[Path, typer.Option("--out", help="Folder for report.html.", file_okay=False)] = Path("out/report"),
    json: output.Json = False,
) -> None:
    """Write the console's panels as one HTML file that needs no server and no network.

    Example: tidegate report out/demo/tidegate.db --out out/demo
    """
    from tidegate.view.book import find_journals
    from tidegate.view.report import write_report

    found = find_journals(journals)
    with output.console.status("reading the journal"):
        path = write_report(found, out)
    if json:
        output.print_json({"report": str(path), "journals": [str(one) for one in found]})
    else:
        typer.echo(f"report: {path}")
