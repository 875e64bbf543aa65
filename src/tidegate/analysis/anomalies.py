"""Abnormal stretches of a history, metric by metric."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tidegate.evaluate.abnormality import SurpriseDetector
from tidegate.history.metrictable import MetricTable

_LEAST_SAMPLES = 60
_JOINED = 5  # alarms this close together form one stretch


@dataclass(frozen=True, slots=True)
class Anomaly:
    """A stretch of samples that are abnormal compared with the metric's own history."""

    metric: str
    from_s: float
    until_s: float
    samples: int
    score: float
    """Score of its worst sample, in [0, 1]."""


def find_anomalies(table: MetricTable, metrics: tuple[str, ...]) -> tuple[tuple[Anomaly, ...], npt.NDArray[np.bool_]]:
    """Return abnormal stretches in time order, and which samples are abnormal in any of the metrics."""
    found: list[Anomaly] = []
    abnormal = np.zeros(len(table), dtype=np.bool_)
    for name in metrics:
        values = table.column(name)
        known = np.flatnonzero(np.isfinite(values))
        if len(known) < _LEAST_SAMPLES:
            continue
        detector = SurpriseDetector()
        scores = np.asarray(detector.walk(values[known], table.times_s[known]))
        alarms = np.flatnonzero(scores >= detector.threshold)
        abnormal[known[alarms]] = True
        found += [
            Anomaly(
                metric=name,
                from_s=float(table.times_s[known[stretch[0]]]),
                until_s=float(table.times_s[known[stretch[-1]]]),
                samples=len(stretch),
                score=float(scores[stretch].max()),
            )
            for stretch in np.split(alarms, np.flatnonzero(np.diff(alarms) > _JOINED) + 1)
            if len(stretch)
        ]
    return tuple(sorted(found, key=lambda anomaly: anomaly.from_s)), abnormal
