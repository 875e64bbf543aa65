"""Output of all commands: JSON alone on stdout, progress and its display on stderr."""

from __future__ import annotations

import contextlib
import json as json_text
import logging
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.logging import RichHandler
from rich.table import Table

from tidegate.domain import InvalidInput

Json = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else to stdout.")]
Out = Annotated[Path | None, typer.Option("--out", help="Folder for reports, figures and journals.", file_okay=False)]

console = Console(stderr=True, highlight=False, soft_wrap=True)


def table(first: str, *others: str, title: str | None = None) -> Table:
    """A table for 80 columns: right-aligned numbers that are never cut, and a first column with the remaining width."""
    made = Table(title=title, box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    made.add_column(first, overflow="fold")
    for head in others:
        made.add_column(head, justify="right", no_wrap=True)
    return made


def print_json(value: Any) -> None:
    """Print one JSON document to stdout. NaN is an error."""
    typer.echo(json_text.dumps(value, indent=2, allow_nan=False))


def spark_settings(pairs: list[str] | None) -> dict[str, str]:
    """Parse `--spark-conf key=value`, which may be repeated; `@FILE` stands for the lines of a file.

    A command line is visible in `ps`, so secrets belong in a file.
    """
    found = {}
    for pair in _from_files(pairs or []):
        key, sign, value = (word.strip() for word in pair.partition("="))
        if not sign or not key:
            raise InvalidInput(f"--spark-conf {pair!r}: write key=value")
        found[key] = value
    return found


def _from_files(pairs: list[str]) -> Iterator[str]:
    for pair in pairs:
        if pair.startswith("@"):
            lines = (line.strip() for line in text_of("--spark-conf", pair).splitlines())
            yield from (line for line in lines if line and not line.startswith("#"))
        else:
            yield pair


def text_of(option: str, given: str) -> str:
    """The given text or, for `@FILE`, the content of the file."""
    if not given.startswith("@"):
        return given
    try:
        return Path(given[1:]).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{option} {given}: the file cannot be read ({error})") from None


def log_to_stderr() -> None:
    """Log our own messages to stderr in one style."""
    handler = RichHandler(console=console, show_path=False, show_time=False, markup=False)
    logging.basicConfig(level=logging.WARNING, format="%(message)s", handlers=[handler])


@contextlib.contextmanager
def jvm_output_to(path: Path) -> Iterator[None]:
    """Send the JVM's output to a file: the JVM inherits the stderr that is open when it starts.

    Python's own stderr is restored when the block ends. Start Spark inside the block and continue outside.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    sys.stderr.flush()
    kept = os.dup(2)
    try:
        with path.open("ab") as log:
            os.dup2(log.fileno(), 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def print_table(made: Table) -> None:
    """Print a table that is the command's result: on stdout, 80 columns wide unless that is a terminal."""
    Console(width=None if sys.stdout.isatty() else 80, highlight=False).print(made)
