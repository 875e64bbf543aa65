"""Expected arrivals: forecasts for the applications of one step, computed on demand."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

import numpy as np

from tidegate.evaluate.forecast.analogues import Analogues, find_analogues
from tidegate.evaluate.forecast.arrivals import FINE_S, ArrivalForecaster, Recent
from tidegate.evaluate.table import Flags, Floats, Ints

PATH_S, PATH_STEP_S = 900.0, 10.0
"""How far ahead arrivals are forecast, and in which steps."""
ANALOGUES_S = 3600.0
"""How far back to look for situations like the present one."""
ALL_AT_ONCE = 64
"""Up to this many applications are forecast together, which costs hardly more than one."""


@dataclass(frozen=True, slots=True)
class ArrivalPath:
    """Expected arrivals in rows per second, at steps of `step_s` from now, with an interval."""

    step_s: float
    mean: Floats
    lower: Floats
    upper: Floats
    trusted: bool
    """False: the recent level with a wide band, because the forecast does not beat it."""

    @property
    def horizon_s(self) -> float:
        return self.step_s * len(self.mean)


@dataclass(frozen=True, slots=True)
class Ahead:
    """Arrivals of some applications in the next few steps. Arrays are applications × steps."""

    mean: Floats
    upper: Floats
    trusted: Flags
    """By application."""


class ClassForecasts:
    """Forecasts of whole classes, updated every few seconds, because their buckets are no shorter."""

    def __init__(self) -> None:
        self._looked = -1.0
        self._streams: tuple[ArrivalForecaster, int, int] | None = None
        self._known: dict[tuple[int, float], Ahead] = {}

    def look(self, now_s: float, arrivals: ArrivalForecaster, applications: int, classes: int) -> None:
        """The sums of `classes` were reported after the totals of the applications."""
        looked, streams = now_s // FINE_S, (arrivals, applications, classes)
        if looked != self._looked or streams != self._streams:
            self._looked, self._streams, self._known = looked, streams, {}

    def ahead(self, steps: int, step_s: float) -> Ahead:
        if (steps, step_s) not in self._known:
            assert self._streams is not None, "look first"
            arrivals, applications, classes = self._streams
            places = applications + np.arange(classes)
            self._known[steps, step_s] = _ahead(arrivals, places, steps, step_s)
        return self._known[steps, step_s]


class Expected:
    """Forecasts by place in the columns of one evaluation.

    >>> arrivals = ArrivalForecaster()
    >>> for second in range(300):
    ...     arrivals.tell(float(second), ["orders"], [200.0 * second])
    >>> expected = Expected(arrivals, applications=1)
    >>> path = expected.path(0)
    >>> round(float(path.mean[0])), path.horizon_s
    (200, 900.0)
    >>> expected.ahead(np.array([0]), steps=3, step_s=5.0).mean.round().tolist()
    [[200.0, 200.0, 200.0]]
    """

    def __init__(
        self,
        arrivals: ArrivalForecaster,
        applications: int,
        classes: ClassForecasts | None = None,
        recent: Recent | None = None,
    ) -> None:
        """`classes` and `recent` (of all applications) are given if there are too many to forecast one by one."""
        self._arrivals, self._count, self._classes, self._recent = arrivals, applications, classes, recent
        self._known: dict[int, ArrivalPath | None] = {}

    def path(self, place: int) -> ArrivalPath | None:
        """The next quarter of an hour; None if arrivals were never counted."""
        if place not in self._known:
            self._work_out(range(self._count) if self._count <= ALL_AT_ONCE else (place,))
        return self._known[place]

    def known(self, place: int) -> ArrivalPath | None:
        """The path if it was already computed in this step. Nothing is computed for this."""
        return self._known.get(place)

    def recent(self, place: int, lasts_s: float) -> Floats:
        """Past arrivals in rows per second, in steps of `FINE_S`, oldest first; empty if unknown."""
        return self._arrivals.recent(place, lasts_s)

    def analogues(self, place: int, rows_per_s: float, ahead_s: float) -> Analogues | None:
        """What followed when the load was at this level, in steps of `FINE_S`; None if it never was."""
        return find_analogues(self.recent(place, ANALOGUES_S), rows_per_s, ceil(ahead_s / FINE_S))

    def prepare(self, places: list[int]) -> None:
        """Compute these together: one after another would take many times as long."""
        missing = [place for place in places if place not in self._known]
        if missing:
            self._work_out(missing)

    def ahead(self, places: Ints, steps: int, step_s: float) -> Ahead:
        """The mean rate in each of the next few steps. A forecast without counts is not trusted."""
        return _ahead(self._arrivals, places, steps, step_s)

    def classes_ahead(self, steps: int, step_s: float) -> Ahead | None:
        """The same for whole classes; None if their sums are not tracked."""
        return self._classes.ahead(steps, step_s) if self._classes else None

    def _work_out(self, places: range | list[int] | tuple[int, ...]) -> None:
        at, recent = np.array(places, dtype=np.int64), self._recent
        if recent is not None:
            recent = Recent(recent.rows_per_s[at], recent.deviation[at])
        found = self._arrivals.path(at, PATH_S, PATH_STEP_S, recent)
        unheard = np.asarray(np.isnan(found.mean).any(axis=1))
        trusted = found.trusted.mean(axis=1) > 0.5
        lower = np.maximum(found.lower, 0.0)
        for row, place in enumerate(places):
            path = ArrivalPath(PATH_STEP_S, found.mean[row], lower[row], found.upper[row], bool(trusted[row]))
            self._known[place] = None if unheard[row] else path


def _ahead(arrivals: ArrivalForecaster, places: Ints, steps: int, step_s: float) -> Ahead:
    found = arrivals.path(places, steps * step_s, step_s)
    heard = ~np.isnan(found.mean).any(axis=1)
    return Ahead(np.nan_to_num(found.mean), np.nan_to_num(found.upper), np.asarray(heard & found.trusted.all(axis=1)))
