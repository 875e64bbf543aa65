"""The full forecaster: simple, seasonal, ARIMA and regression members for every stream, blended by running error."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from tidegate.forecast.anchor import MEMBERS, SEASON_FEATURES, SEASONS, Anchor, empty_anchor, step, trusted
from tidegate.forecast.arima import ArimaBank
from tidegate.forecast.forecaster import Forecast, samples
from tidegate.forecast.history import empty_history, remember, unrolled
from tidegate.forecast.jit import Floats, Ints
from tidegate.forecast.regression import forget_features
from tidegate.forecast.season import LEAST_SAMPLES, find_seasons

_SEARCH_AGAIN = 1.15
"""A stream's seasons are looked for anew when it has grown by this factor, later whenever a quarter is new."""
_LEAST_SEARCHES, _STREAMS_PER_SEARCH = 4, 1000
"""Searches per step: each costs a fraction of a millisecond, so in large banks streams wait for their turn."""


class SelectingBank:
    """Forecasts each stream by what has worked for it lately, with calibrated intervals and a confidence gate.

    `anchors` are the steps that are learned directly, each at the same cost; between them forecasts are interpolated.
    The default is the horizon alone. `seasons` are likely lags (a day, a week in samples); others are found within
    `history` samples. Memory is 8 bytes × streams × `history`, and 4 kB per stream and anchor.

    >>> bank = SelectingBank(streams=1, horizon=6)
    >>> for hour in range(24 * 20):
    ...     bank.observe([100 + 50 * np.sin(2 * np.pi * hour / 24)])
    >>> bank.seasons.tolist(), bool(bank.forecast().trusted[0])
    ([[24, 0]], True)
    """

    def __init__(
        self,
        streams: int,
        horizon: int = 1,
        *,
        anchors: Sequence[int] | None = None,
        seasons: Sequence[int] = (),
        history: int = 4096,
        coverage: float = 0.9,
    ) -> None:
        if streams < 1 or horizon < 1:
            raise ValueError(f"a bank has at least one stream and one step, not {streams} and {horizon}")
        if not 0 < coverage < 1:
            raise ValueError(f"coverage lies between 0 and 1, not {coverage}")
        if history < LEAST_SAMPLES:
            raise ValueError(f"a history holds at least {LEAST_SAMPLES} samples, not {history}")
        steps = tuple(sorted(set(anchors or ()) | {horizon}))
        if not 1 <= steps[0] <= steps[-1] <= horizon:
            raise ValueError(f"anchors lie between 1 and the horizon {horizon}, not at {steps}")
        self._streams, self._horizon = streams, horizon
        self.anchors, self.coverage = steps, coverage
        self.likely_seasons = tuple(seasons)
        self.seasons: Ints = np.zeros((streams, SEASONS), dtype=np.int64)
        """The seasons in use per stream, short and long; 0 is none."""
        self.time = 0
        """Steps observed so far."""
        self._history = empty_history(streams, history)
        self._arima = ArimaBank(streams, horizon, coverage=coverage)
        self._anchors = [empty_anchor(streams, ahead, coverage) for ahead in steps]
        self._search_at = np.full(streams, LEAST_SAMPLES)
        knots = np.eye(len(steps) + 1)
        path = np.arange(1, horizon + 1)
        self._between = np.array([np.interp(path, (0, *steps), knot) for knot in knots])

    @property
    def streams(self) -> int:
        return self._streams

    @property
    def horizon(self) -> int:
        return self._horizon

    @property
    def weights(self) -> dict[str, Floats]:
        """How much each member counts at the horizon, per stream."""
        return {name: self._anchors[-1].weights[:, m] for m, name in enumerate(MEMBERS)}

    def observe(self, values: ArrayLike) -> None:
        """One sample of every stream; where it is NaN the stream's own forecast stands in and nothing is learned."""
        now = samples(values, self._streams)
        expected = self._issued(self._anchors[0], self.time)[:, 0].copy()
        remember(self._history, self.time, now, expected)
        self._arima.observe(now)
        self._find_seasons()
        path = self._arima.forecast().mean
        for ahead, anchor in zip(self.anchors, self._anchors, strict=True):
            arima = np.ascontiguousarray(path[:, ahead - 1])
            step(anchor, self._history, self.time, now, self.seasons, arima, 1 - self.coverage)
        self.time += 1

    def forecast(self) -> Forecast:
        """The path of the next `horizon` steps; a stream that was never seen is forecast as NaN."""
        issued = [self._issued(anchor, self.time - 1) for anchor in self._anchors]
        last = self._history.recent[:, 0]
        mean, lower, upper = (
            np.column_stack([last, *(said[:, part] for said in issued)]) @ self._between for part in range(3)
        )
        return Forecast(mean, lower, upper, trusted(self._anchors[-1]))

    @staticmethod
    def _issued(anchor: Anchor, time: int) -> Floats:
        said: Floats = anchor.issued[time % len(anchor.issued)]
        return said

    def _find_seasons(self) -> None:
        ring = len(self._history.sums)
        due = np.flatnonzero((self._history.began >= 0) & (self.time - self._history.began + 1 >= self._search_at))
        budget = max(_LEAST_SEARCHES, self._streams // _STREAMS_PER_SEARCH)
        if len(due) > budget:
            due = due[np.argpartition(self._search_at[due], budget)[:budget]]
        for stream in due.tolist():
            known = unrolled(self._history, self.time, stream)
            age = self.time - int(self._history.began[stream]) + 1
            self._search_at[stream] = age + max(1, int(min((_SEARCH_AGAIN - 1) * age, ring / 4)))
            for slot, season in enumerate(find_seasons(known, self.likely_seasons)):
                if season != self.seasons[stream, slot]:
                    self._change_season(stream, slot, season)

    def _change_season(self, stream: int, slot: int, season: int) -> None:
        self.seasons[stream, slot] = season
        per_season = (self._anchors[0].features.shape[2] - SEASON_FEATURES) // SEASONS
        first = SEASON_FEATURES + slot * per_season
        for anchor in self._anchors:
            forget_features(anchor.regressions, stream, first, first + per_season)
            anchor.features[:, stream, first : first + per_season] = 0.0
