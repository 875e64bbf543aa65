"""`tidegate top`: a running job at a glance, live in the terminal."""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.live import Live

from tidegate.cli import output


def top(
    journal: Annotated[Path, typer.Argument(help="The SQLite file that a job under Tidegate writes.")],
    every: Annotated[float, typer.Option(min=0.2, help="Seconds between updates.")] = 1.0,
    once: Annotated[bool, typer.Option("--once", help="Show the newest state and exit.")] = False,
    json: output.Json = False,
) -> None:
    """Watch a job: latency, budgets, backlog, executors and the newest decisions. Stop with Ctrl-C.

    Example: tidegate top out/demo/tidegate.db
    """
    from tidegate.view.book import Book
    from tidegate.view.now import overview
    from tidegate.view.terminal import screen

    book = Book(journal)
    if json:
        output.print_json(asdict(overview(book)))
        return
    terminal = Console(highlight=False)
    if once or not terminal.is_terminal:
        terminal.print(screen(book))
        return
    try:
        with Live(screen(book), console=terminal, auto_refresh=False, screen=True) as live:
            while True:
                time.sleep(every)
                book.poll()
                live.update(screen(book), refresh=True)
    except KeyboardInterrupt:
        return
