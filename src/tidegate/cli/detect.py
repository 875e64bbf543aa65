"""`tidegate detect`: finds abnormal samples of a series online."""

from __future__ import annotations

import csv
import math
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.progress import Progress

from tidegate.cli import output
from tidegate.domain import InvalidInput
from tidegate.domain.python310 import UTC, iso_time

if TYPE_CHECKING:
    from tidegate.evaluate.abnormality.detector import Floats

USUAL_TIMESTAMP = "timestamp"
_ROWS_A_STEP = 20_000


def detect(
    series: Annotated[Path, typer.Argument(help="CSV with a header and one sample per row, oldest first.")],
    column: Annotated[str, typer.Option(help="The column with the samples.")] = "value",
    timestamp: Annotated[
        str | None,
        typer.Option(help="Column with dates or seconds. Default: `timestamp`, if it exists."),
    ] = None,
    threshold: Annotated[
        float | None, typer.Option(help="Flag scores of at least this, 0 to 1. Default: 0.5 for every series.")
    ] = None,
    out: output.Out = None,
    json: output.Json = False,
) -> None:
    """Process a series online and flag abnormal samples. Rows count from 0.

    Example: tidegate detect metrics.csv --column value --out out/detect
    """
    values, times_s = _read(series, column, timestamp)

    import numpy as np

    from tidegate.evaluate.abnormality import THRESHOLD, SurpriseDetector

    detector = SurpriseDetector(THRESHOLD if threshold is None else threshold)
    with output.console.status("loading the detector"):
        SurpriseDetector().walk(np.zeros(1))  # compiles it on first use
    samples = np.array(values)
    times = None if times_s is None else np.array(times_s)
    began_s = time.perf_counter()
    parts = []
    with Progress(console=output.console, transient=True) as progress:
        for start in progress.track(range(0, len(samples), _ROWS_A_STEP), description="walking"):
            step = slice(start, start + _ROWS_A_STEP)
            parts.append(detector.walk(samples[step], None if times is None else times[step]))
    seconds = time.perf_counter() - began_s
    scores = np.concatenate(parts)
    flagged = np.flatnonzero(scores >= detector.threshold).tolist()
    document: dict[str, Any] = {
        "rows": len(scores),
        "threshold": detector.threshold,
        "flagged": flagged,
        "seconds": round(seconds, 6),
    }
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        with (out / "scores.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(["row", "score"])
            writer.writerows((row, f"{score:.6f}") for row, score in enumerate(scores.tolist()))
        _draw(samples, scores, flagged, detector.threshold, f"{series.name}, {column}", out / "scores.png")
        output.console.print(f"written: {out / 'scores.csv'}, {out / 'scores.png'}")
    if json:
        output.print_json(document)
        return
    typer.echo(f"{len(flagged)} of {len(scores)} rows flagged (score {detector.threshold:g} or more), {seconds:.3f} s")
    for row in flagged:
        when = "" if times_s is None else f"  {datetime.fromtimestamp(times_s[row], UTC):%Y-%m-%d %H:%M:%S}"
        typer.echo(f"  row {row}{when}  {column} {values[row]:g}  score {scores[row]:.3f}")


def _read(path: Path, column: str, timestamp: str | None) -> tuple[list[float], list[float] | None]:
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file)
            rows = list(reader)
            columns = list(reader.fieldnames or ())
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InvalidInput(f"{path}: cannot be read ({getattr(error, 'strerror', None) or error})") from None
    for wanted in (column, timestamp):
        if wanted is not None and wanted not in columns:
            raise InvalidInput(f"{path}: no column {wanted!r}; it has {', '.join(columns) or 'no header'}")
    if not rows:
        raise InvalidInput(f"{path}: no rows below the header; give at least one sample")
    values = _numbers(path, rows, column, float, "a number")
    if timestamp is None and USUAL_TIMESTAMP not in columns:
        return values, None
    try:
        return values, _numbers(path, rows, timestamp or USUAL_TIMESTAMP, _seconds, "a date or seconds")
    except InvalidInput as error:
        if timestamp is not None:
            raise
        output.console.print(f"{error}; continuing without times", markup=False)
        return values, None


def _numbers(
    path: Path, rows: list[dict[str, str]], column: str, parse: Callable[[str], float], what: str
) -> list[float]:
    numbers = []
    for row, cells in enumerate(rows):
        try:
            number = parse(cells[column] or "")
        except (ValueError, OverflowError):
            number = math.nan
        if not math.isfinite(number):
            raise InvalidInput(f"{path}: row {row} (line {row + 2}): {column} is {cells[column]!r}; write {what}")
        numbers.append(number)
    return numbers


def _seconds(cell: str) -> float:
    try:
        return float(cell)
    except ValueError:
        found = iso_time(cell)
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()


def _draw(samples: Floats, scores: Floats, flagged: list[int], threshold: float, title: str, path: Path) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 4.6), layout="constrained")
    FigureCanvasAgg(figure)
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
    above.plot(samples, linewidth=0.7, color="#30638e")
    above.plot(flagged, samples[flagged], "v", color="#d1495b", markersize=7, label="flagged")
    above.set_title(f"{title}: {len(flagged)} of {len(samples)} rows flagged", fontsize=10)
    if flagged:
        above.legend(loc="upper left", frameon=False)
    below.plot(scores, linewidth=0.6, color="#555555")
    below.axhline(threshold, color="#d1495b", linewidth=1.0, linestyle="--")
    below.set_ylim(0.0, 1.0)
    below.set_ylabel("score")
    below.set_xlabel("row")
    figure.savefig(path, dpi=110)
