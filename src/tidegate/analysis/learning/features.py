"""Turns a stream of metrics into features: values, their changes, and the target relative to its means.

Everything is transformed by `asinh(x / unit)`, which is linear near zero and logarithmic above. Latencies and backlogs
grow by factors, and a model of factors that holds at one second also holds at ten.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from math import asinh, isfinite, sinh

from tidegate.analysis.learning.recursion import TARGETS, BatchRecursion

_SHORT, _LONG = 0.4, 0.1  # weights of a new sample in the running means
_BIAS = 0.05
_STEP = 3  # samples over which a change is taken
_FIRST = 10  # samples from which a metric's unit is taken
_UNIT = 0.1  # relative to a metric's typical size
RECURSIVE = ("recursion, last", "recursion, steady", "recursion, drifting")


class Scale:
    """`asinh(x / unit)` and back; the unit is a tenth of the median size of the first samples that are not zero.

    >>> scale = Scale()
    >>> round(scale.back(scale.take(5.0)), 6)
    5.0
    """

    def __init__(self) -> None:
        self._first: list[float] = []
        self._unit = 1.0

    def take(self, value: float) -> float:
        """Transform a value. The first values also determine the unit."""
        if len(self._first) < _FIRST and value:
            self._first.append(abs(value))
            self._unit = max(_UNIT * sorted(self._first)[len(self._first) // 2], 1e-12)
        return self.of(value)

    def of(self, value: float) -> float:
        return asinh(value / self._unit)

    def back(self, value: float) -> float:
        return sinh(max(-40.0, min(40.0, value))) * self._unit

    @property
    def settled(self) -> bool:
        """Return whether the unit is final."""
        return len(self._first) >= _FIRST


class FeatureMaker:
    """Features for predicting one target `horizon` samples ahead from a few metrics."""

    def __init__(self, target: str, metrics: Sequence[str], horizon: int) -> None:
        self.target, self._horizon = target, horizon
        self._metrics = tuple(name for name in metrics if name != target)
        self.scale = Scale()
        self._scales = {name: Scale() for name in self._metrics}
        self._past: deque[dict[str, float]] = deque(maxlen=_STEP + 1)
        self._latest: dict[str, float] = {}
        self._short = self._long = self._slope = 0.0
        self._samples = 0
        self._recursion = BatchRecursion() if target in TARGETS else None
        self._bias = 0.0

    def step(self, sample: Mapping[str, float]) -> dict[str, float] | None:
        """Return the features after a sample; None if the target was not measured. Missing metrics keep their last
        value."""
        value = sample.get(self.target)
        if value is None or not isfinite(value):
            return None
        now = {"level": self.scale.take(value)}
        for name in self._metrics:
            found = sample.get(name)
            if found is not None and isfinite(found):
                self._latest[name] = self._scales[name].take(found)
            now[name] = self._latest.get(name, 0.0)
        before = self._past[-1]["level"] if self._past else now["level"]
        self._follow(now["level"], before)
        self._past.append(now)
        oldest = self._past[0]
        features = dict(now)
        for name in now:
            features[f"{name}, change"] = now[name] - oldest[name]
        features |= {
            "step": now["level"] - before,
            "to_short_mean": self._short - now["level"],
            "to_long_mean": self._long - now["level"],
            "trend": self._slope * self._horizon,
        }
        return features | self._recursive(sample, now["level"])

    def _recursive(self, sample: Mapping[str, float], level: float) -> dict[str, float]:
        """Return the change that the batch recursion predicts, minus its running bias; 0 while it has no data."""
        if self._recursion is None:
            return {}
        self._recursion.step(sample)
        found = dict.fromkeys(RECURSIVE, 0.0)
        if self._recursion.ready:
            self._bias += _BIAS * (level - self.scale.of(self._recursion.now(self.target)) - self._bias)
            for assumption, value in self._recursion.ahead(self.target, self._horizon).items():
                found[f"recursion, {assumption}"] = self.scale.of(value) + self._bias - level
        return found

    def _follow(self, level: float, before: float) -> None:
        self._samples += 1
        # The first samples are averaged evenly, so that a running mean does not start from an arbitrary value.
        short, long = max(_SHORT, 1 / self._samples), max(_LONG, 1 / self._samples)
        self._short += short * (level - self._short)
        self._long += long * (level - self._long)
        self._slope += short * ((level - before) - self._slope)
