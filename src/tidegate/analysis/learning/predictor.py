"""Predicts one metric some samples ahead, learns online, and tracks its own accuracy."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite

import numpy as np

from tidegate.analysis.learning.ensemble import Ensemble
from tidegate.analysis.learning.features import FeatureMaker
from tidegate.analysis.learning.learners import DEFAULT, Features, Learner
from tidegate.analysis.learning.recursion import HELPFUL, NEEDED
from tidegate.analysis.learning.validation import ProgressiveScore
from tidegate.history.metrictable import Floats, MetricTable

_TOLERATED, _THRESHOLD = 0.3, 20.0  # in units of the usual error: tolerated change, threshold of its sum
_SINCE = 10  # samples assumed to be after the drift when it is detected
_USUAL, _MOST_RELATIVE = 0.01, 6.0
_REST = 30  # samples after a drift in which no other is detected


@dataclass(frozen=True, slots=True)
class LearnedPrediction:
    """A prediction `horizon` samples ahead; not usable if repeating the last value is more accurate."""

    value: float
    last_value: float
    usable: bool

    @property
    def best(self) -> float:
        """The value to use."""
        return self.value if self.usable else self.last_value


@dataclass(frozen=True, slots=True)
class _Pending:
    features: Features
    level: float
    predicted: float
    last_value: float
    abnormal: bool


class Predictor:
    """An ensemble on the change of the target, `horizon` samples ahead, with drift detection.

    Abnormal samples are used for predictions but not for learning, neither as features nor as targets.

    >>> predictor = Predictor("y", (), horizon=1)
    >>> wave = [10.0 + (step % 2) for step in range(200)]
    >>> predictions = [predictor.step({"y": value}) for value in wave]
    >>> predictor.score.usable, round(predictions[-1].value)
    (True, 10)
    """

    def __init__(
        self,
        target: str,
        metrics: Sequence[str],
        horizon: int = 3,
        learners: Mapping[str, Callable[[], Learner]] | None = None,
    ) -> None:
        if horizon < 1:
            raise ValueError(f"the horizon must be at least 1 sample, not {horizon}")
        self.target, self.horizon = target, horizon
        self.score = ProgressiveScore()
        self.drifts: list[int] = []
        self.samples = 0
        self._maker = FeatureMaker(target, metrics, horizon)
        self._ensemble = Ensemble(DEFAULT if learners is None else learners)
        # Page and Hinkley's test, only for increasing errors: learning also changes errors.
        from river import drift

        self._detector = drift.PageHinkley(
            min_instances=20, delta=_TOLERATED, threshold=_THRESHOLD, alpha=1.0, mode="up"
        )
        self._pending: deque[_Pending] = deque()
        self._features: Features | None = None
        self._usual_error = 0.0

    def step(self, sample: Mapping[str, float], *, abnormal: bool = False) -> LearnedPrediction | None:
        """Process a sample: score the prediction made for it and make the next. None if the target was not measured."""
        value = sample.get(self.target)
        if value is None or not isfinite(value):
            return None
        # Running means must not include an abnormal sample either, so the features stay unchanged.
        features = self._features if abnormal else self._maker.step(sample)
        if features is None:
            return None
        self._features = features
        self.samples += 1
        level = self._maker.scale.of(value)
        if len(self._pending) == self.horizon:
            self._settle(self._pending.popleft(), value, level, abnormal)
        scale = self._maker.scale
        predicted = scale.back(features["level"] + self._ensemble.predict_one(features)) if scale.settled else value
        self._pending.append(_Pending(features, level, predicted, value, abnormal))
        return LearnedPrediction(predicted, value, self.score.usable)

    def weights(self) -> dict[str, float]:
        """Return the current weights of the learners."""
        return self._ensemble.weights()

    def _relative(self, error: float) -> float:
        """Return an error in units of the usual error, at most 6, so that one outlier is not a drift."""
        usual = self._usual_error or error
        self._usual_error = usual + _USUAL * (error - usual)
        return min(_MOST_RELATIVE, error / usual) if usual > 0 else 0.0

    def _settle(self, made: _Pending, value: float, level: float, abnormal: bool) -> None:
        if not self._maker.scale.settled:
            return
        self.score.add(made.predicted, made.last_value, value)
        if abnormal or made.abnormal:
            return
        self._ensemble.learn_one(made.features, level - made.level)
        self._detector.update(self._relative(abs(self._maker.scale.of(made.predicted) - level)))  # type: ignore[no-untyped-call]
        rested = not self.drifts or self.samples - self.drifts[-1] > _REST
        if self._detector.drift_detected and rested:
            self.drifts.append(self.samples)
            self._ensemble.renew(keep=_SINCE)


@dataclass(frozen=True, slots=True, eq=False)
class Replay:
    """The predictions that a predictor would have made during a recorded run."""

    target: str
    horizon: int
    metrics: tuple[str, ...]
    score: ProgressiveScore
    drifts: tuple[int, ...]
    """Samples at which a drift was detected."""
    predicted: Floats
    """By sample, the prediction made for it; NaN if there was none."""
    weights: dict[str, float] = field(default_factory=dict)


def replay(
    table: MetricTable,
    target: str,
    metrics: Sequence[str],
    horizon: int = 3,
    abnormal: np.ndarray[tuple[int], np.dtype[np.bool_]] | None = None,
    learners: Mapping[str, Callable[[], Learner]] | None = None,
) -> Replay:
    """Run a predictor over a history, sample by sample, as it would have run live."""
    predictor = Predictor(target, metrics, horizon, learners)
    predicted = np.full(len(table), np.nan)
    chosen = tuple(name for name in metrics if name != target)
    used = tuple(dict.fromkeys((target, *chosen, *(name for name in (*NEEDED, *HELPFUL) if name in table.names))))
    columns = [table.column(name) for name in used]
    measured = np.flatnonzero(np.isfinite(columns[0]))
    for at, row in enumerate(measured):
        sample = {name: float(column[row]) for name, column in zip(used, columns, strict=True)}
        sample["time_s"] = float(table.times_s[row])
        made = predictor.step(sample, abnormal=abnormal is not None and bool(abnormal[row]))
        if made is not None and at + horizon < len(measured):
            predicted[measured[at + horizon]] = made.value
    return Replay(target, horizon, chosen, predictor.score, tuple(predictor.drifts), predicted, predictor.weights())
