"""The full forecaster: simple, seasonal, ARIMA and regression members for every stream, blended by running error."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from tidegate.evaluate.forecast import onestream
from tidegate.evaluate.forecast.anchor import (
    MEMBERS,
    SEASONS,
    Learned,
    NewSamples,
    Said,
    current_weights,
    empty_said,
    forget_season,
    issued,
    learned_layout,
    step,
    trusted,
)  # fmt: skip
from tidegate.evaluate.forecast.arima import Arima, Order, arima_layout, learn, path
from tidegate.evaluate.forecast.forecaster import Forecast, samples
from tidegate.evaluate.forecast.history import HISTORY, History, remember, unrolled
from tidegate.evaluate.forecast.rows import Array, Floats, Ints, Layout, State
from tidegate.evaluate.forecast.season import LEAST_SAMPLES, find_seasons
from tidegate.evaluate.forecast.trend import TREND, Trend, continued, follow

Part = TypeVar("Part")

_ORDER: Order = (3, 1, 1)
_FORGETTING = 0.998
_ARIMA_STEPS = 6
"""How far ARIMA's path is iterated. Beyond that it is almost always flat, and iterating costs the most."""
_SEARCH_AGAIN = 1.15
"""Seasons are searched again when a stream has grown by this factor, later whenever a quarter of its samples is new."""
_SEARCH_BUDGET, _SEARCH_COST = 4096, 2048
"""Samples searched for seasons in one step, and the fixed cost of a search in samples. In large banks, streams wait for
their turn.
"""
_SPARE = 4
"""A growing bank makes room for a quarter more."""


class _Seasons(NamedTuple):
    """Columns."""

    lags: Floats
    """Seasons in use, short and long; 0 for none."""
    search_at: Floats
    """Age at which seasons are searched next."""


class _Views(NamedTuple):
    """The columns of some streams by name. Writing to them writes to `block`."""

    block: Floats
    history: History
    trend: Trend
    arima: Arima
    seasons: _Seasons
    learned: list[Learned]
    """One per anchor."""


_SEASONS = Layout(_Seasons, lags=np.zeros(SEASONS), search_at=float(LEAST_SAMPLES))
_ARIMA = arima_layout(_ORDER)


class SelectingBank:
    """Forecasts each stream by what has recently worked for it, with calibrated intervals and a confidence gate.

    `anchors` are the steps that are learned directly, each at the same cost. Between them forecasts are interpolated.
    The default is the horizon alone. `seasons` are likely lags (a day, a week in samples); others are found within
    `history` samples (rounded up to a power of two). Memory per stream is 4 bytes × `history` plus 0.5 kB, and per
    anchor 3.5 kB plus 0.13 kB × the step.

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
        if streams < 0 or horizon < 1:
            raise ValueError(f"a bank has no fewer than 0 streams and 1 step, not {streams} and {horizon}")
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
        self._ring_size = 1 << (history - 1).bit_length()
        self._learned = learned_layout(coverage)
        layouts: list[Layout[Any]] = [HISTORY, TREND, _ARIMA, _SEASONS, *[self._learned] * len(steps)]
        ends = np.cumsum([layout.width for layout in layouts]).tolist()
        self._parts = [slice(end - layout.width, end) for layout, end in zip(layouts, ends, strict=True)]
        self._first_row = np.hstack([layout.empty(1) for layout in layouts])
        # Columns × streams, so that a step works on contiguous columns. The other tables are by stream.
        self._columns, self._tables = self._empty(streams)
        self._all_said = self._find_said()
        self._whole: _Views | None = None
        self._ahead: Forecast | None = None
        """The forecast of all streams. Dropped with every sample, gap, and added or removed stream."""
        knots = np.eye(len(steps) + 1)
        ahead = np.arange(1, horizon + 1)
        self._between = np.array([np.interp(ahead, (0, *steps), knot) for knot in knots])

    @classmethod
    def from_state(cls, state: Mapping[str, Array]) -> SelectingBank:
        """The bank that `state` was taken from. It continues as if uninterrupted."""
        streams, horizon, ring = state["shape"].tolist()
        bank = cls(
            streams,
            horizon,
            anchors=state["anchors"].tolist(),
            seasons=state["likely_seasons"].tolist(),
            history=ring,
            coverage=float(state["coverage"]),
        )
        for name, table in {"columns": bank._columns.T, **bank._tables}.items():
            if name not in state or state[name].shape != table.shape:
                found = state[name].shape if name in state else "nothing"
                raise ValueError(f"saved forecasts do not fit: {name} should have the shape {table.shape}, not {found}")
            table[:] = state[name]
        return bank

    def state(self) -> State:
        """Everything the bank knows, as arrays by name, for saving and for `from_state`."""
        return {
            "shape": np.array([self._streams, self._horizon, self._ring_size]),
            "anchors": np.array(self.anchors),
            "likely_seasons": np.array(self.likely_seasons, dtype=np.int64),
            "coverage": np.array(self.coverage),
            "columns": np.ascontiguousarray(self._columns[:, : self._streams].T),
            **{name: table[: self._streams].copy() for name, table in self._tables.items()},
        }

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {
            "_whole": None,
            "_ahead": None,
            "_all_said": [],
        }  # a copy must not keep views of the original

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._all_said = self._find_said()

    @property
    def streams(self) -> int:
        return self._streams

    @property
    def horizon(self) -> int:
        return self._horizon

    @property
    def age(self) -> Ints:
        """Samples of each stream since its first."""
        return self._all().history.age.astype(np.int64)

    def age_of(self, streams: Ints) -> Ints:
        age: Ints = self._columns[0, streams].astype(np.int64)
        return age

    @property
    def seasons(self) -> Ints:
        """The seasons in use per stream, short and long; 0 for none."""
        return self._all().seasons.lags.T.astype(np.int64)

    @property
    def weights(self) -> dict[str, Floats]:
        """The weight of each member at the horizon, per stream."""
        rows = np.arange(self._streams)
        weights = current_weights(self._said(-1), self._all().learned[-1], rows, self.age - 1)
        return dict(zip(MEMBERS, weights, strict=True))

    def add(self, streams: int) -> Ints:
        """Add streams. Returns their indices, the highest ones."""
        first, self._streams = self._streams, self._streams + streams
        room = self._columns.shape[1]
        if self._streams > room:
            columns, more = self._empty(max(self._streams - room, room // _SPARE))
            self._columns = np.concatenate([self._columns, columns], axis=1)
            self._tables = {name: np.concatenate([table, more[name]]) for name, table in self._tables.items()}
            self._all_said = self._find_said()
        self._whole = self._ahead = None
        return np.arange(first, self._streams)

    def remove(self, streams: ArrayLike) -> None:
        """Remove these streams; those after them move up."""
        stay = np.delete(np.arange(self._streams), self._rows(streams))
        self._streams = len(stay)
        self._columns = self._columns[:, stay]
        self._whole = self._ahead = None
        self._tables = {name: table[stay] for name, table in self._tables.items()}
        self._all_said = self._find_said()

    def observe(self, values: ArrayLike, streams: ArrayLike | None = None) -> None:
        """The next sample of every stream, or of these (none of them twice). Each stream has its own clock.

        For NaN the stream's own forecast stands in, and nothing is learned.
        """
        rows = self._rows(streams)
        now = samples(values, len(rows))
        ring = self._tables["ring"]
        missing = np.isnan(now)
        known = ~missing | (self._columns[0, rows] > 0)
        if np.count_nonzero(known) < len(known):
            rows, now, missing = rows[known], now[known], missing[known]
        if len(rows) == 0:
            return
        self._ahead = None
        views = self._of(rows)
        history, trend, arima = views.history, views.trend, views.arima
        some_missing, steps = np.count_nonzero(missing) > 0, min(self._horizon, _ARIMA_STEPS)
        if some_missing:
            expected = issued(self._said(0), rows, history.age.astype(np.int64) - self.anchors[0])[0]
            remember(history, ring, rows, now, expected)
        else:
            remember(history, ring, rows, now, now)
        follow(trend, history.recent[0])
        iterated: Sequence[Floats] | Floats
        if len(rows) == 1 and not some_missing:
            onestream.learn(arima, now.item(), _ORDER, _FORGETTING, 1 - self.coverage)
            iterated = onestream.path(arima, _ORDER, steps)
        else:
            learn(arima, now, _ORDER, _FORGETTING, 1 - self.coverage)
            iterated = path(arima, _ORDER, steps)
        self._find_seasons(views, rows)
        new = NewSamples(rows, now, history, ring, views.seasons.lags.astype(np.int64))
        for place, ahead in enumerate(self.anchors):
            by_arima = iterated[min(ahead, _ARIMA_STEPS) - 1]
            step(self._said(place), views.learned[place], new, continued(trend, ahead), by_arima, 1 - self.coverage)
        if views is not self._whole:
            self._columns[:, rows] = views.block

    def forecast(self, streams: ArrayLike | None = None) -> Forecast:
        """The path of the next `horizon` steps; NaN for a stream without samples."""
        rows = self._rows(streams)
        everyone = self._is_all(rows)
        if everyone and self._ahead is not None:
            return self._ahead
        history, learned = self._part(HISTORY, 0, rows), self._part(self._learned, -1, rows)
        newest = history.age.astype(np.int64) - 1
        said = [issued(self._said(place), rows, newest) for place in range(len(self.anchors))]
        knots = np.stack([np.broadcast_to(history.recent[0], (3, len(rows))), *said], axis=2)
        floor = np.where(history.low >= 0.0, 0.0, -np.inf)[:, None]
        mean, lower, upper = np.maximum(knots @ self._between, floor)
        found = Forecast(mean, lower, upper, trusted(learned))
        self._ahead = found if everyone else self._ahead
        return found

    def skip(self, streams: ArrayLike, samples: int) -> None:
        """Let time pass for these streams without samples: a long gap of known length.

        The previous season, or else the last sample, fills the gap. Nothing is learned from it.
        """
        rows = self._rows(streams)
        ring = self._tables["ring"]
        rows, self._ahead = rows[self._columns[0, rows] > 0], None
        history, lags = self._part(HISTORY, 0, rows), self._part(_SEASONS, 3, rows).lags[0]
        for place, stream in enumerate(rows.tolist()):
            age, season = int(history.age[place]), int(lags[place])
            known = (
                unrolled(ring, 0.0, age, stream)[-season:]
                if season
                else np.array([ring[stream, (age - 1) % len(ring[0])]])
            )
            missed = np.arange(max(0, samples - self._ring_size), samples)
            ring[stream, (age + missed) % self._ring_size] = known[missed % len(known)]
        self._columns[0, rows] += samples  # the age
        for place in range(len(self.anchors)):
            self._said(place).base[rows] = np.nan
            self._said(place).said[rows] = 0.0

    def simple(self, steps: Floats, streams: ArrayLike | None = None) -> tuple[Floats, Floats]:
        """The recent level with a damped trend, this many steps ahead (streams × steps).

        Also returns the root mean square of the recent differences between consecutive samples (streams).
        """
        rows = self._rows(streams)
        history, trend = self._part(HISTORY, 0, rows), self._part(TREND, 1, rows)
        ahead = continued(trend, steps.T).T
        floor = np.where(history.low >= 0.0, 0.0, -np.inf)[:, None]
        return np.maximum(ahead, floor), np.sqrt(self._part(_ARIMA, 2, rows).errors[1])

    def recent(self, stream: int, count: int) -> Floats:
        """The last remembered samples of one stream, oldest first, including substitutes for missing ones."""
        history = self._part(HISTORY, 0, np.array([stream]))
        return unrolled(self._tables["ring"], float(history.origin[0]), int(history.age[0]), stream)[-count:]

    def _rows(self, streams: ArrayLike | None) -> Ints:
        if streams is None:
            return np.arange(self._streams)
        rows = np.asarray(streams, dtype=np.int64)
        if rows.ndim != 1 or (len(rows) and not 0 <= rows.min() <= rows.max() < self._streams):
            raise ValueError(
                f"streams are numbered from 0 to {self._streams - 1}, and the bank was asked for {streams}"
            )
        return rows

    def _views(self, block: Floats) -> _Views:
        history, trend, arima, seasons, *learned = (block[part] for part in self._parts)
        return _Views(
            block,
            HISTORY.view(history),
            TREND.view(trend),
            _ARIMA.view(arima),
            _SEASONS.view(seasons),
            [self._learned.view(one) for one in learned],
        )

    def _all(self) -> _Views:
        """All streams in place, without copying. The views are cached, because creating them takes time."""
        if self._whole is None:
            self._whole = self._views(self._columns[:, : self._streams])
        return self._whole

    def _of(self, rows: Ints) -> _Views:
        """A copy of these streams' columns; the columns themselves if these are all streams in order."""
        if self._is_all(rows):
            return self._all()
        return self._views(self._columns.take(rows, axis=1))

    def _is_all(self, rows: Ints) -> bool:
        return len(rows) == self._streams and (len(rows) < 2 or bool((rows[1:] > rows[:-1]).all()))

    def _part(self, layout: Layout[Part], part: int, rows: Ints) -> Part:
        """One group of columns of these streams, for reading."""
        if self._is_all(rows):
            whole = self._all()
            return (whole.history, whole.trend, whole.arima, whole.seasons, *whole.learned)[part]  # type: ignore[return-value]
        return layout.view(self._columns[self._parts[part]].take(rows, axis=1))

    def _said(self, place: int) -> Said:
        return self._all_said[place]

    def _find_said(self) -> list[Said]:
        """By anchor. Cached, because building the table names takes longer than looking them up."""
        return [Said(*(self._tables[f"{name}{ahead}"] for name in Said._fields)) for ahead in self.anchors]

    def _empty(self, streams: int) -> tuple[Floats, State]:
        tables: State = {"ring": np.zeros((streams, self._ring_size), dtype=np.float32)}
        for ahead in self.anchors:
            tables |= {f"{name}{ahead}": part for name, part in empty_said(streams, ahead)._asdict().items()}
        return np.repeat(self._first_row.T, streams, axis=1), tables

    def _find_seasons(self, views: _Views, rows: Ints) -> None:
        history, seasons = views.history, views.seasons
        overdue = history.age - seasons.search_at
        due = (overdue >= 0).nonzero()[0]
        if len(due) > 1:
            due = due[np.argsort(-overdue[due], kind="stable")]
        budget = _SEARCH_BUDGET
        for place in due.tolist():
            stream, age = int(rows[place]), int(history.age[place])
            known = unrolled(self._tables["ring"], float(history.origin[place]), age, stream)
            later = age + max(1, int(min((_SEARCH_AGAIN - 1) * age, self._ring_size / 4)))
            seasons.search_at[place] = min([later, *(lag for lag in self.likely_seasons if lag > age)])
            for slot, season in enumerate(find_seasons(known, self.likely_seasons)):
                if season != seasons.lags[slot, place]:
                    seasons.lags[slot, place] = season
                    for anchor, learned in enumerate(views.learned):
                        forget_season(self._said(anchor), learned, place, stream, slot)
            budget -= len(known) + _SEARCH_COST
            if budget <= 0:
                break
