"""The Numenta Anomaly Benchmark: its corpus and its scoring rule, reimplemented from the description.

Lavin and Ahmad (2015), "Evaluating Real-time Anomaly Detection Algorithms". A labelled window scores by its
earliest detection, and a missed window has a cost. Every detection outside a window costs more the farther it is behind
the previous window:

    σ(x) = 2 / (1 + e^{5x}) − 1,   x = −1 at a window's start, 0 at its end, beyond 0 in window widths behind it

The first min(15 %, 750) rows of a series are a probation period and do not count. One threshold serves all series, and
`100 · (score − null) / (perfect − null)`: null detects nothing, perfect every window in its first row and nothing else.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidegate.domain import InvalidInput
from tidegate.evaluate.abnormality import Detector
from tidegate_lab.experiments.datasets import recorded

Floats = NDArray[np.float64]

PROBATION_SHARE, PROBATION_MOST_ROWS = 0.15, 750
_FAR_BEHIND_WIDTHS = 3.0


@dataclass(frozen=True, slots=True)
class Profile:
    """The gain of a hit and the costs of a miss and a false alarm."""

    name: str
    hit: float
    miss: float
    false_alarm: float


@dataclass(frozen=True, slots=True)
class LabelledSeries:
    """One file of the corpus; windows are first and last row, both inside."""

    name: str
    times_s: Floats
    values: Floats
    windows: tuple[tuple[int, int], ...]

    @property
    def family(self) -> str:
        return self.name.split("/")[0]


def probation_rows(rows: int) -> int:
    """Return the number of rows at the start that do not count.

    >>> probation_rows(1000), probation_rows(20_000)
    (150, 750)
    """
    return min(int(PROBATION_SHARE * rows), PROBATION_MOST_ROWS)


def sigmoid(position: float) -> float:
    """σ above: nearly 1 at a window's start, 0 at its end, nearly −1 one width behind it, −1 far behind.

    >>> round(sigmoid(-1.0), 5), sigmoid(0.0), round(sigmoid(1.0), 5), sigmoid(3.0)
    (0.98661, 0.0, -0.98661, -1.0)
    """
    return -1.0 if position >= _FAR_BEHIND_WIDTHS else 2.0 / (1.0 + float(np.exp(5.0 * position))) - 1.0


def series_score(flagged: Iterable[int], rows: int, windows: Sequence[tuple[int, int]], profile: Profile) -> float:
    """Points of one series: `flagged` are the rows where the detector's score reached the threshold.

    A window that ends within the probation is not counted. In windows, NAB places row i of [first, last] at
    −(last − i + 1) / width, so that the first row is exactly −1.
    """
    probation = probation_rows(rows)
    counted = [window for window in sorted(windows) if window[1] >= probation]
    earned = dict.fromkeys(counted, -profile.miss)
    false_alarms = 0.0
    for row in flagged:
        if row < probation:
            continue
        inside = next((window for window in counted if window[0] <= row <= window[1]), None)
        if inside is not None:
            first, last = inside
            share = sigmoid(-(last - row + 1) / (last - first + 1)) / sigmoid(-1.0)
            earned[inside] = max(earned[inside], profile.hit * share)
            continue
        behind = [window for window in sorted(windows) if window[1] < row]
        if behind:
            first, last = behind[-1]
            false_alarms += profile.false_alarm * sigmoid((row - last) / max(1, last - first))
        else:
            false_alarms -= profile.false_alarm
    return sum(earned.values()) + false_alarms


def corpus_score(
    corpus: Sequence[LabelledSeries], scores: Sequence[Floats], threshold: float, profile: Profile
) -> float:
    """NAB's figure for all series with one threshold: 0 for silence, 100 for perfection."""
    points, counted = 0.0, 0
    for series, found in zip(corpus, scores, strict=True):
        rows = len(series.values)
        points += series_score(np.flatnonzero(found >= threshold).tolist(), rows, series.windows, profile)
        counted += sum(last >= probation_rows(rows) for _, last in series.windows)
    null, perfect = -profile.miss * counted, profile.hit * counted
    if counted == 0:
        raise InvalidInput("NAB's score needs at least one labelled window after the probation")
    return 100.0 * (points - null) / (perfect - null)


def walk_corpus(corpus: Iterable[LabelledSeries], detector: Callable[[], Detector]) -> list[Floats]:
    """Return the scores of every series, each from a new detector."""
    return [detector().walk(series.values, series.times_s) for series in corpus]


def find_corpus() -> Path | None:
    """Return the folder of the corpus, or None if it is not available."""
    profiles = recorded("nab/profiles.json")
    return profiles.parent if profiles else None


def read_profiles(folder: Path) -> dict[str, Profile]:
    """The cost matrices in `profiles.json`."""
    raw: dict[str, Any] = _read_json(folder / "profiles.json")
    try:
        return {
            name: Profile(name, costs["tpWeight"], costs["fnWeight"], costs["fpWeight"])
            for name, costs in ((name, entry["CostMatrix"]) for name, entry in raw.items())
        }
    except (KeyError, TypeError) as error:
        raise InvalidInput(f"{folder / 'profiles.json'}: every profile needs a CostMatrix with {error}") from None


def read_corpus(folder: Path) -> list[LabelledSeries]:
    """Every series under `data/` that `labels/combined_windows.json` names, in the order of their names."""
    labels: dict[str, list[list[str]]] = _read_json(folder / "labels" / "combined_windows.json")
    return [
        _read_series(folder / "data" / name, name, windows)
        for name, windows in sorted(labels.items())
        if (folder / "data" / name).is_file()
    ]


def _read_series(path: Path, name: str, windows: list[list[str]]) -> LabelledSeries:
    with path.open(newline="", encoding="utf-8") as file:
        header, *rows = csv.reader(file)
    when, value = header.index("timestamp"), header.index("value")
    times_s = seconds([row[when] for row in rows])
    values = np.array([float(row[value]) for row in rows])
    limits = [seconds(window) for window in windows]
    inside = [np.flatnonzero((times_s >= start) & (times_s <= end)) for start, end in limits]
    return LabelledSeries(name, times_s, values, tuple((int(rows[0]), int(rows[-1])) for rows in inside if len(rows)))


def seconds(timestamps: Sequence[str]) -> Floats:
    """Seconds since 1970 of dates and times without a zone.

    >>> seconds(["1970-01-02 00:00:01.5"]).tolist()
    [86401.5]
    """
    return np.array(timestamps, dtype="datetime64[us]").astype(np.int64) / 1e6


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InvalidInput(f"{path}: cannot be read as a part of NAB ({error})") from None
