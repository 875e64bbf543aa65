"""The usual rate by hour of the week, and how far it can be trusted: a week of minutes in 168 numbers.

The guide for a time t is the profile at t plus the current deviation from it, which decays over an hour. Once an hour,
guide and bank are judged by what they predicted for that hour an hour before, and weighted like a bank's members.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tidegate.evaluate.forecast.rows import Floats, Ints, Layout

HOUR_S = 3600.0
HOURS = 168
_LEAST_PACE = 0.3
"""Weight of a new week against earlier ones, once there are several."""
_MEMORY = 0.95
"""Discount of running errors: the last 20 hours count."""
GUIDE, BANK = range(2)


class Week(NamedTuple):
    """Columns."""

    hour: Floats
    """The current hour since the epoch; NaN before the first sample."""
    total: Floats
    """Sum and number of its samples so far."""
    samples: Floats
    profile: Floats
    """Mean rate by hour of the week; NaN if never seen."""
    visits: Floats
    said: Floats
    """What guide and bank predicted for this hour when it began; NaN if nothing."""
    losses: Floats
    """Their running squared errors."""
    judged: Floats


WEEK = Layout(
    Week,
    hour=np.nan,
    total=0.0,
    samples=0.0,
    profile=np.full(HOURS, np.nan),
    visits=np.zeros(HOURS),
    said=np.full(2, np.nan),
    losses=np.zeros(2),
    judged=0.0,
)


def count(week: Week, end_s: Floats, length_s: float, rate: Floats) -> Ints:
    """Add the rates of buckets that ended at `end_s`. Returns the streams for which a new hour has begun."""
    hour = np.floor((end_s - 0.5 * length_s) / HOUR_S)
    turned = np.flatnonzero((hour != week.hour) & ~np.isnan(week.hour))
    if len(turned):
        _close(week, turned)
    week.hour[:] = hour
    known = ~np.isnan(rate)
    week.total[known] += rate[known]
    week.samples[:] += known
    return turned


def _close(week: Week, at: Ints) -> None:
    """The hour is over: update the profile and the errors of guide and bank."""
    mean = week.total[at] / np.where(week.samples[at] > 0, week.samples[at], np.nan)
    known = ~np.isnan(mean)
    slot = (week.hour[at] % HOURS).astype(np.int64)
    squares = (week.said[:, at] - mean) ** 2
    judged = ~np.isnan(squares).any(axis=0)
    places = at[judged]
    week.judged[places] += 1
    pace = np.maximum(1 - _MEMORY, 1 / week.judged[places])
    week.losses[:, places] += pace * (squares[:, judged] - week.losses[:, places])
    visits = week.visits[slot, at] + known
    before = week.profile[slot, at]
    share = np.maximum(_LEAST_PACE, 1 / np.maximum(visits, 1))
    learned = np.where(np.isnan(before), mean, before + share * (mean - before))
    week.profile[slot, at] = np.where(known, learned, before)
    week.visits[slot, at] = visits
    week.total[at], week.samples[at] = 0.0, 0.0
    week.said[:, at] = np.nan


def guide(week: Week, from_s: Floats, now: Floats, ahead_s: Floats) -> Floats:
    """The profile `ahead_s` (streams × steps) after `from_s`, shifted by the current deviation from it.

    NaN if those hours were never seen.
    """
    shift = (now - _profile(week, from_s[:, None])[:, 0])[:, None]
    there = _profile(week, from_s[:, None] + ahead_s)
    return np.maximum(there + shift * np.exp(-ahead_s / HOUR_S), 0.0)


def belief(week: Week) -> Floats:
    """The weight of the guide against the bank: (least ÷ own squared error)⁴, normalised; 0 while not judged."""
    least = np.maximum(week.losses.min(axis=0), 1e-30)
    ratio = (least / np.maximum(week.losses, 1e-30)) ** 4
    return np.where(week.judged > 0, ratio[GUIDE] / ratio.sum(axis=0), 0.0)


def _profile(week: Week, time_s: Floats) -> Floats:
    """The profile, interpolated between the middles of the hours."""
    position = time_s / HOUR_S - 0.5
    first = np.floor(position)
    share = position - first
    streams = np.arange(len(time_s))[:, None]
    at = (first % HOURS).astype(np.int64)
    before, after = week.profile[at, streams], week.profile[(at + 1) % HOURS, streams]
    after = np.where(np.isnan(after), before, after)
    return np.asarray((1 - share) * before + share * after)
