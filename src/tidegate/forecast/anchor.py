"""One step ahead that is learned directly: members, regressions, their blend and its interval, for every stream.

A forecast for `ahead` steps is judged `ahead` samples later, so what was said waits in rings of that length: the slot
that is read at a time is the one that is written then.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from tidegate.forecast.blending import MEMORIES, score, weigh
from tidegate.forecast.history import LAGS, PACES, History, median, season_mean
from tidegate.forecast.intervals import ABOVE, BELOW, calibrate, empty_intervals, reach
from tidegate.forecast.jit import Bools, Floats, Ints, kernel
from tidegate.forecast.regression import FORGETTING, Regressions, empty_regressions, learn

SEASONS = 2
MEMBERS = (
    "last value",
    *(f"smoothed {pace:g}" for pace in PACES),
    "median",
    "season",
    "seasonal mean",
    "long season",
    "long seasonal mean",
    "arima",
    *(f"regression {memory:g}" for memory in FORGETTING),
)
_MEDIAN = 1 + len(PACES)
_SEASONAL = _MEDIAN + 1
_ARIMA = _SEASONAL + 2 * SEASONS
_REGRESSION = _ARIMA + 1
_PER_SEASON = 4
SEASON_FEATURES = LAGS + len(PACES)
FEATURES = SEASON_FEATURES + _PER_SEASON * SEASONS
_MEAN, _LOWER, _UPPER, _UNIT = range(4)
_MARGIN = 0.1  # of the range seen so far: forecasts stay within it
_YOUNG = 30  # outcomes before a forecast can be trusted
_WIDE = 100  # seasonal means take in a hundredth of a season to either side


class Anchor(NamedTuple):
    """State for one step; rings are time × streams, the rest is arrays over streams."""

    features: Floats
    base: Floats
    """The last sample when a forecast was made; NaN where none was."""
    guesses: Floats
    issued: Floats
    """Mean, lower, upper and the unit of the interval, as they were forecast."""
    regressions: Regressions
    losses: Floats
    """Running squared errors, memories × members."""
    judged: Ints
    """Outcomes per member."""
    blend_loss: Floats
    weights: Floats
    intervals: Floats
    outcomes: Ints


def empty_anchor(streams: int, ahead: int, coverage: float) -> Anchor:
    return Anchor(
        features=np.zeros((ahead, streams, FEATURES)),
        base=np.full((ahead, streams), np.nan),
        guesses=np.full((ahead, streams, len(MEMBERS)), np.nan),
        issued=np.full((ahead, streams, 4), np.nan),
        regressions=empty_regressions(streams, FEATURES),
        losses=np.full((streams, len(MEMORIES), len(MEMBERS)), np.nan),
        judged=np.zeros((streams, len(MEMBERS)), dtype=np.int64),
        blend_loss=np.zeros(streams),
        weights=np.zeros((streams, len(MEMBERS))),
        intervals=empty_intervals(streams, coverage),
        outcomes=np.zeros(streams, dtype=np.int64),
    )


def trusted(anchor: Anchor) -> Bools:
    """Where the blend has beaten the last value lately, over enough outcomes."""
    return (anchor.outcomes >= _YOUNG) & (anchor.blend_loss < anchor.losses[:, -1, 0])


@kernel
def step(
    anchor: Anchor, history: History, time: int, values: Floats, seasons: Ints, arima: Floats, alpha: float
) -> None:
    """Learn from the samples of `time` (NaN: missing), already remembered in `history`, and forecast anew."""
    features, base, guesses, issued = anchor.features, anchor.base, anchor.guesses, anchor.issued
    losses, weights, intervals = anchor.losses, anchor.weights, anchor.intervals
    outcomes, regressions, blend_loss = anchor.outcomes, anchor.regressions, anchor.blend_loss
    judged = anchor.judged
    began, recent, spread, theta = history.began, history.recent, history.spread, anchor.regressions.theta
    smooth, ordered = history.smooth, history.ordered
    ahead = base.shape[0]
    slot = time % ahead
    factor = np.empty((FEATURES, FEATURES))
    for s in range(values.shape[0]):
        if began[s] < 0:
            continue
        x, guess, said, tails = features[slot, s], guesses[slot, s], issued[slot, s], intervals[s]
        last_base, value = base[slot, s], values[s]
        if not (math.isnan(value) or math.isnan(last_base)):
            outcomes[s] += 1
            samples = outcomes[s]
            learn(regressions, s, x, value - last_base, samples, factor)
            score(losses[s], judged[s], guess, value)
            pace = max(1.0 - MEMORIES[-1], 1.0 / samples)
            blend_loss[s] += pace * ((said[_MEAN] - value) ** 2 - blend_loss[s])
            calibrate(tails, value, said[_MEAN], said[_LOWER], said[_UPPER], said[_UNIT], alpha, ahead, samples)
        now = recent[s, 0]
        _describe(history, time, s, seasons[s], ahead, last_base, x)
        guess[0] = now
        for j in range(len(PACES)):
            guess[1 + j] = smooth[s, j]
        guess[_MEDIAN] = median(ordered[s], time - began[s])
        for j in range(SEASONS):
            for k in range(2):
                shift = x[SEASON_FEATURES + _PER_SEASON * j + 2 * k]
                guess[_SEASONAL + 2 * j + k] = now + shift if shift != 0.0 else math.nan
        low, high = spread[s, 0], spread[s, 1]
        margin = _MARGIN * (high - low)
        floor = 0.0 if low >= 0.0 else -math.inf
        low, high = max(low - margin, floor), high + margin
        guess[_ARIMA] = arima[s]
        for r in range(len(FORGETTING)):
            change = 0.0
            for i in range(FEATURES):
                change += theta[s, r, i] * x[i]
            guess[_REGRESSION + r] = min(max(now + change, low), high)
        weigh(losses[s], guess, weights[s])
        mean = 0.0
        for m in range(guess.shape[0]):
            if weights[s, m] > 0.0:
                mean += weights[s, m] * guess[m]
        unit = reach(tails)
        base[slot, s] = now
        said[_MEAN], said[_UNIT] = mean, unit
        if outcomes[s] > 0:
            said[_LOWER] = max(mean - tails[BELOW] * unit, floor)
            said[_UPPER] = max(mean + tails[ABOVE] * unit, floor)
        else:  # nothing is known of errors yet: the range seen so far
            said[_LOWER], said[_UPPER] = min(spread[s, 0], mean), max(spread[s, 1], mean)


@kernel
def _describe(history: History, time: int, s: int, seasons: Ints, ahead: int, last_base: float, x: Floats) -> None:
    """Features of the last sample, all as differences from it: lags, smoothed levels, seasonal means then and now.

    A seasonal mean for now is the one that was made for now, `ahead` samples ago: it is still in `x`. 0 is "unknown".
    """
    sums, began, origin, recent, smooth = (
        history.sums, history.began[s], history.origin[s], history.recent[s], history.smooth[s],
    )  # fmt: skip
    now = recent[0]
    for lag in range(LAGS):
        x[lag] = recent[lag + 1] - now
    for j in range(len(PACES)):
        x[LAGS + j] = smooth[j] - now
    for j in range(SEASONS):
        season = seasons[j]
        wide = max(1, season // _WIDE)
        for k in range(2):
            at = SEASON_FEATURES + _PER_SEASON * j + 2 * k
            made = x[at]
            x[at + 1] = made + last_base - now if made != 0.0 and not math.isnan(last_base) else 0.0
            x[at] = 0.0
            if season > 0:
                mean = season_mean(sums, time, began, s, season, ahead, 0 if k == 0 else wide, 1 if k == 0 else 4)
                if not math.isnan(mean):
                    x[at] = mean + origin - now
