"""Learns the error of the model: measured against modelled batch time, from the metrics that drive it.

    ln(T measured / T model) = θ · z        z: the selected metrics, standardised, and 1

It learns one sample at a time by recursive least squares with forgetting (paper B's incremental learning), from the
metrics selected by factor analysis. If its errors grow (Page and Hinkley's test), it starts again. It corrects the
model only where that has helped so far. A handful of metrics needs no arrays: plain numbers are faster.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import sqrt
from operator import mul

import numpy as np

from tidegate.evaluate.selection import select_metrics

METRICS = ("rows", "backlog", "arrival", "state", "overhead", "others_busy", "slots", "cpu_pressure")
"""Candidate metrics: of the batch, of its application, of the other applications and of the host."""
_HISTORY = 64
_LEAST_SAMPLES = 24
_SELECT_EVERY = 32
_MOST_SELECTED = 4
_FORGET = 0.98
_MOST_TRACE = 1e3
"""Limit of the covariance, which forgetting would let grow while the metrics do not vary."""
_SEEN = 2.0
"""Range of the metrics seen so far, in spreads from the mean. A regression says nothing about values beyond it."""
_MOST_CORRECTION = np.log(3.0)
_TOLERATED, _DRIFT = 0.3, 20.0
"""Page and Hinkley's test in usual errors: the tolerated change, and the limit for the sum of the excess."""


@dataclass(slots=True)
class ResidualMemory:
    """One application: recent metrics and residuals, the selected metrics, and the regression on them."""

    samples: list[list[float]] = field(default_factory=list)
    residuals: list[float] = field(default_factory=list)
    seen: int = 0
    selected: list[int] = field(default_factory=list)
    centre: list[float] = field(default_factory=list)
    """Mean and spread of the selected metrics at the time of selection."""
    spread: list[float] = field(default_factory=list)
    theta: list[float] = field(default_factory=list)
    covariance: list[list[float]] = field(default_factory=list)
    error: float = 0.0
    """Running squared error of the corrected model, and of the model alone."""
    plain_error: float = 0.0
    drift: float = 0.0


def correction(memory: ResidualMemory, metrics: Sequence[float]) -> float:
    """The factor on the model's batch time; 1 if nothing better is known.

    >>> memory = ResidualMemory()
    >>> for step in range(60):
    ...     state = float(step % 10)
    ...     learn(memory, [100.0, 0.0, 50.0, state, 0.1, 0.0, 4.0, 0.0], float(np.exp(0.1 * state)))
    >>> [METRICS[place] for place in memory.selected]
    ['state']
    >>> round(correction(memory, [100.0, 0.0, 50.0, 8.0, 0.1, 0.0, 4.0, 0.0]), 1)  # e^0.8
    2.2
    """
    if memory.seen < _LEAST_SAMPLES or memory.error >= memory.plain_error or not memory.theta:
        return 1.0
    said = _dot(memory.theta, _features(memory, metrics))
    return float(np.exp(min(max(said, -_MOST_CORRECTION), _MOST_CORRECTION)))


def learn(memory: ResidualMemory, metrics: Sequence[float], ratio: float) -> None:
    """Learn from a batch: its metrics, and measured ÷ modelled time."""
    residual = float(np.log(max(ratio, 1e-3)))
    memory.seen += 1
    if memory.theta:
        _update(memory, metrics, residual)
    memory.samples.append(list(metrics))
    memory.residuals.append(residual)
    del memory.samples[:-_HISTORY], memory.residuals[:-_HISTORY]
    if memory.seen >= _LEAST_SAMPLES and (not memory.theta or memory.seen % _SELECT_EVERY == 0):
        _select(memory)


def _features(memory: ResidualMemory, metrics: Sequence[float]) -> list[float]:
    known = zip(memory.selected, memory.centre, memory.spread, strict=True)
    z = [min(max((metrics[metric] - centre) / spread, -_SEEN), _SEEN) for metric, centre, spread in known]
    return [1.0, *z]


def _dot(one: list[float], other: list[float]) -> float:
    total: float = sum(map(mul, one, other))
    return total


def _update(memory: ResidualMemory, metrics: Sequence[float], residual: float) -> None:
    x = _features(memory, metrics)
    error = residual - _dot(memory.theta, x)
    usual = max(memory.error, 1e-6)
    memory.error += (error * error - memory.error) / min(memory.seen, 50)
    memory.plain_error += (residual * residual - memory.plain_error) / min(memory.seen, 50)
    memory.drift = max(0.0, memory.drift + abs(error) / sqrt(usual) - 1.0 - _TOLERATED)
    if memory.drift > _DRIFT:
        memory.drift, memory.theta, memory.covariance = 0.0, [], []
        memory.samples, memory.residuals = memory.samples[-8:], memory.residuals[-8:]
        memory.seen = 8
        return
    seen = [_dot(row, x) for row in memory.covariance]
    scale = _FORGET + _dot(seen, x)
    gain = [value / scale for value in seen]
    memory.theta = [value + part * error for value, part in zip(memory.theta, gain, strict=True)]
    covariance = [
        [(cell - part * value) / _FORGET for cell, value in zip(row, seen, strict=True)]
        for row, part in zip(memory.covariance, gain, strict=True)
    ]
    trace = sum([row[place] for place, row in enumerate(covariance)])
    if trace > _MOST_TRACE:
        covariance = [[cell * (_MOST_TRACE / trace) for cell in row] for row in covariance]
    memory.covariance = covariance


def _select(memory: ResidualMemory) -> None:
    """Select metrics again. If the selection changes, learn the recent samples again with it."""
    samples, residuals = np.array(memory.samples), np.array(memory.residuals)
    selected = list(select_metrics(samples, residuals, _MOST_SELECTED))
    if memory.theta and selected == memory.selected:
        return
    memory.selected = selected
    memory.centre = samples[:, selected].mean(axis=0).tolist()
    memory.spread = np.maximum(samples[:, selected].std(axis=0), 1e-9).tolist()
    x = np.array([_features(memory, row) for row in memory.samples])
    gram = x.T @ x + 0.1 * np.eye(x.shape[1])
    covariance = np.linalg.inv(gram)
    memory.covariance = covariance.tolist()
    memory.theta = (covariance @ x.T @ residuals).tolist()
