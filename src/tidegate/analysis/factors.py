"""Factor analysis: the few hidden causes behind many metrics, and the evidence for their number.

Maximum likelihood (scikit-learn) with varimax rotation. The result depends only on the correlation matrix, so the model
is fitted on a small artificial sample with exactly this matrix. In-memory and Spark correlations share this code.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.stats import chi2, wishart
from sklearn.decomposition import FactorAnalysis

from tidegate.history.metrictable import Floats

_DRAWS = 200
_QUANTILE = 0.95
_LEAST_METRICS = 3


@dataclass(frozen=True, slots=True, eq=False)
class Factors:
    """Loadings (metrics × factors), sorted by the variance they explain, and the evidence for their number."""

    names: tuple[str, ...]
    loadings: Floats
    explained: Floats
    """Share of the total variance, by factor."""
    communalities: Floats
    """Share of each metric's variance that the factors explain."""
    eigenvalues: Floats
    random_eigenvalues: Floats
    """95th percentiles of the eigenvalues of uncorrelated data of the same size (Horn 1965)."""
    kaiser: int
    """Number of eigenvalues above 1, for comparison. This older rule finds too many factors."""
    kmo: float
    """Sampling adequacy (Kaiser, Meyer, Olkin): below 0.5 factors are not meaningful."""
    bartlett_p: float
    """p-value of the hypothesis that all metrics are uncorrelated (Bartlett 1951)."""

    @property
    def count(self) -> int:
        return int(self.loadings.shape[1])


def analyse_factors(names: tuple[str, ...], r: Floats, samples: float, seed: int = 0) -> Factors | None:
    """Return the factors of a correlation matrix; None for fewer than three metrics, too few samples, or undefined
    pairs."""
    metrics = len(names)
    if metrics < _LEAST_METRICS or samples <= metrics + 1 or not np.isfinite(r).all():
        return None
    r = _positive(r)
    eigenvalues = np.asarray(np.linalg.eigvalsh(r)[::-1], dtype=np.float64)
    random = random_eigenvalues(metrics, samples, seed)
    count = _leading(eigenvalues > random)
    loadings = _fit(r, count)
    order = np.argsort(-(loadings**2).sum(axis=0))
    loadings = loadings[:, order] * np.where(loadings[:, order].sum(axis=0) < 0, -1.0, 1.0)
    return Factors(
        names=names,
        loadings=loadings,
        explained=(loadings**2).sum(axis=0) / metrics,
        communalities=(loadings**2).sum(axis=1),
        eigenvalues=eigenvalues,
        random_eigenvalues=random,
        kaiser=int((eigenvalues > 1.0).sum()),
        kmo=_kmo(r),
        bartlett_p=_bartlett_p(r, samples),
    )


def random_eigenvalues(metrics: int, samples: float, seed: int = 0) -> Floats:
    """Horn's parallel analysis: the 95th percentiles of the eigenvalues of pure noise.

    The scatter matrix of independent normal samples is Wishart, so it can be drawn directly for any sample size.
    """
    rng = np.random.default_rng(seed)
    scatter = wishart(df=max(metrics, int(samples) - 1), scale=np.eye(metrics)).rvs(_DRAWS, random_state=rng)
    length = np.sqrt(np.einsum("dii->di", scatter))
    eigenvalues = np.linalg.eigvalsh(scatter / (length[:, :, None] * length[:, None, :]))[:, ::-1]
    return np.asarray(np.quantile(eigenvalues, _QUANTILE, axis=0))


def _leading(above: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> int:
    """Return how many leading eigenvalues are above, without a gap: at least one and fewer than the metrics."""
    first_below = int(np.argmin(above)) if not above.all() else len(above) - 1
    return max(1, first_below)


def _fit(r: Floats, count: int) -> Floats:
    """A sample of 2p rows, `±√p · R^½`, has mean 0 and covariance exactly R."""
    values, vectors = np.linalg.eigh(r)
    root = vectors * np.sqrt(np.maximum(values, 0.0)) @ vectors.T
    sample = np.sqrt(len(r)) * np.concatenate([root, -root])
    model = FactorAnalysis(count, rotation="varimax" if count > 1 else None, svd_method="lapack", max_iter=5000)
    return np.asarray(model.fit(sample).components_.T, dtype=np.float64)


def _positive(r: Floats) -> Floats:
    """Return the nearest valid correlation matrix. Pairwise-complete ones may have slightly negative eigenvalues."""
    values, vectors = np.linalg.eigh((r + r.T) / 2.0)
    raised = vectors * np.maximum(values, 1e-6) @ vectors.T
    length = np.sqrt(np.diag(raised))
    return np.asarray(raised / np.outer(length, length))


def _kmo(r: Floats) -> float:
    """`Σ r² ÷ (Σ r² + Σ partial²)` over all pairs."""
    partial = partial_correlations(r)
    off = ~np.eye(len(r), dtype=bool)
    squares, rest = float((r[off] ** 2).sum()), float((partial[off] ** 2).sum())
    return squares / (squares + rest) if squares + rest > 0 else 0.0


def _bartlett_p(r: Floats, samples: float) -> float:
    """`χ² = −(n − 1 − (2p + 5)/6) · ln|R|` with p(p − 1)/2 degrees of freedom."""
    metrics = len(r)
    _, log_determinant = np.linalg.slogdet(r)
    statistic = -(samples - 1 - (2 * metrics + 5) / 6) * log_determinant
    return float(chi2.sf(statistic, metrics * (metrics - 1) / 2))


def partial_correlations(r: Floats, ridge: float = 1e-3) -> Floats:
    """Correlation of each pair with all other metrics held fixed: `−k_ij / √(k_ii k_jj)`, K the inverse of R.

    A small ridge keeps the inverse stable for nearly collinear metrics.
    """
    inverse = np.linalg.inv((r + ridge * np.eye(len(r))) / (1.0 + ridge))
    scale = np.sqrt(np.diag(inverse))
    partial = -inverse / np.outer(scale, scale)
    np.fill_diagonal(partial, 1.0)
    return np.asarray(np.clip(partial, -1.0, 1.0))
