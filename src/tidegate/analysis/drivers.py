"""Ranks the metrics that drive each quality-of-service metric."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tidegate.analysis.collinear import Group
from tidegate.analysis.correlation import Correlations
from tidegate.analysis.factors import partial_correlations
from tidegate.history.metriccatalogue import Level, metric_of

TARGETS = ("latency_p99_s", "batch_duration_s", "throughput_rows_per_s", "backlog_rows")
_CONSEQUENCES = {"uptime_s", "warming", "batch_id"}  # time is not a driver


@dataclass(frozen=True, slots=True)
class Driver:
    """A metric, the metrics it represents, and how much of a target it explains."""

    name: str
    stands_for: tuple[str, ...]
    score: float
    """Mean of |Spearman| and |partial rank correlation|, both in 0 … 1."""
    spearman: float
    partial: float
    """Partial correlation with the other drivers held fixed."""
    significant: bool
    """After the correction, with the effective number of samples if known."""


def targets_of(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the QoS metrics to explain: latency (of rows, else of batches), throughput and backlog."""
    found = [name for name in TARGETS if name in names]
    if "latency_p99_s" in found and "batch_duration_s" in found:
        found.remove("batch_duration_s")
    return tuple(found)


def rank_drivers(correlations: Correlations, groups: tuple[Group, ...], target: str) -> tuple[Driver, ...]:
    """Return the drivers of one target, strongest first: one metric for each collinear group.

    Metrics of the QoS level are effects, like the target itself, and are left out.
    """
    place = {name: at for at, name in enumerate(correlations.names)}
    candidates = [(speaker, group) for group in groups if (speaker := _speaker(group, target))]
    ranked = correlations.spearman
    candidates = [(name, group) for name, group in candidates if np.isfinite(ranked.r[place[name], place[target]])]
    if not candidates:
        return ()
    places = [place[target], *(place[name] for name, _ in candidates)]
    inside = np.nan_to_num(ranked.r[np.ix_(places, places)], nan=0.0)
    np.fill_diagonal(inside, 1.0)
    partial = partial_correlations(inside, ridge=0.01)[0, 1:]
    p = ranked.p_adjusted if ranked.p_effective is None else ranked.p_effective
    drivers = [
        Driver(
            name=name,
            stands_for=tuple(member for member in group.members if member not in (name, target)),
            score=(abs(float(inside[0, at + 1])) + abs(float(partial[at]))) / 2.0,
            spearman=float(inside[0, at + 1]),
            partial=float(partial[at]),
            significant=bool(p[place[name], place[target]] < 0.05),
        )
        for at, (name, group) in enumerate(candidates)
    ]
    return tuple(sorted(drivers, key=lambda driver: -driver.score))


def _speaker(group: Group, target: str) -> str | None:
    """Return the metric that represents a group: its representative, or another member if that is an effect itself."""
    order = (group.representative, *group.members)
    return next((name for name in order if name != target and _may_drive(name)), None)


def _may_drive(name: str) -> bool:
    metric = metric_of(name)
    return name not in _CONSEQUENCES and (metric is None or metric.level is not Level.QOS)
