"""When row i arrives: the cumulative count of a load profile and its inverse.

Row i's arrival depends only on i and the profile. A load is therefore open-loop (a slow reader does not slow arrivals
down), replayable (every run sees the same rows) and verifiable (a lost or doubled row can be identified).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tidegate.load.profile import LoadProfile

_CHUNK_BINS = 4096
_SILENCE_S = 7 * 86_400.0  # a load without rows for a week has ended


class Timeline:
    """Cumulative arrivals of a profile, tabulated lazily in bins of `resolution_s`.

    >>> from tidegate.load.profile import Constant
    >>> timeline = Timeline(Constant(rate=10))
    >>> timeline.rows_by(2.0)
    20
    >>> timeline.arrivals_s(0, 3).round(3).tolist()
    [0.1, 0.2, 0.3]
    """

    def __init__(self, profile: LoadProfile, resolution_s: float = 0.1) -> None:
        self._profile = profile
        self._resolution_s = resolution_s
        self._cumulative: npt.NDArray[np.float64] = np.zeros(1)

    def rows_by(self, t_s: float) -> int:
        """Return the number of rows that have arrived `t_s` seconds after the start."""
        if t_s <= 0:
            return 0
        while self._covered_s() <= t_s:
            self._extend()
        bins = t_s / self._resolution_s
        whole = int(bins)
        before, after = self._cumulative.item(whole), self._cumulative.item(whole + 1)
        return int(before + (bins - whole) * (after - before) + 1e-9)

    def arrivals_s(self, first: int, end: int) -> npt.NDArray[np.float64]:
        """Return the arrival times of rows `first` … `end - 1`, in seconds after the start."""
        if end <= first:
            return np.zeros(0)
        while self._cumulative[-1] < end:
            silent_bins = len(self._cumulative) - np.searchsorted(self._cumulative, self._cumulative[-1])
            if silent_bins * self._resolution_s > _SILENCE_S:
                raise ValueError(f"row {end - 1} never arrives: the load ends after {int(self._cumulative[-1])} rows")
            self._extend()
        return self.times_of(np.arange(first + 1, end + 1, dtype=np.float64))

    def arrivals_of(self, rows: Sequence[int]) -> list[float]:
        """Return the arrival times of a few rows that `rows_by` has already counted. This is fast.

        >>> from tidegate.load.profile import Constant
        >>> timeline = Timeline(Constant(rate=10))
        >>> timeline.rows_by(2.0), [round(time_s, 3) for time_s in timeline.arrivals_of([4, 19])]
        (20, [0.5, 2.0])
        """
        cumulative, step_s = self._cumulative, self._resolution_s
        found = []
        for row, upper in zip(rows, cumulative.searchsorted([row + 1.0 - 1e-9 for row in rows]).tolist(), strict=True):
            before, after = cumulative.item(upper - 1), cumulative.item(upper)
            found.append((upper - 1 + min(1.0, max(0.0, (row + 1.0 - before) / (after - before)))) * step_s)
        return found

    def times_of(self, ordinals: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Return when the count of arrivals reaches each of these numbers, all of which must be known to be reached."""
        # Flat stretches (no load) have no inverse: the row arrives at the end of the stretch, where its bin fills.
        upper = np.searchsorted(self._cumulative, ordinals - 1e-9)
        before = self._cumulative[upper - 1]
        share = np.clip((ordinals - before) / (self._cumulative[upper] - before), 0.0, 1.0)
        times_s: npt.NDArray[np.float64] = ((upper - 1 + share) * self._resolution_s).astype(np.float64)
        return times_s

    def _covered_s(self) -> float:
        return (len(self._cumulative) - 1) * self._resolution_s

    def _extend(self) -> None:
        """Append bins. The table doubles, so reaching row n takes O(log n) extensions."""
        known = len(self._cumulative) - 1
        count = max(_CHUNK_BINS, known)
        middles_s = np.asarray((known + np.arange(count) + 0.5) * self._resolution_s, dtype=np.float64)
        rows = self._profile.rows_per_s(middles_s) * self._resolution_s
        self._cumulative = np.concatenate([self._cumulative, self._cumulative[-1] + np.cumsum(rows)])
