"""Models that learn one sample at a time, behind one small protocol.

River's models get standardised features, clipped at four deviations, so that one outlier cannot spoil a linear model
permanently. Trees and forests predict the mean of their leaves. River's default, linear models in the leaves, diverges
on metrics that jump by orders of magnitude.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from river import base

Features = Mapping[str, float]
_CLIP = 4.0
_PRIOR_SAMPLES = 1.0


class Learner(Protocol):
    """The protocol of all models."""

    def predict_one(self, features: Features) -> float:
        """Predict the target from the current features."""
        ...

    def learn_one(self, features: Features, target: float) -> None:
        """Learn the target that followed earlier features."""
        ...


class RiverLearner:
    """A River regressor with its own scaler.

    >>> from river import linear_model
    >>> learner = RiverLearner(linear_model.BayesianLinearRegression())
    >>> for x in range(400):
    ...     learner.learn_one({"x": x % 7}, 2.0 * (x % 7) + 1.0)
    >>> round(learner.predict_one({"x": 3}))
    7
    """

    def __init__(self, model: base.Regressor) -> None:
        from river import preprocessing

        self._scaler = preprocessing.StandardScaler()
        self._model = model

    def predict_one(self, features: Features) -> float:
        predicted = float(self._model.predict_one(self._scaled(features)) or 0.0)
        return predicted if abs(predicted) < 1e12 else 0.0

    def learn_one(self, features: Features, target: float) -> None:
        self._scaler.learn_one(dict(features))  # type: ignore[no-untyped-call]
        self._model.learn_one(self._scaled(features), target)

    def _scaled(self, features: Features) -> dict[Any, Any]:
        scaled: dict[Any, float] = self._scaler.transform_one(dict(features))  # type: ignore[no-untyped-call]
        clipped: dict[Any, Any] = {name: min(_CLIP, max(-_CLIP, value)) for name, value in scaled.items()}
        return clipped | {"1": 1.0}  # a constant feature serves as the intercept


class Corrected:
    """Learns the residual of a feature. With little data, the feature itself is the prediction."""

    def __init__(self, feature: str, learner: Learner) -> None:
        self._feature, self._learner = feature, learner

    def predict_one(self, features: Features) -> float:
        return features.get(self._feature, 0.0) + self._learner.predict_one(features)

    def learn_one(self, features: Features, target: float) -> None:
        self._learner.learn_one(features, target - features.get(self._feature, 0.0))


class Reading:
    """Predicts one feature times a factor, without learning. Hard to beat, and never far off."""

    def __init__(self, feature: str | None, factor: float = 1.0) -> None:
        self._feature, self._factor = feature, factor

    def predict_one(self, features: Features) -> float:
        return 0.0 if self._feature is None else self._factor * features.get(self._feature, 0.0)

    def learn_one(self, features: Features, target: float) -> None:
        """Nothing to learn."""


def linear(forgetting: float) -> RiverLearner:
    """Bayesian linear regression that forgets: recursive least squares with a prior.

    River then weights a new sample by `1 − forgetting` and starts from a precision of 1 / alpha. alpha is chosen so
    that
    the prior counts as one sample.
    """
    from river import linear_model

    alpha = 1.0 / (_PRIOR_SAMPLES * (1.0 - forgetting))
    return RiverLearner(linear_model.BayesianLinearRegression(alpha=alpha, beta=1.0, smoothing=forgetting))


def _recursion(assumption: str) -> Callable[[], Learner]:
    return lambda: Reading(f"recursion, {assumption}")


def _tree() -> Learner:
    from river import tree

    return RiverLearner(tree.HoeffdingAdaptiveTreeRegressor(grace_period=40, leaf_prediction="mean", seed=1))


def _forest() -> Learner:
    from river import forest

    return RiverLearner(forest.ARFRegressor(n_models=3, grace_period=40, leaf_prediction="mean", seed=1))


def _neighbours() -> Learner:
    from river import neighbors

    return RiverLearner(neighbors.KNNRegressor(n_neighbors=5, engine=neighbors.LazySearch(window_size=100)))


LEARNERS: dict[str, Callable[[], Learner]] = {
    "last-value": lambda: Reading(None),
    "short-mean": lambda: Reading("to_short_mean"),
    "long-mean": lambda: Reading("to_long_mean"),
    "recursion-last": _recursion("last"),
    "recursion-steady": _recursion("steady"),
    "recursion-drifting": _recursion("drifting"),
    "linear": lambda: linear(0.995),
    "corrected-recursion": lambda: Corrected("recursion, steady", linear(0.995)),
    "tree": _tree,
    "forest": _forest,
    "neighbours": _neighbours,
}
DEFAULT = {name: make for name, make in LEARNERS.items() if name != "forest"}
"""All learners except the forest, which takes as much time as all others together without improving the result."""
