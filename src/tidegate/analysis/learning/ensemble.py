"""An ensemble that weights its members by their recent errors."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping

from tidegate.analysis.learning.learners import Features, Learner

_DISCOUNT = 0.97  # discount of a member's error per sample: about the last 33 count
_SHARPNESS = 6.0
_REPLAYED = 40  # samples from which new members start


class Ensemble:
    """Members by name, weighted by `error ** −6` with discounted absolute errors; the weighted mean predicts.

    A member with twice the error of the best has a weight of 1/64, so the ensemble follows the currently best member.
    After a drift (`renew`) the members are replaced by new ones that learn from the last samples.

    >>> from tidegate.analysis.learning.learners import LEARNERS
    >>> ensemble = Ensemble({name: LEARNERS[name] for name in ("last-value", "linear")})
    >>> for x in range(50):
    ...     ensemble.learn_one({"x": x % 5}, float(x % 5))
    >>> max(ensemble.weights(), key=ensemble.weights().get)
    'linear'
    """

    def __init__(self, members: Mapping[str, Callable[[], Learner]]) -> None:
        self._makers = dict(members)
        self._members = {name: make() for name, make in self._makers.items()}
        self._errors = dict.fromkeys(self._makers, 0.0)
        self._mass = 0.0
        self._recent: deque[tuple[Features, float]] = deque(maxlen=_REPLAYED)
        self._largest = 0.0

    def predict_one(self, features: Features) -> float:
        weights = self.weights()
        return sum(weights[name] * self._bounded(member, features) for name, member in self._members.items())

    def learn_one(self, features: Features, target: float) -> None:
        """Score every member's prediction, then let it learn."""
        self._mass = _DISCOUNT * self._mass + 1.0
        for name, member in self._members.items():
            error = abs(self._bounded(member, features) - target)
            self._errors[name] = _DISCOUNT * self._errors[name] + error
            member.learn_one(features, target)
        self._largest = max(self._largest, abs(target))
        self._recent.append((features, target))

    def renew(self, keep: int) -> None:
        """Replace the members after a drift by new ones that learn from the samples since the drift."""
        recent = list(self._recent)[-keep:]
        self._members = {name: make() for name, make in self._makers.items()}
        self._errors = dict.fromkeys(self._makers, 0.0)
        self._mass = 0.0
        self._recent.clear()
        for features, target in recent:
            self.learn_one(features, target)

    def weights(self) -> dict[str, float]:
        """Return the weights of the members, which sum to 1."""
        floor = 1e-9 + 1e-3 * max(self._errors.values(), default=0.0)
        least = min(self._errors.values(), default=0.0) + floor
        raw = {name: (least / (error + floor)) ** _SHARPNESS for name, error in self._errors.items()}
        total = sum(raw.values())
        return {name: weight / total for name, weight in raw.items()}

    def _bounded(self, member: Learner, features: Features) -> float:
        """Return a member's prediction, limited to the largest change seen so far."""
        return max(-self._largest, min(self._largest, member.predict_one(features)))
