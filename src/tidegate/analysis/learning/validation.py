"""Progressive validation: every prediction is scored when its target is known, against repeating the last value."""

from __future__ import annotations

from dataclasses import dataclass

_LEAST_SCORED = 30
_RECENT = 0.98  # discount per sample of the recent errors: about the last 50 count


@dataclass(slots=True)
class ProgressiveScore:
    """Mean absolute errors so far of the model and of the last value."""

    scored: int = 0
    error: float = 0.0
    last_value_error: float = 0.0
    _recent_error: float = 0.0
    _recent_last_value_error: float = 0.0

    def add(self, predicted: float, last_value: float, actual: float) -> None:
        """Add the outcome of one prediction."""
        self.scored += 1
        self.error += abs(predicted - actual)
        self.last_value_error += abs(last_value - actual)
        self._recent_error = _RECENT * self._recent_error + abs(predicted - actual)
        self._recent_last_value_error = _RECENT * self._recent_last_value_error + abs(last_value - actual)

    @property
    def mae(self) -> float | None:
        return self.error / self.scored if self.scored else None

    @property
    def last_value_mae(self) -> float | None:
        return self.last_value_error / self.scored if self.scored else None

    @property
    def gain(self) -> float | None:
        """Share of the last value's error that the model saves; negative if it is worse; None if there is no error to
        save.

        >>> score = ProgressiveScore()
        >>> score.add(predicted=1.0, last_value=0.0, actual=2.0)
        >>> score.gain
        0.5
        """
        return 1.0 - self.error / self.last_value_error if self.last_value_error > 0 else None

    @property
    def usable(self) -> bool:
        """Whether it was scored often enough and is better than the last value, both overall and recently."""
        return (
            self.scored >= _LEAST_SCORED
            and self.error < self.last_value_error
            and self._recent_error < self._recent_last_value_error
        )
