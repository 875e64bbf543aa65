"""Four views of a series, the surprise of each against its own history, and the resulting alarm.

The level is the sample itself. The drift is the mean of the last few samples. The spread is their standard deviation: a
series that becomes erratic or flat is abnormal even at a normal level. The season is the recent mean distance from the
usual value at this hour of the day. Each view keeps only its own sliding history, so none needs to know the range, unit
or distribution of the series. The views are combined by their root mean square: one very surprising view is enough, and
so are several moderately surprising ones.
"""

from __future__ import annotations

import math

import numpy as np

from tidegate.accelerate import kernel
from tidegate.evaluate.abnormality.detector import Floats, Ints
from tidegate.evaluate.abnormality.sortedhistory import (
    RESOLUTION,
    insert_sorted,
    ordered_sum,
    replace_sorted,
    spread,
    surprise,
)

VIEWS = 4
LEVEL, DRIFT, SPREAD, SEASON = range(VIEWS)
DRIFT_ROWS = 24
SPREAD_ROWS = 48
SEASON_ROWS = 24
RECENT_ROWS = 48
"""The longest window of any view, in samples."""

DAY_S = 86_400.0
DAY_BINS = 24
PROFILE_RATE = 0.05
"""Weight of a sample in the mean of its hour of the day."""

FEWEST_ROWS = 50
"""A view with a shorter history does not count."""

ALARM = 4.5
"""Joint surprise at which the score is one half. In root mean square, one in e^4.5 = 90 samples is as far out."""
FATIGUE_ROWS = 150.0
"""After an alarm the bar is twice as high and decays over this many rows: one alarm per episode, unless it worsens."""

# Indices in the vector of numbers that change with every sample.
FIRST_S, TIRED, STRANGE = range(3)
SCALARS = 3


@kernel
def observe_view(ordered: Floats, history: Floats, counts: Ints, view: int, value: float, level: float) -> float:
    """The two-sided surprise of a view's value. The value then joins the view's history."""
    count = counts[view]
    capacity = history.shape[1]
    found = 0.0
    filled = min(count, capacity)
    if count >= FEWEST_ROWS:
        known = ordered[view, :filled]
        found = surprise(known, value, RESOLUTION * spread(known, level))
    slot = count % capacity
    if count < capacity:
        insert_sorted(ordered[view], filled, value)
    else:
        replace_sorted(ordered[view], history[view, slot], value)
    history[view, slot] = value
    counts[view] = count + 1
    return found


@kernel
def observe_season(profile: Floats, visits: Ints, value: float, since_first_s: float, time_s: float) -> float:
    """Distance from the mean of this hour of the day, or NaN during the first day. The sample is then learned."""
    hour = min(DAY_BINS - 1, int((time_s % DAY_S) / DAY_S * DAY_BINS))  # a remainder may round up to a whole day
    known = since_first_s >= DAY_S and visits[hour] > 0
    distance = value - profile[hour] if known else np.nan
    visits[hour] += 1
    profile[hour] += max(PROFILE_RATE, 1.0 / visits[hour]) * (value - profile[hour])
    return float(distance)


@kernel
def push(recent: Floats, value: float) -> None:
    """Append the newest number and drop the oldest."""
    recent[:-1] = recent[1:].copy()
    recent[-1] = value


@kernel
def mean_of(recent: Floats) -> float:
    """Summed again for every sample, so that rounding errors do not accumulate."""
    return ordered_sum(recent) / len(recent)


@kernel
def deviation_of(recent: Floats) -> float:
    """Standard deviation."""
    distance = recent - mean_of(recent)
    return math.sqrt(ordered_sum(distance * distance) / len(recent))


@kernel
def observe(
    value: float,
    time_s: float,
    threshold: float,
    scalars: Floats,
    recent: Floats,
    ordered: Floats,
    history: Floats,
    counts: Ints,
    profile: Floats,
    visits: Ints,
) -> float:
    """Score one sample in [0, 1]. `time_s` is NaN if unknown. All arrays are the detector's state."""
    push(recent[0], value)
    seen = counts[LEVEL] + 1
    level = mean_of(recent[0, -min(seen, RECENT_ROWS) :])
    drift = mean_of(recent[0, -min(seen, DRIFT_ROWS) :])
    deviation = deviation_of(recent[0, -min(seen, SPREAD_ROWS) :])
    squares = observe_view(ordered, history, counts, LEVEL, value, level) ** 2
    squares += observe_view(ordered, history, counts, DRIFT, drift, level) ** 2
    squares += observe_view(ordered, history, counts, SPREAD, deviation, level) ** 2
    speaking = 3
    if not np.isnan(time_s):
        if np.isnan(scalars[FIRST_S]):
            scalars[FIRST_S] = time_s
        distance = observe_season(profile, visits, value, time_s - scalars[FIRST_S], time_s)
        if not np.isnan(distance):
            push(recent[1], distance)
            mean_distance = mean_of(recent[1, -min(counts[SEASON] + 1, SEASON_ROWS) :])
            squares += observe_view(ordered, history, counts, SEASON, mean_distance, level) ** 2
            if counts[SEASON] > FEWEST_ROWS:
                speaking = VIEWS
    mean_square = squares / speaking
    scalars[STRANGE] = mean_square / (mean_square + ALARM**2)
    scalars[TIRED] *= math.exp(-1.0 / FATIGUE_ROWS)
    score = mean_square / (mean_square + (ALARM * (1.0 + scalars[TIRED])) ** 2)
    # An alarm raises the bar for later ones, so whether a row is an alarm must not depend on the last digit. Alarms
    # score above one half and all others below, so any threshold between them gives the same alarms.
    if score < threshold:
        return float(score / 2.0)
    scalars[TIRED] += 1.0
    return float((1.0 + score) / 2.0)


@kernel
def observe_all(
    values: Floats,
    times_s: Floats,
    threshold: float,
    scalars: Floats,
    recent: Floats,
    ordered: Floats,
    history: Floats,
    counts: Ints,
    profile: Floats,
    visits: Ints,
) -> Floats:
    """`observe` over a whole series."""
    scores = np.empty(len(values))
    for row in range(len(values)):
        scores[row] = observe(
            values[row], times_s[row], threshold, scalars, recent, ordered, history, counts, profile, visits
        )
    return scores
