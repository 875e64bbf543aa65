"""Row latencies in fine logarithmic bins, weighted by rows: quantiles over any mix of batches, in bounded memory."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

LEAST_LATENCY_S = 1e-3
BINS_PER_OCTAVE = 12
BINS = 32 * BINS_PER_OCTAVE  # 32 octaves: 1 ms to 49 days, each bin 6 % wide


@dataclass(frozen=True, slots=True)
class Latencies:
    """A distribution of row latencies. Each bin is represented by the mean of its rows.

    >>> both = Latencies.empty().add(np.array([1.0]), rows=3.0).add(np.array([8.0]), rows=1.0)
    >>> both.quantile_s(0.5), both.quantile_s(0.99), both.mean_s
    (1.0, 8.0, 2.75)
    >>> both.late_share(2.0)
    0.25
    """

    rows_in_bin: npt.NDArray[np.float64]
    sum_s_in_bin: npt.NDArray[np.float64]
    max_s: float | None = None

    @classmethod
    def empty(cls) -> Latencies:
        return cls(np.zeros(BINS), np.zeros(BINS))

    def add(self, latencies_s: npt.NDArray[np.float64], rows: float | npt.NDArray[np.float64] = 1.0) -> Latencies:
        """Add `rows` rows at each of the latencies: the same number for all, or one number for each."""
        if not len(latencies_s):
            return self
        bins = bins_of(latencies_s)
        weights = np.broadcast_to(rows, latencies_s.shape)
        return Latencies(
            self.rows_in_bin + np.bincount(bins, weights=weights, minlength=BINS),
            self.sum_s_in_bin + np.bincount(bins, weights=weights * latencies_s, minlength=BINS),
            max(float(latencies_s.max()), self.max_s or 0.0),
        )

    def merge(self, other: Latencies) -> Latencies:
        known = [value for value in (self.max_s, other.max_s) if value is not None]
        return Latencies(
            self.rows_in_bin + other.rows_in_bin,
            self.sum_s_in_bin + other.sum_s_in_bin,
            max(known) if known else None,
        )

    @property
    def rows(self) -> float:
        return float(self.rows_in_bin.sum())

    @property
    def mean_s(self) -> float | None:
        return float(self.sum_s_in_bin.sum() / self.rows) if self.rows else None

    def quantile_s(self, share: float) -> float | None:
        """The latency that `share` of the rows do not exceed, to the width of a bin; None without rows."""
        if not self.rows:
            return None
        cumulative = np.cumsum(self.rows_in_bin)
        at = int(np.searchsorted(cumulative, share * cumulative[-1] * (1 - 1e-12)))
        at = min(at, int(np.flatnonzero(self.rows_in_bin)[-1]))
        return float(self.sum_s_in_bin[at] / self.rows_in_bin[at])

    def late_share(self, bound_s: float) -> float | None:
        """The share of rows above `bound_s`. The bin that contains the bound counts by its mean."""
        if not self.rows:
            return None
        filled = self.rows_in_bin > 0
        means_s = self.sum_s_in_bin[filled] / self.rows_in_bin[filled]
        return float(self.rows_in_bin[filled][means_s > bound_s].sum() / self.rows)

    def summary(self) -> dict[str, float | None]:
        return {
            "rows": self.rows,
            "mean_s": self.mean_s,
            "p50_s": self.quantile_s(0.5),
            "p90_s": self.quantile_s(0.9),
            "p99_s": self.quantile_s(0.99),
            "max_s": self.max_s,
        }


def bins_of(latencies_s: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """The logarithmic bin of each latency. The first and the last bin include everything beyond them.

    >>> bins_of(np.array([0.0, 1e-3, 2e-3, 1e12])).tolist()
    [0, 0, 12, 383]
    """
    octaves = np.log2(np.maximum(latencies_s, LEAST_LATENCY_S) / LEAST_LATENCY_S)
    return np.minimum(BINS - 1, (octaves * BINS_PER_OCTAVE).astype(np.int64))
