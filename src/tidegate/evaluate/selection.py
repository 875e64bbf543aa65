"""Which metrics drive a target: factor analysis finds the few causes behind many metrics, with one metric for each.

Principal-axis factors of the correlation matrix, rotated by varimax (Kaiser 1958), in NumPy: this runs inside the
driver on about fifty samples of a dozen metrics. The full analysis of a history (`tidegate analyze`) uses maximum
likelihood with scikit-learn. On the same data both choose the same metrics.
"""

from __future__ import annotations

import numpy as np

from tidegate.evaluate.table import Floats

_SIGNIFICANT = 2.0
"""A correlation counts from this many standard errors, 1/√n."""
_LEAST_LOADING = 0.5
_ROTATIONS = 50


def select_metrics(samples: Floats, target: Floats, most: int) -> tuple[int, ...]:
    """Columns of `samples` that drive `target`: for each factor the one that explains most of it, strongest first.

    >>> random = np.random.default_rng(1)
    >>> cause, other = random.standard_normal((2, 60))
    >>> noise = 0.1 * random.standard_normal((60, 4))
    >>> samples = np.column_stack([cause, 2 * cause, other, random.standard_normal(60)]) + noise
    >>> chosen = select_metrics(samples, 3 * cause + noise[:, 0], most=2)
    >>> len(chosen), chosen[0] in (0, 1)  # two metrics say the same: one of them speaks
    (1, True)
    """
    spread = samples.std(axis=0)
    moving = np.flatnonzero(spread > 1e-9 * (np.abs(samples).mean(axis=0) + 1e-12))
    if not len(moving) or target.std() <= 0:
        return ()
    scaled = (samples[:, moving] - samples[:, moving].mean(axis=0)) / spread[moving]
    with_target = scaled.T @ ((target - target.mean()) / target.std()) / len(target)
    loadings = np.abs(_factors(scaled.T @ scaled / len(scaled)))
    chosen: dict[int, float] = {}
    for factor in range(loadings.shape[1]):
        speakers = np.flatnonzero(loadings[:, factor] >= _LEAST_LOADING)
        if len(speakers):
            speaker = int(speakers[np.argmax(np.abs(with_target[speakers]))])
            chosen[speaker] = abs(float(with_target[speaker]))
    bound = _SIGNIFICANT / np.sqrt(len(samples))
    ranked = sorted((place for place in chosen if chosen[place] > bound), key=lambda place: -chosen[place])
    return tuple(int(moving[place]) for place in ranked[:most])


def _factors(correlation: Floats) -> Floats:
    """Loadings of the factors that explain more than a single metric would, rotated to a simple structure."""
    values, vectors = np.linalg.eigh(correlation)
    kept = values >= min(1.0, values[-1])
    loadings = vectors[:, kept] * np.sqrt(np.maximum(values[kept], 0.0))
    return _varimax(loadings) if loadings.shape[1] > 1 else loadings


def _varimax(loadings: Floats) -> Floats:
    """The rotation that maximises the variance of squared loadings."""
    metrics, factors = loadings.shape
    rotation, before = np.eye(factors), 0.0
    for _ in range(_ROTATIONS):
        turned = loadings @ rotation
        gradient = loadings.T @ (turned**3 - turned * (turned**2).sum(axis=0) / metrics)
        left, strength, right = np.linalg.svd(gradient)
        rotation, now = left @ right, float(strength.sum())
        if now < before * (1 + 1e-6):
            break
        before = now
    return np.asarray(loadings @ rotation)
