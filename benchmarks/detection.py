"""Detection benchmark: NAB scores by profile and family, cross-validated, and samples per second, with a baseline.

    python benchmarks/detection.py [--data DIR]

The corpus is read from DIR/nab; DIR is by default $TIDEGATE_DATA, else ../shared/data beside the repository.
`fixed` is the default threshold. `best` is chosen by NAB's own optimiser, which sees the labels of the series it
scores. `cross-validated` is chosen in the same way on every second series and scored on the others, and vice versa. The
surprise detector's bar depends on earlier alarms, so the series are processed again for every candidate threshold.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tidegate.evaluate.abnormality import Detector, SurpriseDetector, WindowedGaussian
from tidegate_lab.experiments.nab import (
    Floats,
    LabelledSeries,
    Profile,
    corpus_score,
    read_corpus,
    read_profiles,
    walk_corpus,
)

DEFAULT_DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
DETECTORS: dict[str, tuple[Callable[[float], Detector], Floats]] = {
    "surprise": (SurpriseDetector, np.linspace(0.40, 0.60, 11).round(2)),
    "windowed Gaussian": (WindowedGaussian, 1.0 - np.geomspace(1e-6, 1e-15, 10)),
}


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--data", type=Path, default=Path(os.environ.get("TIDEGATE_DATA", DEFAULT_DATA)))
    options = arguments.parse_args()
    corpus, profiles = read_corpus(options.data / "nab"), read_profiles(options.data / "nab")
    rows = sum(len(series.values) for series in corpus)
    document: dict[str, Any] = {"series": len(corpus), "rows": rows, "detectors": {}}
    for name, (make, candidates) in DETECTORS.items():
        document["detectors"][name] = measured(name, make, candidates, corpus, profiles)
    print(json.dumps(document, indent=2))


def measured(
    name: str,
    make: Callable[..., Detector],
    candidates: Floats,
    corpus: Sequence[LabelledSeries],
    profiles: dict[str, Profile],
) -> dict[str, Any]:
    """Return all figures of one detector."""
    make().walk(corpus[0].values)  # compiles
    began_s = time.process_time()
    fixed = walk_corpus(corpus, make)
    walk_s = time.process_time() - began_s
    threshold = make().threshold
    timeless = [make().walk(series.values) for series in corpus]
    detector = make()
    longest = max((series.values for series in corpus), key=len).tolist()
    began_s = time.process_time()
    for value in longest:
        detector.score(value)
    one_by_one_s = time.process_time() - began_s
    by_candidate = [(float(c), walk_corpus(corpus, partial(make, float(c)))) for c in candidates]
    result: dict[str, Any] = {
        "samples_per_cpu_second": {
            "walk": round(sum(map(len, fixed)) / walk_s),
            "one by one": round(len(longest) / one_by_one_s),
        },
        "threshold": threshold,
        "alarms_per_thousand_rows": round(
            1000 * sum(int((s >= threshold).sum()) for s in fixed) / sum(map(len, fixed)), 3
        ),
        "profiles": {},
    }
    for profile in profiles.values():
        figures = {
            "fixed": corpus_score(corpus, fixed, threshold, profile),
            "fixed, without times": corpus_score(corpus, timeless, threshold, profile),
            **chosen(corpus, by_candidate, profile),
        }
        for family in sorted({series.family for series in corpus}):
            of = [at for at, series in enumerate(corpus) if series.family == family]
            figures[f"fixed, {family}"] = figure_of(corpus, fixed, of, threshold, profile)
        result["profiles"][profile.name] = {
            what: round(figure, 2) if "threshold" not in what else figure for what, figure in figures.items()
        }
        print(f"{name:>18}, {profile.name}: {result['profiles'][profile.name]}", file=sys.stderr)
    return result


def chosen(
    corpus: Sequence[LabelledSeries], by_candidate: Sequence[tuple[float, Sequence[Floats]]], profile: Profile
) -> dict[str, float]:
    """Return the score of the best threshold, and that of each half of the corpus with the threshold chosen on the
    other."""
    everything = range(len(corpus))
    halves = (everything[::2], everything[1::2])

    def best(of: Sequence[int]) -> tuple[float, Sequence[Floats]]:
        return max(by_candidate, key=lambda entry: figure_of(corpus, entry[1], of, entry[0], profile))

    threshold, scores = best(everything)
    figures = {"best": figure_of(corpus, scores, everything, threshold, profile), "best threshold": threshold}
    points = windows = 0.0
    for half, (here, there) in enumerate((halves, halves[::-1]), start=1):
        threshold, scores = best(there)
        figure = figure_of(corpus, scores, here, threshold, profile)
        weight = sum(len(corpus[at].windows) for at in here)
        points, windows = points + weight * figure, windows + weight
        figures[f"cross-validated, half {half}"] = figure
    return {**figures, "cross-validated": points / windows}


def figure_of(
    corpus: Sequence[LabelledSeries], scores: Sequence[Floats], of: Sequence[int], threshold: float, profile: Profile
) -> float:
    """Return NAB's score over some of the series."""
    return corpus_score([corpus[at] for at in of], [scores[at] for at in of], threshold, profile)


if __name__ == "__main__":
    main()
