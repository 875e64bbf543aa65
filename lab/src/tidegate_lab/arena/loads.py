"""The loads: those of the field's own comparison, and a week with a daily rhythm. Recorded ones: `arena/recorded.py`.

The first six are from the "espa" comparison of autoscalers (DEBS 2024): 140 minutes, one value per minute. Whatever the
unit, a load is scaled so that its largest value needs the setting's number of executors.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from tidegate.domain import InvalidInput
from tidegate.load import Steps

Floats = npt.NDArray[np.float64]

MINUTES = 140
_DAY_MINUTES = 1440


@dataclass(frozen=True)
class ArenaLoad:
    """Values in any unit, each held for `step_s` recorded seconds, played `compress` times as fast.

    >>> load = ArenaLoad("two", np.array([1.0, 4.0]), step_s=60.0, compress=2.0)
    >>> load.duration_s, load.profile(peak_rows_per_s=100.0).rates
    (60.0, (25.0, 100.0))
    """

    name: str
    values: Floats
    step_s: float = 60.0
    seed: int = 0
    compress: float = 1.0

    def __post_init__(self) -> None:
        if not len(self.values) or not np.max(self.values) > 0:
            raise InvalidInput(f"load {self.name}: has no value above 0")
        if not self.compress > 0:
            raise InvalidInput(f"load {self.name}: --compress must be above 0, not {self.compress}")

    @property
    def played_step_s(self) -> float:
        return self.step_s / self.compress

    @property
    def duration_s(self) -> float:
        """In seconds of the run."""
        return len(self.values) * self.played_step_s

    def rates(self, peak_rows_per_s: float) -> Floats:
        return np.asarray(self.values * (peak_rows_per_s / float(np.max(self.values))))

    def profile(self, peak_rows_per_s: float) -> Steps:
        return Steps(rates=tuple(self.rates(peak_rows_per_s).tolist()), step_s=self.played_step_s)


@dataclass(frozen=True, slots=True)
class Shape:
    """The comparison's parameters for a query, in events per second."""

    mean: float
    divergence: float
    noise: float
    reach: float
    """Scale of the increasing load: approximately its final value."""


SHAPES = {
    "q1": Shape(150_000, 100_000, 10_000, 240_000),
    "q3": Shape(50_000, 25_000, 10_000, 75_000),
    "q11": Shape(30_000, 15_000, 10_000, 150_000),
}
"""Queries that are not in the comparison use the parameters of query 1."""
_WALK_STEP = 10_000
_SPIKE_CHANCE = 0.05


def _cosine(shape: Shape, random: np.random.Generator) -> Floats:
    minutes = np.arange(MINUTES)
    wave = shape.mean + shape.divergence * np.cos(2 * np.pi * minutes / 60)
    return np.asarray(wave + random.uniform(-shape.noise, shape.noise, MINUTES))


def _random_walk(shape: Shape, random: np.random.Generator) -> Floats:
    return np.asarray(shape.mean + np.cumsum(random.uniform(-_WALK_STEP, _WALK_STEP, MINUTES)))


def _increase(shape: Shape, random: np.random.Generator) -> Floats:
    steps = random.uniform(-shape.reach / 30, shape.reach / 22, MINUTES)
    return np.asarray(2_000 + np.cumsum(steps))


def _decrease(shape: Shape, random: np.random.Generator) -> Floats:
    return _increase(shape, random)[::-1].copy()


def _spikes(shape: Shape, random: np.random.Generator) -> Floats:
    values = _cosine(shape, random)
    minute = 0
    while minute < MINUTES:
        if random.random() >= _SPIKE_CHANCE:
            minute += 1
            continue
        length = int(random.integers(1, 4))
        height = random.uniform(shape.divergence / 2, shape.divergence) * random.choice([-1.0, 1.0])
        values[minute : minute + length] += height
        minute += length
    return values


def _convergence(shape: Shape, random: np.random.Generator) -> Floats:
    """0, s, 2s, s for one, two, two and two sevenths of the time."""
    level = shape.mean / 2
    seventh = MINUTES // 7
    levels = np.repeat([0.0, level, 2 * level, level], [seventh, 2 * seventh, 2 * seventh, 2 * seventh])
    return np.asarray(levels + random.uniform(-level / 10, level / 10, MINUTES))


def _week(shape: Shape, random: np.random.Generator) -> Floats:
    """Seven days: quiet nights, a long morning, an evening peak, lower and later weekends, and noise by the minute."""
    minutes = np.arange(7 * _DAY_MINUTES)
    hour = (minutes % _DAY_MINUTES) / 60
    weekend = minutes // _DAY_MINUTES >= 5
    late = np.where(weekend, 1.5, 0.0)
    morning = np.exp(-(((hour - 10.5 - late) / 3.5) ** 2))
    evening = np.exp(-(((hour - 20 - late / 2) / 1.8) ** 2))
    day = 0.12 + 0.55 * morning + 0.8 * evening * np.where(weekend, 0.75, 1.0)
    slow = np.repeat(random.lognormal(0.0, 0.08, len(minutes) // 30), 30)
    quick = random.lognormal(0.0, 0.05, len(minutes))
    return np.asarray(day * slow * quick)


_MADE: dict[str, Callable[[Shape, np.random.Generator], Floats]] = {
    "cosine": _cosine,
    "random-walk": _random_walk,
    "increase": _increase,
    "decrease": _decrease,
    "spikes": _spikes,
    "convergence": _convergence,
    "week": _week,
}
MADE = tuple(_MADE)
FIELD = MADE[:6]
"""The loads of the comparison."""


def made(name: str, query: str = "q1", seed: int = 0, compress: float = 1.0) -> ArenaLoad:
    """A synthetic load. The seed determines its noise.

    >>> load = made("cosine", seed=3)
    >>> load.duration_s, bool(0 <= load.values.min() < load.values.max() < 260_000)
    (8400.0, True)
    """
    if name not in _MADE:
        raise InvalidInput(f"there is no load {name!r}; there are {', '.join(MADE)}, and CSV files")
    random = np.random.default_rng([seed, MADE.index(name)])
    values = _MADE[name](SHAPES.get(query, SHAPES["q1"]), random)
    return ArenaLoad(name, np.maximum(0.0, values), 60.0, seed, compress)


def part_of(load: ArenaLoad, first_s: float, lasts_s: float, name: str) -> ArenaLoad:
    """A part of a recorded load, in recorded seconds."""
    first, count = round(first_s / load.step_s), round(lasts_s / load.step_s)
    return replace(load, name=name, values=load.values[first : first + count])
