"""`tidegate forecast`: forecasts a series online, without looking ahead, and reports the accuracy."""

from __future__ import annotations

import csv
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.progress import Progress

from tidegate import extensions
from tidegate.cli import output
from tidegate.domain import InvalidInput

if TYPE_CHECKING:
    from tidegate.evaluate.forecast.walk import ForecastWalk

_LEAST_WARMUP = 50
_PROGRESS_ROWS = 250


def forecast(
    series: Annotated[Path, typer.Argument(help="CSV with a header; an empty cell is a missing sample.")],
    column: Annotated[str, typer.Option(help="The column to forecast.")] = "value",
    horizon: Annotated[int, typer.Option(help="Number of rows ahead.")] = 1,
    warmup: Annotated[
        int | None, typer.Option(help="Rows to learn from before forecasts count. Default: a tenth, at least 50.")
    ] = None,
    forecaster: Annotated[str | None, typer.Option(help="Use this installed forecaster, not the default.")] = None,
    out: output.Out = None,
    json: output.Json = False,
) -> None:
    """Forecast a series row by row, with 90 % intervals. Each forecast uses only the rows up to that point.

    Timestamps, if a column has them, only suggest likely seasons (a day, a week). Other seasons are detected.

    Example: tidegate forecast requests.csv --column value --horizon 12 --out out/forecast
    """
    from tidegate.evaluate.forecast.series import read_series
    from tidegate.evaluate.forecast.walk import walk

    if horizon < 1:
        raise InvalidInput(f"--horizon {horizon}: forecast at least 1 row ahead")
    if warmup is not None and warmup < 1:
        raise InvalidInput(f"--warmup {warmup}: use at least 1 row")
    known = read_series(series, column)
    rows = len(known.values)
    first = min(max(_LEAST_WARMUP, rows // 10), max(1, rows // 2)) if warmup is None else warmup
    if rows <= first + horizon:
        need = f"a warm-up of {first} and a horizon of {horizon} need at least {first + horizon + 1}"
        raise InvalidInput(f"{series}: {rows} rows; {need}")
    began_s = time.perf_counter()
    with Progress(console=output.console, transient=True) as progress:
        bar = progress.add_task("forecasting", total=rows)

        def told(row: int) -> None:
            if row % _PROGRESS_ROWS == 0:
                progress.update(bar, completed=row)

        bank = extensions.part("forecasters", forecaster)(1, horizon) if forecaster is not None else None
        walked = walk(known.values, horizon, seasons=known.seasons, bank=bank, told=told)
    seconds = time.perf_counter() - began_s
    score = walked.score(first)
    if out is not None:
        _write(walked, first, series.stem, out)
    if json:
        document = {
            "rows": score.rows,
            "mae": score.mae,
            "rmse": score.rmse,
            "mape": score.mape,
            "nrmse": score.nrmse,
            "coverage_90": score.coverage,
            "seconds": round(seconds, 3),
        }
        output.print_json(document)
        return
    typer.echo(
        f"{score.rows} forecasts {horizon} ahead: MAE {_text(score.mae)}, RMSE {_text(score.rmse)}, "
        f"MAPE {_text(score.mape)} %, NRMSE {_text(score.nrmse)} (RMSE ÷ standard deviation), "
        f"90 % intervals contain {_text(score.coverage)}; {seconds:.1f} s"
    )
    verdict = "trusted" if walked.trusted[-1] else "recently no better than the last value, so not trusted"
    typer.echo(
        f"row {rows - 1 + horizon}: {walked.mean[-1]:.6g} ({walked.lower[-1]:.6g} to {walked.upper[-1]:.6g}), {verdict}"
    )


def _text(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.4g}"


def _write(walked: ForecastWalk, first: int, name: str, out: Path) -> None:
    from tidegate.evaluate.forecast.figure import draw_walk

    out.mkdir(parents=True, exist_ok=True)
    table, picture = out / "forecast.csv", out / "forecast.png"
    with table.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["row", "forecast", "lower", "upper"])
        for row in range(first, len(walked.values) - walked.horizon):
            writer.writerow([row, *(f"{part[row]:.10g}" for part in (walked.mean, walked.lower, walked.upper))])
    draw_walk(walked, first, picture, f"{name}: forecast {walked.horizon} rows ahead")
    output.console.print(f"written: {table}, {picture}")
