"""How the progress of an experiment is shown, by what is known of its length."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.progress import Progress

from tidegate.cli import output


@contextmanager
def counted(what: str) -> Iterator[Callable[[int, int, str], None]]:
    """A progress bar for work of known size."""
    with Progress(console=output.console, transient=True) as progress:
        bar = progress.add_task(what, total=None)
        yield lambda done, total, text: progress.update(bar, completed=done, total=total, description=text)


@contextmanager
def timed() -> Iterator[Callable[[str, float], None]]:
    """A progress line for work in phases of known length."""
    with output.console.status("starting") as status:
        yield lambda phase, seconds: status.update(f"{phase} (up to {seconds:.0f} s)")


@contextmanager
def played(end_s: float) -> Iterator[Callable[[str, float], None]]:
    """A progress bar for runs that play the same load one after the other."""
    with Progress(console=output.console, transient=True) as progress:
        bar = progress.add_task("warming up", total=end_s)
        yield lambda name, at_s: progress.update(bar, completed=max(0.0, at_s), description=name)
