"""Finds seasons: peaks of the autocorrelation, and whether a given season shows in the samples."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tidegate.evaluate.forecast.rows import Floats

LEAST_SAMPLES = 48
_OUTER = 0.005  # samples beyond these quantiles are clipped: a few spikes would hide every season
_WEAK = 0.1  # minimum autocorrelation of a season
_GIVEN_WEAK = 0.05  # … if it was given
_GIVEN_BONUS = 1.1  # a calendar season wins over a detected one that is about as good
_SAME = 0.04  # two lags closer than this are one season


def find_seasons(history: Floats, given: Sequence[int] = ()) -> tuple[int, int]:
    """The shortest season that explains nearly as much as the best, and a longer one; 0 if there is none.

    `given` are likely lags (a day, a week). They are accepted on weaker evidence. One that has been seen once but
    cannot be judged yet is assumed if nothing else is known.

    >>> hours = np.arange(24 * 14)
    >>> find_seasons(np.sin(2 * np.pi * hours / 24))
    (24, 0)
    """
    samples = len(history)
    if samples < LEAST_SAMPLES:
        return 0, 0
    correlation = _autocorrelation(history)
    if correlation is None:
        return 0, 0
    assumed = min((lag for lag in given if lag <= samples and 4 * lag + 60 > 3 * samples and lag > 1), default=0)
    need = max(_WEAK, 3 / samples**0.5)
    strength = {lag: float(correlation[lag]) for lag in prominent_peaks(correlation[: samples // 2], need) if lag > 1}
    likely = [lag for lag in given if 4 * lag + 60 <= 3 * samples and lag > 1]
    for lag in likely:
        same = [peak for peak in strength if abs(peak - lag) <= _SAME * lag]
        best = max([float(correlation[lag])] + [strength.pop(peak) for peak in same])
        if best > _GIVEN_WEAK:
            strength[lag] = best * _GIVEN_BONUS
    if not strength:
        return assumed, 0
    enough = 0.8 * max(strength.values())
    short = min(lag for lag, value in strength.items() if value >= enough)
    short = max((lag for lag in strength if short <= lag <= 1.1 * short + 1), key=strength.__getitem__)
    rest = [
        lag for lag in strength if lag >= 1.8 * short and strength[lag] >= _worth(lag, short, likely) * strength[short]
    ]
    if rest:
        return short, max(rest, key=strength.__getitem__)
    return short, assumed if assumed >= 1.8 * short else 0


def prominent_peaks(curve: Floats, need: float) -> list[int]:
    """Local maxima of at least `need` that also stand out by `need`: on both sides the curve falls by this much before
    it rises above them or ends.

    >>> prominent_peaks(np.array([0.0, 3.0, 1.0, 1.5, 0.0, 2.0, 0.0]), 1.0)
    [1, 5]
    """
    rises = np.diff(curve) > 0
    tops = np.flatnonzero(rises[:-1] & ~rises[1:]) + 1
    if len(tops) == 0:
        return []
    # The lowest point before each top, between neighbours, and after the last one.
    valleys = np.minimum.reduceat(curve, np.concatenate([[0], tops]))
    heights = curve[tops].tolist()
    left = _falls(heights, valleys[:-1].tolist())
    right = _falls(heights[::-1], valleys[:0:-1].tolist())[::-1]
    standing = zip(tops.tolist(), heights, left, right, strict=True)
    return [top for top, height, before, after in standing if height >= need and min(before, after) >= need]


def _falls(heights: list[float], valleys: list[float]) -> list[float]:
    """How far the curve falls before each top, back to the last higher one. `valleys[i]` lies before top i."""
    falls: list[float] = []
    higher: list[tuple[float, float]] = []  # tops not exceeded since, and the lowest point before each
    for height, lowest in zip(heights, valleys, strict=True):
        while higher and higher[-1][0] <= height:
            lowest = min(lowest, higher.pop()[1])
        falls.append(height - lowest)
        higher.append((height, lowest))
    return falls


def _worth(lag: int, short: int, likely: Sequence[int]) -> float:
    """How strong a longer season must be relative to the short one, whose multiples correlate as well."""
    if lag in likely:
        return 0.3
    return 1.05 if abs(lag / short - round(lag / short)) * short <= max(1.0, _SAME * short) else 0.9


def _autocorrelation(history: Floats) -> Floats | None:
    """Autocorrelation of the detrended values, by the Wiener–Khinchin theorem; None for a constant.

    Divided by √(N(N − lag)): the usual biased estimate hides long seasons, the unbiased one makes them noisy.
    """
    samples = len(history)
    outer = int(_OUTER * samples)
    ranked = np.partition(history, (outer, samples - 1 - outer))
    values = np.clip(history, ranked[outer], ranked[samples - 1 - outer])
    flat = values - values.mean()
    clock = np.arange(samples) - (samples - 1) / 2
    flat -= clock * (float(flat @ clock) / float(clock @ clock))
    energy = float(flat @ flat)
    if not energy > 1e-18 * max(float(values @ values), 1e-300):
        return None
    spectrum = np.fft.rfft(flat, 1 << (2 * samples - 1).bit_length())
    correlation: Floats = np.fft.irfft(spectrum.real**2 + spectrum.imag**2)[:samples] / energy
    return correlation / np.sqrt(1 - np.arange(samples) / samples)
