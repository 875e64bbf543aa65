"""What all commands share: JSON on stdout and nothing else there, progress and pictures of it on stderr."""

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
from rich.console import Console
from rich.logging import RichHandler

from tidegate.domain import InvalidInput

Json = Annotated[bool, typer.Option("--json", help="Print JSON, and only JSON, to stdout.")]
Out = Annotated[Path | None, typer.Option("--out", help="Folder for reports, figures and journals.", file_okay=False)]

console = Console(stderr=True, highlight=False, soft_wrap=True)


def print_json(value: Any) -> None:
    """One JSON document on stdout; a number that is not one is an error, never NaN."""
    typer.echo(json_text.dumps(value, indent=2, allow_nan=False))


def spark_settings(pairs: list[str] | None) -> dict[str, str]:
    """`--spark-conf key=value`, as often as it is given."""
    found = {}
    for pair in pairs or []:
        key, sign, value = pair.partition("=")
        if not sign or not key:
            raise InvalidInput(f"--spark-conf {pair!r}: write key=value")
        found[key] = value
    return found


def log_to_stderr() -> None:
    """Our own messages in one style on stderr."""
    handler = RichHandler(console=console, show_path=False, show_time=False, markup=False)
    logging.basicConfig(level=logging.WARNING, format="%(message)s", handlers=[handler])


@contextlib.contextmanager
def jvm_output_to(path: Path) -> Iterator[None]:
    """Send what the JVM prints to a file: it inherits the file that stands for stderr when it is started.

    Python's own stderr is put back as soon as the block ends, so start Spark inside and go on outside.
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
