"""Forecasts the arrivals of every application for the next hour, from the total of rows that have arrived at it.

Two banks see the same arrivals: buckets of 5 s for the next two minutes, and buckets of a minute for the next hour,
with a day as their likely season. A profile by hour of the week supplements the second. The path changes from one to
the other between one and two minutes ahead. If a bank is not trusted, the recent level with a damped trend takes its
place, in a band as wide as recent changes suggest. If there are very many applications, only some streams (for example
sums over classes) have buckets of 5 s; for the others the recent level is passed in. Nothing here uses a clock or
random numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from zlib import crc32

import numpy as np
from numpy.typing import ArrayLike

from tidegate.evaluate.forecast.buckets import Buckets, Closed
from tidegate.evaluate.forecast.rows import Array, Bools, Floats, Ints, State
from tidegate.evaluate.forecast.selecting import SelectingBank
from tidegate.evaluate.forecast.weekly import BANK, GUIDE, HOUR_S, WEEK, belief, count, guide

FINE_S, FINE_STEPS = 5.0, 24
COARSE_S, COARSE_STEPS = 60.0, 60
DAY = 1440
"""In coarse buckets."""
_FINE_HISTORY, _COARSE_HISTORY = 1024, 2048
_FINE_ANCHORS, _COARSE_ANCHORS = (6,), (10,)
_FADE_FROM_S, _FADE_TO_S = 60.0, 120.0
"""Between these times the fine forecast gives way to the coarse one."""
_GAUSSIAN_90 = 1.645
_STALE_BUCKETS = 6
"""A bank without a sample for longer than this says nothing about the present."""


@dataclass(frozen=True, slots=True)
class Recent:
    """What is known about the present without a bank, by application."""

    rows_per_s: Floats
    deviation: Floats
    """Standard deviation of a rate counted over a fine bucket."""


@dataclass(frozen=True, slots=True)
class ArrivalPaths:
    """Rows per second over the steps ahead. Arrays are applications × steps; NaN without any samples."""

    mean: Floats
    lower: Floats
    """`lower` to `upper` should contain the rate of a bucket nine times in ten."""
    upper: Floats
    trusted: Bools
    """False if the recent level stands in for a forecast that is young or has not beaten it."""


class ArrivalForecaster:
    """Receives, at every control step, the total of rows that have arrived at each application.

    >>> arrivals = ArrivalForecaster()
    >>> for second in range(600):
    ...     arrivals.tell(float(second), ["orders"], [200.0 * second])
    >>> path = arrivals.path([0], horizon_s=60.0, step_s=20.0)
    >>> path.mean.round().tolist()
    [[200.0, 200.0, 200.0]]
    """

    def __init__(self, forget_after_s: float = 7 * 86_400.0) -> None:
        self._forget_after_s = forget_after_s
        self._fine = SelectingBank(0, FINE_STEPS, anchors=_FINE_ANCHORS, history=_FINE_HISTORY)
        self._coarse = SelectingBank(
            0, COARSE_STEPS, anchors=_COARSE_ANCHORS, seasons=(DAY,), history=_COARSE_HISTORY
        )  # fmt: skip
        self._fine_buckets, self._coarse_buckets = Buckets(FINE_S), Buckets(COARSE_S)
        self._week = WEEK.empty(0)
        self._seen_s = np.zeros(0)
        self._slots: dict[str, int] = {}
        self._names: tuple[str, ...] = ()
        self._told: Ints = np.zeros(0, dtype=np.int64)
        self._near: Ints = self._told
        """Those with fine buckets: the last ones, or all."""
        self._now_s = float("-inf")

    def tell(self, now_s: float, names: Sequence[str], arrived_rows: ArrayLike, near_from: int = 0) -> None:
        """Total rows that have arrived at each application; NaN if unknown. Totals may restart from zero.

        Applications before the index `near_from` have coarse buckets only.
        """
        totals = np.asarray(arrived_rows, dtype=np.float64)
        if totals.shape != (len(names),):
            raise ValueError(f"one total for each of the {len(names)} applications is needed, not {totals.shape}")
        if now_s < self._now_s:
            raise ValueError(f"totals at {now_s} s come after those at {self._now_s} s: tell them in the order of time")
        self._now_s = now_s
        if names is not self._names and tuple(names) != self._names:
            self._meet(names)
        if len(self._near) != len(names) - near_from:
            self._near = self._told[near_from:] if near_from else self._told
        self._seen_s[self._told] = now_s
        for closed in self._fine_buckets.tell(now_s, self._near, totals[near_from:]):
            _observe(self._fine, closed)
        for closed in self._coarse_buckets.tell(now_s, self._told, totals):
            _observe(self._coarse, closed)
            self._count_hours(closed)

    def path(
        self, applications: ArrayLike, horizon_s: float, step_s: float, recent: Recent | None = None
    ) -> ArrivalPaths:
        """Expected arrivals in each step of `step_s` until `horizon_s`, for these indices of the names passed last.

        Beyond an hour the last value is repeated. `recent` stands in where there are no fine buckets.
        """
        rows = self._told[np.asarray(applications, dtype=np.int64)]
        ahead_s: Floats = np.asarray((np.arange(max(1, round(horizon_s / step_s))) + 0.5) * step_s, dtype=np.float64)
        coarse, coarse_trusted = self._expected(self._coarse, self._coarse_buckets, rows, ahead_s)
        if ahead_s[0] >= _FADE_TO_S:
            return ArrivalPaths(coarse[0], coarse[1], coarse[2], coarse_trusted)
        near: Floats = np.minimum(ahead_s, _FADE_TO_S)
        fine, fine_trusted = self._expected(self._fine, self._fine_buckets, rows, near)
        if recent is not None:
            fine = np.where(np.isnan(fine), _level(recent, near), fine)
        share = np.minimum(np.maximum((_FADE_TO_S - ahead_s) / (_FADE_TO_S - _FADE_FROM_S), 0.0), 1.0)
        share = np.where(np.isnan(fine[0]), 0.0, np.where(np.isnan(coarse[0]), 1.0, share))
        mixed = np.where(share == 0, coarse, np.where(share == 1, fine, share * fine + (1 - share) * coarse))
        trusted = np.where(share >= 0.5, fine_trusted, coarse_trusted)
        return ArrivalPaths(mixed[0], mixed[1], mixed[2], trusted)

    def recent(self, application: int, lasts_s: float) -> Floats:
        """Rows per second in the last fine buckets of the application at this index, oldest first.

        There are fewer if fewer are known, and none if it has no fine buckets.
        """
        if application >= len(self._told):  # substitutes that know the future receive no totals
            return np.zeros(0)
        return self._fine.recent(int(self._told[application]), round(lasts_s / FINE_S))

    def state(self) -> State:
        """Everything known, as arrays by name."""
        known: State = {
            "names": np.array(list(self._slots), dtype=np.str_),
            "told": self._told.copy(),
            "times_s": np.array([self._now_s, self._forget_after_s]),
            "week": self._week.copy(),
            "seen_s": self._seen_s.copy(),
        }
        for name, bank, buckets in self._parts():
            known |= {f"{name}.{key}": value for key, value in bank.state().items()}
            known |= {f"{name}.counts": buckets.state(), f"{name}.phase_s": buckets.phase_s.copy()}
        return known

    @classmethod
    def from_state(cls, state: Mapping[str, Array]) -> ArrivalForecaster:
        """The forecaster that `state` was taken from. It continues as if uninterrupted."""
        now_s, forget_after_s = state["times_s"].tolist()
        found = cls(forget_after_s)
        found._now_s = now_s
        found._slots = {name: slot for slot, name in enumerate(state["names"].tolist())}
        found._told = found._near = np.array(state["told"], dtype=np.int64)
        names = list(found._slots)
        found._names = tuple(names[slot] for slot in found._told.tolist())
        found._week, found._seen_s = np.array(state["week"]), np.array(state["seen_s"])
        banks = {}
        for name, _, buckets in found._parts():
            own = {key.removeprefix(f"{name}."): value for key, value in state.items() if key.startswith(f"{name}.")}
            banks[name] = SelectingBank.from_state(own)
            buckets.restore(own["counts"], own["phase_s"])
        found._fine, found._coarse = banks["fine"], banks["coarse"]
        return found

    def _parts(self) -> tuple[tuple[str, SelectingBank, Buckets], ...]:
        return ("fine", self._fine, self._fine_buckets), ("coarse", self._coarse, self._coarse_buckets)

    def _meet(self, names: Sequence[str]) -> None:
        """The applications have changed: make room for new ones, and drop those that have been gone for long."""
        if len(set(names)) < len(names):
            raise ValueError("an application is named twice: tell the total of each once")
        here = set(names)
        gone = [
            slot
            for name, slot in self._slots.items()
            if name not in here and self._now_s - self._seen_s[slot] > self._forget_after_s
        ]
        if gone:
            stay = np.delete(np.arange(len(self._slots)), gone)
            for _, bank, buckets in self._parts():
                bank.remove(gone)
                buckets.keep(stay)
            self._week, self._seen_s = self._week[stay], self._seen_s[stay]
            left = list(self._slots)
            self._slots = {left[slot]: place for place, slot in enumerate(stay.tolist())}
        new = [name for name in names if name not in self._slots]
        if new:
            # A hash of the name determines when its buckets end, so that no step has to close all of them. Coarse ones
            # end in one second of five: a bank processes hundreds of streams nearly as quickly as a few.
            phase = np.array([crc32(name.encode()) / 2**32 for name in new])
            for _, bank, buckets in self._parts():
                bank.add(len(new))
                phase_s = phase * buckets.length_s
                buckets.add(phase_s if bank is self._fine else np.floor(phase_s / FINE_S) * FINE_S)
            self._week = np.concatenate([self._week, WEEK.empty(len(new))])
            self._seen_s = np.concatenate([self._seen_s, np.full(len(new), self._now_s)])
            self._slots |= {name: len(self._slots) + place for place, name in enumerate(new)}
        self._names = tuple(names)
        self._told = self._near = np.array([self._slots[name] for name in names], dtype=np.int64)

    def _count_hours(self, closed: Closed) -> None:
        """Update the profile of the week, and record what bank and guide predict for an hour that begins."""
        block = np.ascontiguousarray(self._week[closed.streams].T)
        week = WEEK.view(block)
        turned = count(week, closed.end_s, COARSE_S, closed.rate)
        if len(turned):
            forecast = self._coarse.forecast(closed.streams[turned])
            own = WEEK.view(block[:, turned])
            minutes = np.tile((np.arange(COARSE_STEPS) + 0.5) * COARSE_S, (len(turned), 1))
            expected = guide(own, closed.end_s[turned], forecast.mean[:, 0], minutes)
            week.said[GUIDE, turned], week.said[BANK, turned] = expected.mean(axis=1), forecast.mean.mean(axis=1)
        self._week[closed.streams] = block.T

    def _expected(self, bank: SelectingBank, buckets: Buckets, rows: Ints, ahead_s: Floats) -> tuple[Floats, Bools]:
        """Mean, lower and upper edge (× applications × steps) according to one bank, and whether it is trusted.

        Where it is not trusted, its simple substitute is used.
        """
        length_s = buckets.length_s
        late_s = np.fmax(buckets.since_edge_s(self._now_s, rows), 0.0)  # NaN at the end if never counted
        # The middle of the k-th bucket ahead is (k − 1/2) lengths after the last edge.
        position = (late_s[:, None] + ahead_s) / length_s + 0.5
        steps = np.minimum(position, bank.horizon)
        simple, deviation = bank.simple(np.concatenate([np.zeros((len(rows), 1)), steps], axis=1), rows)
        forecast = bank.forecast(rows)
        known = np.array([forecast.mean, forecast.lower, forecast.upper])
        knots = np.concatenate([np.broadcast_to(simple[:, :1], (3, len(rows), 1)), known], axis=2)
        path = _interpolated(knots, position)
        if bank is self._coarse:
            path = self._guided(rows, late_s, ahead_s, known[0, :, 0], path)
        simple = simple[:, 1:]
        # A rate counted over a bucket is uncertain by √(rate ÷ length) (Poisson), even if it has not changed yet.
        noise = np.maximum(deviation[:, None], np.sqrt(np.maximum(simple, 1.0 / length_s) / length_s))
        half = _GAUSSIAN_90 * noise * np.sqrt(steps)
        fresh = late_s <= _STALE_BUCKETS * length_s
        heard = (bank.age_of(rows) > 0) & (fresh | (bank is self._coarse))
        trusted = forecast.trusted & fresh & heard
        if np.count_nonzero(trusted) < len(trusted):
            stand_in = np.array([simple, np.maximum(simple - half, 0.0), simple + half])
            path = np.where(trusted[:, None], path, stand_in)
        if np.count_nonzero(heard) < len(heard):
            path[:, ~heard] = np.nan
        return path, np.broadcast_to(trusted[:, None], simple.shape)

    def _guided(self, rows: Ints, late_s: Floats, ahead_s: Floats, now: Floats, path: Floats) -> Floats:
        """The path, moved towards the usual value of this hour of the week as far as that has proved right."""
        week = WEEK.view(self._week[rows].T)
        weight = belief(week)[:, None]
        if not weight.any():
            return path
        shifted = np.minimum(late_s[:, None] + ahead_s, HOUR_S)
        expected = guide(week, self._now_s - late_s, now, shifted)
        shift = np.where(np.isnan(expected), 0.0, weight * (expected - path[0]))
        return np.maximum(path + shift, 0.0)


def _level(recent: Recent, ahead_s: Floats) -> Floats:
    """Mean, lower and upper edge if only the recent level is known. The interval widens with the distance."""
    mean, noise = recent.rows_per_s[:, None], recent.deviation[:, None]
    half = _GAUSSIAN_90 * noise * np.sqrt(ahead_s / FINE_S + 0.5)
    return np.stack([mean + 0.0 * half, np.maximum(mean - half, 0.0), mean + half])


def _observe(bank: SelectingBank, closed: Closed) -> None:
    for skipped in np.unique(closed.skipped[closed.skipped > 0]).tolist() if np.count_nonzero(closed.skipped) else ():
        bank.skip(closed.streams[closed.skipped == skipped], skipped)
    bank.observe(closed.rate, closed.streams)


def _interpolated(knots: Floats, position: Floats) -> Floats:
    """Interpolates row by row along the last axis of `knots`. Beyond the last knot the value is constant."""
    last = knots.shape[-1] - 1
    inside = np.minimum(np.fmax(position, 0.0), float(last))  # a stream without samples has no position
    first = np.minimum(inside.astype(np.int64), last - 1)
    share, rows = inside - first, np.arange(len(position))[:, None]
    before = knots[:, rows, first]
    return np.asarray(before + share * (knots[:, rows, first + 1] - before))
