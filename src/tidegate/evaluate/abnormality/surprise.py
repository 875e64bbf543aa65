"""Tidegate's own detector: the joint surprise of four views, with a bar that rises after an alarm."""

from __future__ import annotations

import numpy as np

from tidegate.domain import InvalidInput
from tidegate.evaluate.abnormality import views
from tidegate.evaluate.abnormality.detector import Floats, Ints, checked_sample, checked_samples, checked_threshold

THRESHOLD = 0.5
"""The same for all series. `views.ALARM` puts it in the middle of the scale."""
HISTORY_ROWS = 6048
"""Three weeks of five-minute samples. With a shorter history, rare weekly events are abnormal every week."""


class SurpriseDetector:
    """Scores samples by how far out they lie in the history of four views (see `views` and `sortedhistory`).

    With joint surprise s, a sample is an alarm if x = s² / (s² + bar²) reaches the threshold. The bar is twice as high
    right after an alarm and decays exponentially, so that an episode gives one alarm, and a second one only if it
    worsens. An alarm scores (1 + x) / 2, any other sample x / 2.

    >>> detector = SurpriseDetector()
    >>> calm = [detector.score(10.0 + (row % 7)) for row in range(200)]
    >>> max(calm) < detector.threshold <= detector.score(60.0)
    True
    """

    def __init__(self, threshold: float = THRESHOLD, history_rows: int = HISTORY_ROWS) -> None:
        if history_rows < views.FEWEST_ROWS:
            raise InvalidInput(f"a history of {history_rows} rows is too short: use {views.FEWEST_ROWS} or more")
        self._threshold = checked_threshold(threshold)
        self._scalars = np.zeros(views.SCALARS)
        self._scalars[views.FIRST_S] = np.nan
        self._state: tuple[Floats, Floats, Floats, Floats, Ints, Floats, Ints] = (
            self._scalars,
            np.zeros((2, views.RECENT_ROWS)),
            np.zeros((views.VIEWS, history_rows)),
            np.zeros((views.VIEWS, history_rows)),
            np.zeros(views.VIEWS, dtype=np.int64),
            np.zeros(views.DAY_BINS),
            np.zeros(views.DAY_BINS, dtype=np.int64),
        )

    @property
    def threshold(self) -> float:
        return self._threshold

    @property
    def strangeness(self) -> float:
        return float(self._scalars[views.STRANGE])

    def score(self, value: float, time_s: float | None = None) -> float:
        sample, at_s = checked_sample(value, time_s)
        return views.observe(sample, at_s, self._threshold, *self._state)

    def walk(self, values: Floats, times_s: Floats | None = None) -> Floats:
        samples, at_s = checked_samples(values, times_s)
        return views.observe_all(samples, at_s, self._threshold, *self._state)
