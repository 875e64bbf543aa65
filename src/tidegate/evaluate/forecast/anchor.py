"""A forecast step that is learned directly: members, a regression, their blend and its interval, for every stream.

A forecast for `ahead` steps is judged `ahead` samples later, so forecasts wait in a ring of a little more than that
length. The regression learns from a few outcomes at a time and reads them there.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tidegate.evaluate.forecast import onestream
from tidegate.evaluate.forecast.blending import MEMORIES, UNKNOWN, score, weigh
from tidegate.evaluate.forecast.history import LAGS, PACES, History, seasonal_levels
from tidegate.evaluate.forecast.intervals import ABOVE, BELOW, IssuedInterval, calibrate, first_interval, reach
from tidegate.evaluate.forecast.regression import BATCH, WeightedOutcomes, absorb, batch_size, robust_weights
from tidegate.evaluate.forecast.rows import Bools, Floats, Ints, Layout, Singles

SEASONS = 2
_PER_SEASON = 4
_SEASONAL = LAGS + len(PACES)
FEATURES = _SEASONAL + _PER_SEASON * SEASONS
"""All are differences from the last sample: lags, smoothed levels, seasonal levels then and now."""

# Columns of an issued forecast. Numbers are differences from the last sample at that time.
_LAST = FEATURES  # always 0
_TREND, _ARIMA, _REGRESSION = _LAST + 1, _LAST + 2, _LAST + 3
_MEAN = _REGRESSION + 1
_LOWER, _UPPER, _UNIT, _TARGET, _WEIGHT = range(_MEAN + 1, _MEAN + 6)
_COLUMNS = _WEIGHT + 1

_MEMBERS = {
    "last value": _LAST,
    **{f"smoothed {pace:g}": LAGS + place for place, pace in enumerate(PACES)},
    "season": _SEASONAL,
    "seasonal mean": _SEASONAL + 2,
    "long season": _SEASONAL + _PER_SEASON,
    "long seasonal mean": _SEASONAL + _PER_SEASON + 2,
    "trend": _TREND,
    "arima": _ARIMA,
    "regression": _REGRESSION,
}
MEMBERS = tuple(_MEMBERS)
_COLUMN_OF_MEMBER = np.array(list(_MEMBERS.values()))
_ALWAYS_SPEAKS = ((_COLUMN_OF_MEMBER < _SEASONAL) | (_COLUMN_OF_MEMBER >= FEATURES))[:, None]
_MARGIN = 0.1  # of the range so far: forecasts stay within it
_MOST_SOLVED = 64  # regressions per step
_YOUNG = 30  # outcomes before a forecast can be trusted


class Learned(NamedTuple):
    """Columns of an anchor."""

    outcomes: Floats
    judged: Floats
    """Number of outcomes per member."""
    losses: Floats
    """Running squared errors, memories × members."""
    blend_loss: Floats
    interval: Floats
    theta: Floats
    """Coefficients of the regression."""
    noise: Floats
    """Mean squared error of the regression: with outliers reduced, and plain."""
    energy: Floats
    """Mean square of a feature."""
    waiting: Floats
    """Samples since the regression last learned."""


def learned_layout(coverage: float) -> Layout[Learned]:
    return Layout(
        Learned,
        outcomes=0.0,
        judged=np.zeros(len(MEMBERS)),
        losses=np.full((len(MEMORIES), len(MEMBERS)), UNKNOWN),
        blend_loss=0.0,
        interval=first_interval(coverage),
        theta=np.zeros(FEATURES),
        noise=np.zeros(2),
        energy=0.0,
        waiting=0.0,
    )


class NewSamples(NamedTuple):
    """The new samples of some streams, already in their history. Every anchor learns from the same ones."""

    rows: Ints
    """The streams."""
    values: Floats
    """NaN: missing."""
    history: History
    ring: Singles
    """The samples of all streams."""
    seasons: Ints
    """Seasons in use, short and long; 0 for none."""


class Said(NamedTuple):
    """What an anchor keeps in addition to its columns. Arrays over streams."""

    said: Singles
    """The forecasts issued at the last samples: streams × ring × columns."""
    base: Floats
    """The last sample at that time; NaN if no forecast was issued."""
    gram: Singles
    """Normal equations of the regression."""
    moment: Singles


def empty_said(streams: int, ahead: int) -> Said:
    return Said(
        said=np.zeros((streams, ahead + BATCH, _COLUMNS), dtype=np.float32),
        base=np.full((streams, ahead + BATCH), np.nan),
        gram=np.zeros((streams, FEATURES, FEATURES), dtype=np.float32),
        moment=np.zeros((streams, FEATURES), dtype=np.float32),
    )


def trusted(learned: Learned) -> Bools:
    """Where the blend has recently beaten the last value, over enough outcomes."""
    found: Bools = (learned.outcomes >= _YOUNG) & (learned.blend_loss < learned.losses[-1, 0])
    return found


def issued(anchor: Said, rows: Ints, sample: Ints) -> Floats:
    """Mean, lower and upper (× streams) as issued at that sample (numbered from 0); NaN if none was issued."""
    at = sample % anchor.base.shape[1]
    found: Floats = anchor.base[rows, at] + anchor.said[rows, at, _MEAN : _UPPER + 1].T
    return found


def current_weights(anchor: Said, learned: Learned, rows: Ints, newest: Ints) -> Floats:
    """The weight of each member in the latest forecast, members × streams."""
    guesses = anchor.said[rows, newest % anchor.base.shape[1]].T[_COLUMN_OF_MEMBER]
    return weigh(learned.losses, (guesses != 0.0) | _ALWAYS_SPEAKS)


def step(anchor: Said, learned: Learned, new: NewSamples, trend: Floats, arima: Floats, alpha: float) -> None:
    """Learn from new samples and forecast again. `trend` and `arima` are those members' forecasts for this step."""
    rows, values, history, ring, seasons = new
    size = anchor.base.shape[1]
    ahead = size - BATCH
    newest = history.age.astype(np.int64) - 1
    made_at = rows * size + (newest - ahead) % size
    all_said, all_base = anchor.said.reshape(-1, _COLUMNS), anchor.base.reshape(-1)
    before = all_said.take(made_at, axis=0).T.astype(np.float64)
    base = all_base.take(made_at)
    target = values - base
    outcome = ~np.isnan(target)
    if np.count_nonzero(outcome):
        _judge(learned, before, target, outcome, alpha, ahead)
        all_said[made_at, _TARGET:] = before[_TARGET:].T
    _learn(anchor, learned, rows, newest, ahead)
    said = _described(history, before, base, _seasonal(ring, rows, newest, seasons, ahead))
    _say(said, learned, history, trend, arima)
    slot = rows * size + newest % size
    all_said[slot] = said.T
    all_base[slot] = history.recent[0]


def _judge(learned: Learned, said: Floats, target: Floats, outcome: Bools, alpha: float, ahead: int) -> None:
    """Update the scores of members, blend and interval, and the regression's data."""
    everywhere = np.count_nonzero(outcome) == len(outcome)
    if not everywhere:  # judge the others as if they had been right, then undo it
        undo = Learned(*(column[..., ~outcome] for column in learned))
        target = np.where(outcome, target, 0.0)
    outcomes = learned.outcomes
    outcomes += 1.0
    guesses = said[_COLUMN_OF_MEMBER]
    score(learned.losses, learned.judged, guesses - target, (guesses != 0.0) | _ALWAYS_SPEAKS)
    share = 1.0 / outcomes
    interval = IssuedInterval(*said[_MEAN : _UNIT + 1])
    loss = learned.blend_loss
    loss += np.maximum(1.0 - MEMORIES[-1], share) * ((interval.mean - target) ** 2 - loss)
    x = said[:FEATURES]
    mean_square = (x * x).sum(axis=0) / FEATURES
    energy = learned.energy
    energy += np.maximum(0.001, share) * (mean_square - energy)
    said[_TARGET] = target
    error = target - (learned.theta * x).sum(axis=0)
    if len(target) == 1:
        onestream.calibrate(learned.interval, target.item(), interval, alpha, ahead, outcomes.item())
        said[_WEIGHT] = onestream.robust_weight(learned.noise, error.item(), outcomes.item())
    else:
        calibrate(learned.interval, target, interval, alpha, ahead, outcomes)
        said[_WEIGHT] = robust_weights(learned.noise, error, outcomes)
    if not everywhere:
        said[_WEIGHT, ~outcome] = 0.0
        for column, was in zip(learned, undo, strict=True):
            column[..., ~outcome] = was


def _learn(anchor: Said, learned: Learned, rows: Ints, newest: Ints, ahead: int) -> None:
    """Let the regressions whose turn it is learn from their latest outcomes."""
    waiting = learned.waiting
    waiting += 1.0
    # Turns differ by stream. Otherwise streams that start together would do all of their work in the same step.
    batch = batch_size(learned.outcomes)
    due = ((((newest + rows) & (batch - 1)) == 0) & (learned.outcomes > 0)).nonzero()[0]
    if len(due) == 0:
        return
    if len(due) > _MOST_SOLVED:  # large banks: those that have waited longest go first, the others at their next turn
        due = np.sort(due[np.argsort(-waiting[due], kind="stable")[:_MOST_SOLVED]])
    back = np.arange(int(min(waiting[due].max(), BATCH)))
    size = anchor.base.shape[1]
    at = (newest[due, None] - ahead - back) % size + rows[due, None] * size
    said = anchor.said.reshape(-1, _COLUMNS).take(at, axis=0)
    weights = said[:, :, _WEIGHT] * (back < waiting[due, None])
    outcomes = WeightedOutcomes(said[:, :, :FEATURES], said[:, :, _TARGET], weights)
    theta = absorb(anchor.gram, anchor.moment, rows[due], outcomes, learned.energy[due])
    learned.theta[:, due] = theta.T
    waiting[due] = 0.0


def _seasonal(ring: Singles, rows: Ints, newest: Ints, seasons: Ints, ahead: int) -> Floats | None:
    """The seasonal levels at this step, minus the origin: naive and mean of the short season, then of the long one."""
    slot, at = seasons.nonzero()
    if len(at) == 0:
        return None
    levels = np.full((2 * SEASONS, len(rows)), np.nan)
    naive, mean = seasonal_levels(ring, rows[at], newest[at], seasons[slot, at], ahead)
    levels[2 * slot, at], levels[2 * slot + 1, at] = naive, mean
    return levels


def _described(history: History, before: Floats, base: Floats, seasonal: Floats | None) -> Floats:
    """A new forecast of which only the features are filled in. `before` and `base` were issued for the present."""
    now = history.recent[0]
    said = np.zeros((_COLUMNS, len(now)))
    said[:LAGS] = history.recent[1:] - now
    said[LAGS:_SEASONAL] = history.smooth - now
    if seasonal is not None:  # 0 means unknown; the level for now was computed `ahead` samples ago
        then = seasonal + (history.origin - now)
        said[_SEASONAL:FEATURES:2] = np.where(np.isnan(then), 0.0, then)
        made = before[_SEASONAL:FEATURES:2]
        said[_SEASONAL + 1 : FEATURES : 2] = np.where((made != 0.0) & ~np.isnan(base), made + (base - now), 0.0)
    return said


def _say(said: Floats, learned: Learned, history: History, trend: Floats, arima: Floats) -> None:
    """Fill in the members, their blend and its interval."""
    now, low, high = history.recent[0], history.low, history.high
    margin = _MARGIN * (high - low)
    floor = np.where(low >= 0.0, 0.0, -np.inf)
    bottom, top = np.maximum(low - margin, floor) - now, high + margin - now
    said[_TREND], said[_ARIMA] = trend - now, arima - now
    said[_REGRESSION] = (learned.theta * said[:FEATURES]).sum(axis=0)
    bounded = said[_TREND:_MEAN]
    np.minimum(np.maximum(bounded, bottom), top, out=bounded)
    guesses = said[_COLUMN_OF_MEMBER]
    weights = weigh(learned.losses, (guesses != 0.0) | _ALWAYS_SPEAKS)
    mean = (weights * guesses).sum(axis=0)
    unit, least = reach(learned.interval), floor - now
    below, above = learned.interval[BELOW] * unit, learned.interval[ABOVE] * unit
    known = learned.outcomes > 0  # otherwise errors are unknown, so the range seen so far is used
    said[_MEAN], said[_UNIT] = mean, unit
    said[_LOWER] = np.where(known, np.maximum(mean - below, least), np.minimum(low - now, mean))
    said[_UPPER] = np.where(known, np.maximum(mean + above, least), np.maximum(high - now, mean))


def forget_season(anchor: Said, learned: Learned, place: int, stream: int, slot: int) -> None:
    """The season in this slot has changed. `place` is the stream's place in the block, `stream` its row."""
    its = slice(_SEASONAL + slot * _PER_SEASON, _SEASONAL + (slot + 1) * _PER_SEASON)
    anchor.gram[stream, its, :] = 0.0
    anchor.gram[stream, :, its] = 0.0
    anchor.moment[stream, its] = 0.0
    anchor.said[stream, :, its] = 0.0
    learned.theta[its, place] = 0.0
