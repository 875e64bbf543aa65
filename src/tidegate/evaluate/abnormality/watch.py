"""Keeps abnormal samples away from learners, and explains them in words for the journal."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tidegate.domain import InvalidInput, Reason
from tidegate.evaluate.abnormality.detector import Detector
from tidegate.evaluate.abnormality.surprise import SurpriseDetector

ABNORMAL = "abnormal"
"""The code of the reasons, for counting."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict on one sample."""

    abnormal: bool
    """Must be neither learned from nor planned on."""
    alarm: bool
    """An episode begins or worsens. This is journalled; the samples after it are not."""
    score: float
    reason: Reason | None
    """Why it is abnormal."""


@dataclass(slots=True)
class _Series:
    detector: Detector
    episode_rows: int = 0
    """Samples in the current episode; 0 if all is normal."""


class Watch:
    """One detector per named series. An episode lasts from an alarm until a sample is no longer strange by itself.

    After `longest_episode_rows` it ends in any case: what lasts that long is the new normal, and learners must see it.
    At most `most_series` are kept; the one not seen for the longest time is dropped first.

    >>> watch = Watch()
    >>> [watch.look("rows per s", 100.0 + row % 5).abnormal for row in range(300)].count(True)
    0
    >>> verdict = watch.look("rows per s", 400.0)
    >>> verdict.abnormal, verdict.reason.code
    (True, 'abnormal')
    """

    def __init__(
        self,
        detector: Callable[[], Detector] = SurpriseDetector,
        longest_episode_rows: int = 48,
        most_series: int = 256,
    ) -> None:
        if longest_episode_rows < 1 or most_series < 1:
            raise InvalidInput("a watch needs room for at least one series and episodes of at least one sample")
        self._detector = detector
        self._longest_episode_rows = longest_episode_rows
        self._most_series = most_series
        self._series: dict[str, _Series] = {}

    def look(self, name: str, value: float, time_s: float | None = None) -> Verdict:
        """Judge the next sample of a series."""
        series = self._series.pop(name, None) or _Series(self._detector())
        self._series[name] = series  # dictionaries keep insertion order: the first has been unseen for longest
        if len(self._series) > self._most_series:
            del self._series[next(iter(self._series))]
        score = series.detector.score(value, time_s)
        alarm = score >= series.detector.threshold
        lasts = 0 < series.episode_rows < self._longest_episode_rows
        strange = series.detector.strangeness >= series.detector.threshold
        if alarm:
            series.episode_rows = 1
        elif lasts and strange:
            series.episode_rows += 1
        else:
            series.episode_rows = 0
        if series.episode_rows == 0:
            return Verdict(False, False, score, None)
        what = "is abnormal" if alarm else f"is still abnormal, sample {series.episode_rows} of the episode"
        strangeness = series.detector.strangeness
        text = f"{name} {value:g} {what} (strangeness {strangeness:.2f}, from {series.detector.threshold:g} on)"
        return Verdict(True, alarm, score, Reason(ABNORMAL, text))
