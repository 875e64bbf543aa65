"""The significance of correlations: intervals, p-values, corrections for many pairs, effective number of samples."""

from __future__ import annotations

from typing import Literal

import numpy as np
from scipy.special import ndtri, stdtr
from scipy.stats import false_discovery_control

from tidegate.history.metrictable import Floats

Correction = Literal["bh", "holm", "none"]
CORRECTIONS: tuple[Correction, ...] = ("bh", "holm", "none")


def p_values(r: Floats, n: Floats) -> Floats:
    """Two-sided, against "none": `t = r · √((n − 2) / (1 − r²))` with n − 2 degrees of freedom; NaN for n < 3."""
    freedom = np.where(n > 2, n - 2.0, np.nan)
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.abs(r) * np.sqrt(freedom / ((1.0 - r) * (1.0 + r)))
    return np.asarray(2.0 * stdtr(freedom, -t))


def pearson_interval(r: Floats, n: Floats, confidence: float = 0.95) -> tuple[Floats, Floats]:
    """Fisher: `tanh(atanh r ± z / √(n − 3))`."""
    return _fisher(r, n, np.ones_like(r), confidence)


def spearman_interval(r: Floats, n: Floats, confidence: float = 0.95) -> tuple[Floats, Floats]:
    """Fisher's with the standard error of Bonett and Wright (2000), `√((1 + ρ²/2) / (n − 3))`."""
    return _fisher(r, n, np.sqrt(1.0 + r**2 / 2.0), confidence)


def _fisher(r: Floats, n: Floats, widening: Floats, confidence: float) -> tuple[Floats, Floats]:
    z = float(ndtri(0.5 + confidence / 2.0))
    freedom = np.where(n > 3, n - 3.0, np.nan)
    with np.errstate(divide="ignore", invalid="ignore"):
        half, centre = z * widening / np.sqrt(freedom), np.arctanh(r)
    return np.tanh(centre - half), np.tanh(centre + half)


def adjust(p: Floats, correction: Correction) -> Floats:
    """P-values of a symmetric matrix, corrected over its pairs; undefined pairs do not count.

    `bh` (Benjamini, Hochberg 1995) bounds the share of false findings among the findings, `holm` (1979) the chance
    of any false finding.

    >>> p = np.array([[0.0, 0.01, 0.04], [0.01, 0.0, 0.03], [0.04, 0.03, 0.0]])
    >>> adjust(p, "holm")[0].round(3).tolist(), adjust(p, "bh")[0].round(3).tolist()
    ([0.0, 0.03, 0.06], [0.0, 0.03, 0.04])
    """
    rows, columns = np.triu_indices(len(p), 1)
    pairs = p[rows, columns]
    known = np.isfinite(pairs)
    corrected = np.full_like(pairs, np.nan)
    if known.any():
        corrected[known] = _corrected(pairs[known], correction)
    result = p.copy()
    result[rows, columns] = result[columns, rows] = corrected
    return result


def _corrected(p: Floats, correction: Correction) -> Floats:
    if correction == "none":
        return p
    if correction == "bh":
        return np.asarray(false_discovery_control(p, method="bh"))
    order = np.argsort(p)
    steps = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    result = np.empty_like(p)
    result[order] = np.minimum(1.0, steps)
    return result


def effective_samples(values: Floats, n: Floats) -> Floats:
    """Return the number of independent samples equivalent to n autocorrelated ones, for every pair of columns.

    `n_eff = n / (1 + 2 Σ_k (1 − k/n) ρ_x(k) ρ_y(k))` (Bartlett 1935, Quenouille 1952), lags up to a fifth of the
    samples (Pyper, Peterman 1998); never more than n and never fewer than 3. Autocorrelated samples carry less
    information than independent ones.
    """
    length = len(values)
    lags = max(1, length // 5)
    acf = _autocorrelations(values, lags)
    weights = 1.0 - np.arange(1, lags + 1) / length
    inflation = 1.0 + 2.0 * (acf * weights) @ acf.T
    return np.asarray(np.clip(n / np.maximum(inflation, 1e-9), np.minimum(3.0, n), n))


def _autocorrelations(values: Floats, lags: int) -> Floats:
    """Return metrics × lags 1 …. Missing values are set to the mean and add nothing."""
    present = np.isfinite(values)
    means = np.where(present, values, 0.0).sum(axis=0) / np.maximum(present.sum(axis=0), 1)
    centred = np.where(present, values - means, 0.0)
    largest = np.abs(centred).max(axis=0)
    centred /= np.where(largest > 0, largest, 1.0)
    size = 1 << (2 * len(values) - 1).bit_length()
    spectrum = np.fft.rfft(centred, size, axis=0)
    products = np.fft.irfft(np.abs(spectrum) ** 2, size, axis=0)[: lags + 1]
    energy = np.where(products[0] > 0, products[0], 1.0)
    return np.asarray((products[1:] / energy).T)
