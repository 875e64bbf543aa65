"""Load that moves across regions through the day: a recorded or synthetic total, split by the hour, counted in rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tidegate.adapters.sim.fleet_kernel import Floats

DAY_S = 86_400


def regional_shares(seconds: int, regions: int, wander: float, noon_s: float = 54_000.0) -> Floats:
    """region × second: `s_r(t) = (1 + a·cos(2π(t − noon)/day − 2πr/R)) ÷ R`; the shares of every second sum to 1.

    >>> bool(np.allclose(regional_shares(DAY_S, 3, wander=0.6).sum(axis=0), 1))
    True
    """
    t = np.arange(seconds)
    phase = 2 * np.pi * np.arange(regions)[:, None] / regions
    shares: Floats = (1 + wander * np.cos(2 * np.pi * (t - noon_s) / DAY_S - phase)) / regions
    return shares


def per_second(per_minute: Sequence[float] | Floats, top_rows_per_s: float) -> Floats:
    """Rows per second between minute means, scaled so that 0.5 % of the minutes exceed `top_rows_per_s`."""
    minutes = np.asarray(per_minute, dtype=np.float64)
    scaled = minutes * top_rows_per_s / np.quantile(minutes, 0.995)
    rates: Floats = np.interp(np.arange(60 * len(minutes)), 60 * np.arange(len(minutes)) + 30, scaled)
    return rates


def made_up_days(days: int, rng: np.random.Generator) -> Floats:
    """Per minute: a daily sinusoid with autocorrelated noise and varying daily peaks. Used if there is no trace."""
    minutes = np.arange(days * DAY_S // 60)
    daily = 1 + 0.6 * np.sin(2 * np.pi * (minutes / 1440 - 0.375))
    height = np.repeat(rng.uniform(0.85, 1.15, days), 1440)
    noise, shocks = np.zeros(len(minutes)), rng.normal(0, 0.06, len(minutes))
    for i in range(1, len(minutes)):
        noise[i] = 0.6 * noise[i - 1] + shocks[i]
    rates: Floats = np.maximum(0.05, daily * height * (1 + noise))
    return rates


def arrivals(rates: Floats, rng: np.random.Generator) -> Floats:
    """Rows in every second, Poisson around their rates."""
    rows: Floats = rng.poisson(rates).astype(np.float64)
    return rows
