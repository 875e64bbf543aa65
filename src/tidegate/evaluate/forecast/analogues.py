"""What followed when the load looked as it does now.

The method of analogues (Lorenz, 1969): of all past moments, those with a similar level and a similar trend are looked
up, and what followed them is what may follow now, scaled to the present level. This needs no model and no season. Where
bursts used to end soon, they are expected to end; where the load moves in steps, a step is expected to last; noise
averages out. Similarity is a Gaussian kernel over logarithms, and older moments count less. A situation that never
occurred has no analogues, and `trust` says so.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tidegate.evaluate.forecast.rows import Floats

_LEVEL, _TREND = 0.25, 0.5
"""Widths of the kernel: a load that differs by a quarter, and a trend that differs by half, is still similar."""
_TREND_STEPS = 12
"""The trend is the present level relative to the mean of this many steps."""
_HALF_LIFE = 360.0
"""In steps: half an hour of buckets of 5 s."""
_WHILE = 6
"""Steps after which persistence is measured: about as long as an executor takes to start."""
_EVERY = 2
"""Every other moment is looked at, because neighbours are almost the same."""
_INDEPENDENT = 4.0
"""Moments closer than this many steps are part of the same event."""
_ENOUGH = 1.0
"""Independent analogues with which half of the trust is earned."""
_LEAST_MOMENTS = 8
_NEGLIGIBLE = 0.01
"""Moments with less than this share of the largest weight are left out."""
_NOISE_FLOOR = 0.03
"""Share of the mean load below which differences in level mean nothing."""
_HEADROOM = 1.1
"""No analogue leads further above everything seen so far."""


@dataclass(frozen=True, slots=True)
class Analogues:
    """Past continuations, scaled to the present: one row per moment, one column per step."""

    paths: Floats
    weights: Floats
    """By moment; they sum to 1."""
    trust: float
    """From 0 to 1: how much evidence there is."""

    @property
    def mean(self) -> Floats:
        return np.asarray(self.weights @ self.paths)

    def quantile(self, share: float) -> Floats:
        """The path whose running total is, at each step, the quantile of the totals of all analogues.

        A queue depends on totals. The quantile of every single step would add up to a load that never occurs.
        """
        totals = np.cumsum(self.paths, axis=1)
        order = np.argsort(totals, axis=0, kind="stable")
        mass = np.cumsum(self.weights[order], axis=0)
        at = np.minimum((mass < share).sum(axis=0), len(order) - 1)
        steps = np.arange(totals.shape[1])
        return np.diff(totals[order[at, steps], steps], prepend=0.0)


def find_analogues(past: Floats, now: float, steps: int) -> Analogues | None:
    """What may follow the level `now` over the next `steps`, given the past, oldest first.

    None if the past is too short or nothing in it resembles the present.

    >>> burst = [100.0] * 30 + [400.0] * 2
    >>> found = find_analogues(np.array(burst * 12), now=400.0, steps=4)  # bursts have always ended soon
    >>> found.mean.round(-2).tolist(), found.trust > 0.5
    ([100.0, 100.0, 100.0, 100.0], True)
    >>> find_analogues(np.array(burst * 12), now=5000.0, steps=4) is None
    True
    """
    moments = np.arange(_TREND_STEPS - 1, len(past) - steps, _EVERY)
    if len(moments) < _LEAST_MOMENTS:
        return None
    floor = _NOISE_FLOOR * float(past.mean()) + 1e-9
    sums = np.concatenate(((0.0,), np.cumsum(past)))
    usual = (sums[moments + 1] - sums[moments + 1 - _TREND_STEPS]) / _TREND_STEPS
    levels = past[moments] + floor
    scale = (now + floor) / levels
    trend = np.log(levels / (usual + floor)) - np.log((now + floor) / (float(past[-_TREND_STEPS:].mean()) + floor))
    distance = (np.log(scale) / _LEVEL) ** 2 + (trend / _TREND) ** 2
    weights = np.exp(-0.5 * distance) * 0.5 ** ((len(past) - 1 - moments) / _HALF_LIFE)
    kept = weights > max(_NEGLIGIBLE * float(weights.max()), 1e-6)
    moments, weights, scale = moments[kept], weights[kept], scale[kept]
    total = float(weights.sum())
    if not total:
        return None
    # Many moments of which one carries all the weight are one, and a hundred that hardly resemble are none.
    evidence = min(total * total / float(weights @ weights), total) * _EVERY / _INDEPENDENT
    followed = np.lib.stride_tricks.sliding_window_view(past, steps)[moments + 1]
    paths = followed * (scale ** _persistence(past, floor))[:, None]
    most = _HEADROOM * max(float(past.max()), now)
    return Analogues(np.minimum(paths, most), weights / total, evidence / (evidence + _ENOUGH))


def _persistence(past: Floats, floor: float) -> float:
    """How much of a deviation from the usual level is left after a while: 0 for noise, 1 for a random walk."""
    levels = np.log(past + floor)
    levels -= levels.mean()
    spread = float(levels @ levels)
    return min(max(float(levels[:-_WHILE] @ levels[_WHILE:]) / spread, 0.0), 1.0) if spread > 0 else 1.0
