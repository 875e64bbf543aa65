"""Many increasing piecewise-linear curves of time, evaluated and inverted with one interpolation for all.

For every candidate and path, a rollout needs to know how many rows have arrived by some time, and when a given amount
of work is done. Each curve is shifted by its own offset, so that all of them end to end form one increasing curve. One
`numpy.interp` then answers every question.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

FAR_S = 1e5
"""How far a curve continues beyond its last point, at its last slope."""


class Curves:
    """Curves over shared times. `select` names the curve for each question.

    >>> arrived = Curves.from_rates(np.array([0.0, 1.0, 2.0]), np.array([[10.0, 30.0], [5.0, 5.0]]))
    >>> both = arrived.select(np.array([0, 1]))
    >>> both.at(np.array([1.5, 1.5])).tolist(), both.when(np.array([25.0, 5.0])).tolist()
    ([25.0, 7.5], [1.5, 1.0])
    """

    def __init__(self, times_s: Floats, values: Floats) -> None:
        self._times_s, self._values = times_s, values
        count = len(values)
        self._time_apart = float(times_s[-1] - times_s[0]) + 1.0
        self._value_apart = float(np.max(values[:, -1]) - np.min(values[:, 0])) + 1.0
        order = np.arange(count, dtype=np.float64)[:, None]
        self._flat_times = (times_s + order * self._time_apart).ravel()
        self._flat_values = (values + order * self._value_apart).ravel()
        self.select_all(np.arange(count))

    @classmethod
    def from_rates(
        cls, edges_s: Floats, rates: Floats, times_before_s: Floats | None = None, values_before: Floats | None = None
    ) -> Curves:
        """Curves that rise by `rates` between the edges, and by the last rate beyond them.

        The past is given by times, of which the last is the first edge, and by values per curve.
        """
        edges_s = np.append(edges_s, edges_s[-1] + FAR_S)
        values = np.zeros((len(rates), len(edges_s)))
        values[:, 1:-1] = np.diff(edges_s[:-1]) * rates
        values[:, -1] = FAR_S * rates[:, -1]
        if times_before_s is not None and values_before is not None:
            values[:, 0] = values_before[:, -1]
            edges_s = np.concatenate((times_before_s[:-1], edges_s))
        np.cumsum(values, axis=1, out=values)
        if values_before is not None:
            values = np.concatenate((values_before[:, :-1], values), axis=1)
        return cls(edges_s, values)

    def select(self, which: Ints) -> Curves:
        """The same curves, evaluated by `at` and `when` in the order of `which`."""
        chosen = object.__new__(Curves)
        chosen.__dict__.update(self.__dict__)
        chosen.select_all(which)
        return chosen

    def select_all(self, which: Ints) -> None:
        self._time_shift = which * self._time_apart
        self._value_shift = which * self._value_apart

    def at(self, time_s: Floats) -> Floats:
        """The curves' values. `time_s` may have more leading dimensions."""
        answer: Floats = np.interp(time_s + self._time_shift, self._flat_times, self._flat_values)
        answer -= self._value_shift
        return answer

    def when(self, value: Floats) -> Floats:
        """The times at which the curves reach the values."""
        answer: Floats = np.interp(value + self._value_shift, self._flat_values, self._flat_times)
        answer -= self._time_shift
        return answer
