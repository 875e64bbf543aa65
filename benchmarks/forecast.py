"""Forecast benchmark: accuracy and speed against last value, seasonal naive and River's SNARIMAX, in one run.

Every series is processed online; forecasts made in its first tenth do not count. NRMSE is the root mean squared error ÷
the standard deviation of the values, over the same rows for all. For SNARIMAX the best of several
orders on the series itself is reported, and its forecasts are clipped to the range seen so far, because they can
diverge. Seasonal naive falls back to the last value while its season has not been seen.

    python benchmarks/forecast.py --horizons 1 12
    python benchmarks/forecast.py --speed-only

Data: $TIDEGATE_DATA, else ../shared/data beside the repository.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}  # before NumPy reads them: one thread is measured

import numpy as np
from numpy.typing import NDArray

from tidegate.evaluate.forecast import ArimaBank, SelectingBank
from tidegate.evaluate.forecast.series import CsvSeries, read_series
from tidegate.evaluate.forecast.walk import score, walk

Floats = NDArray[np.float64]
DEFAULT_DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
MINUTES_KEPT = 12_000  # only the last eight days of the series with 57 740 rows, because SNARIMAX is slow
SNARIMAX_ORDERS: tuple[
    tuple[dict[str, int], float], ...
] = (  # and the learning rate of its regression; River's is 0.01
    ({"p": 1, "sp": 1}, 0.01),
    ({"p": 3, "q": 1, "sp": 1, "sd": 1}, 0.01),
    ({"p": 5, "q": 2}, 0.01),
    ({"p": 3, "q": 1, "sp": 1}, 0.001),
)


def all_series(data: Path) -> dict[str, CsvSeries]:
    """Every series of the folder: 29 of NAB, and requests to the World Cup site per minute."""
    found = {path.stem: read_series(path, "value") for path in sorted((data / "nab" / "data").glob("*/*.csv"))}
    minutes = read_series(data / "worldcup98" / "requests_per_minute.csv", "count")
    found["worldcup98 (minutes)"] = CsvSeries(minutes.values[-MINUTES_KEPT:], minutes.seasons)
    return found


def naive(values: Floats, horizon: int, season: int) -> Floats:
    """Return, for each row, the newest known value a whole number of seasons before the target, else the last value."""
    at = np.arange(len(values)) + horizon - season * -(-horizon // season)
    return np.where(at >= 0, values[np.maximum(at, 0)], values)


def snarimax(values: Floats, horizons: list[int], season: int, order: dict[str, int], rate: float) -> Floats:
    """River's forecasts, rows × horizons."""
    from river import linear_model, optim, preprocessing, time_series

    regression: Any = preprocessing.StandardScaler() | linear_model.LinearRegression(optimizer=optim.SGD(rate))
    arguments: dict[str, Any] = {"d": 0, "q": 0, "m": season, "regressor": regression, **order}
    model: Any = time_series.SNARIMAX(**arguments)
    made = np.empty((len(values), len(horizons)))
    low, high = np.inf, -np.inf
    for row, value in enumerate(values):
        low, high = min(low, value), max(high, value)
        try:
            model.learn_one(float(value))
            path = np.array(model.forecast(horizon=max(horizons)))[np.array(horizons) - 1]
        except (IndexError, ValueError, OverflowError):  # too young, or diverged
            path = np.full(len(horizons), value)
        made[row] = np.clip(np.where(np.isfinite(path), path, value), low, high)
    return made


def quality(series: dict[str, CsvSeries], horizons: list[int], with_river: bool) -> None:
    names = ["tidegate", "last value", "day", "week", "snarimax"]
    table: dict[int, list[list[float]]] = {horizon: [] for horizon in horizons}
    for name, known in series.items():
        values = known.values
        first = len(values) // 10
        day, week = known.seasons if len(known.seasons) == 2 else (1, 1)
        river = [snarimax(values, horizons, day, order, rate) for order, rate in SNARIMAX_ORDERS] if with_river else []
        for at, horizon in enumerate(horizons):
            walked = walk(values, horizon, seasons=known.seasons)
            actual, made = values[first + horizon :], slice(first, len(values) - horizon)

            def nrmse(forecasts: Floats, actual: Floats = actual, made: slice = made) -> float:
                part = forecasts[made]
                return score(actual, part, part, part).nrmse or 0.0

            tidegate = walked.score(first)
            others = [nrmse(naive(values, horizon, lag)) for lag in (1, day, week)]
            best = min((nrmse(forecasts[:, at]) for forecasts in river), default=float("nan"))
            table[horizon].append([tidegate.nrmse or 0.0, *others, best, tidegate.coverage or 0.0])
            cells = " ".join(f"{value:9.3f}" for value in table[horizon][-1])
            print(f"{horizon:3d} {name[:40]:40s} {cells}", flush=True)
    for horizon, rows in table.items():
        means, medians = np.mean(rows, axis=0), np.median(rows, axis=0)
        print(f"\nhorizon {horizon}, NRMSE of {len(rows)} series")
        for name, mean, middle in zip(names, means, medians, strict=False):
            print(f"  {name:12s} mean {mean:.3f} ({mean / means[0]:.2f} × Tidegate), median {middle:.3f}")
        cover = np.array(rows)[:, -1]
        print(f"  90 % intervals cover {cover.mean():.3f} on the mean, {cover.min():.3f} to {cover.max():.3f}")


def speed(streams: int, samples: int = 400, groups: int = 10) -> None:
    """Print the CPU milliseconds to update and forecast the tenth of the streams that has a sample in a step.

    A pass over an array on the same machine at the same time serves as a unit that other load slows down equally.
    """
    rng = np.random.default_rng(1)
    periods = rng.integers(20, 60, streams)
    banks: dict[str, Callable[[], SelectingBank]] = {
        "selecting, 12 steps": lambda: SelectingBank(streams, 12, history=2048),
        "selecting, 24 steps": lambda: SelectingBank(streams, 24, history=2048),
    }
    numbers = rng.random(100_000)
    for name, build in banks.items():
        bank = build()
        size = sum(table.nbytes for table in bank.state().values()) / streams
        spent, unit = [], []
        for step in range(samples * groups):
            at = np.arange(step % groups, streams, groups)
            values = 100 + 20 * np.sin(2 * np.pi * (step // groups) / periods[at]) + rng.normal(0, 5, len(at))
            began = time.thread_time()
            bank.observe(values, at)
            bank.forecast(at)
            spent.append(1e3 * (time.thread_time() - began))
            began = time.thread_time()
            np.sqrt(numbers)
            unit.append(1e3 * (time.thread_time() - began))
        late, one = spent[len(spent) // 2 :], float(np.median(unit))
        print(
            f"{name:20s} {streams // groups} of {streams} streams: median {np.median(late):.2f} ms of CPU, p95 "
            f"{np.quantile(late, 0.95):.2f} ms ({np.median(late) / one:.0f} × 100 000 square roots); "
            f"{size:.0f} bytes a stream"
        )
    arima = ArimaBank(streams, 5)
    cpu = []
    for _ in range(samples):
        began = time.thread_time()
        arima.observe(100 + rng.normal(0, 5, streams))
        arima.forecast()
        cpu.append(1e3 * (time.thread_time() - began))
    middle, high = np.median(cpu), np.quantile(cpu, 0.95)
    print(f"ARIMA, 5 steps: {streams} streams: median {middle:.2f} ms of CPU, p95 {high:.2f} ms")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("TIDEGATE_DATA", DEFAULT_DATA)))
    parser.add_argument("--horizons", type=int, nargs="+", default=[1, 12])
    parser.add_argument("--streams", type=int, default=4000)
    parser.add_argument("--speed-only", action="store_true")
    parser.add_argument("--no-river", action="store_true", help="skip SNARIMAX, which takes most of the time")
    options = parser.parse_args()
    if options.speed_only:
        speed(options.streams)
        return
    if not (options.data / "nab").is_dir():
        print(f"no series at {options.data}: give --data or TIDEGATE_DATA", file=sys.stderr)
        sys.exit(2)
    print(f"{'':44s} {'tidegate':>9s} {'last':>9s} {'day':>9s} {'week':>9s} {'snarimax':>9s} {'coverage':>9s}")
    quality(all_series(options.data), options.horizons, not options.no_river)
    speed(options.streams)


if __name__ == "__main__":
    main()
