"""The complete analysis of one application's history: prepare, correlate, factor, rank, learn, profile, advise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from tidegate.analysis.anomalies import Anomaly, find_anomalies
from tidegate.analysis.capacity import Profile, profile
from tidegate.analysis.collinear import Group, collinear_groups
from tidegate.analysis.correlation import Correlations, Engine
from tidegate.analysis.drivers import Driver, rank_drivers, targets_of
from tidegate.analysis.factors import Factors, analyse_factors
from tidegate.analysis.learning import Replay, replay
from tidegate.analysis.prepare import Dropped, prepare
from tidegate.analysis.recommend import Recommendation, recommend
from tidegate.history.metrictable import MetricTable

_LEAST_SAMPLES = 5
_LEARNED_FROM = 40
_METRICS_LEARNED = 3
Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True, eq=False)
class Study:
    """The results for one application. Fields are None or empty if the history is not sufficient; `notes` say why."""

    table: MetricTable
    dropped: tuple[Dropped, ...]
    correlations: Correlations | None
    groups: tuple[Group, ...]
    factors: Factors | None
    drivers: dict[str, tuple[Driver, ...]]
    anomalies: tuple[Anomaly, ...]
    replays: tuple[Replay, ...]
    profile: Profile
    recommendations: tuple[Recommendation, ...]
    notes: tuple[str, ...]


def study(table: MetricTable, engine: Engine, horizon: int = 3, progress: Progress | None = None) -> Study:
    """Analyse one application. `engine` computes the correlations, in memory or on Spark."""
    say = progress or (lambda _: None)
    notes: list[str] = []
    prepared = prepare(table)
    clean = prepared.table
    correlations: Correlations | None = None
    groups: tuple[Group, ...] = ()
    factors: Factors | None = None
    if len(clean) < _LEAST_SAMPLES or len(clean.names) < 2:
        notes.append(f"{len(clean)} usable samples of {len(clean.names)} metrics that vary: too few for correlations")
    else:
        say("correlations")
        correlations = engine(clean)
        groups = collinear_groups(clean.names, correlations.spearman.r)
        factors = _factors(correlations, groups)
        if factors is None:
            notes.append("no factor analysis: it needs three metrics and more samples than metrics")
    targets = targets_of(clean.names)
    drivers = {target: rank_drivers(correlations, groups, target) for target in targets} if correlations else {}
    say("anomalies")
    anomalies, abnormal = find_anomalies(clean, targets)
    replays: list[Replay] = []
    for target in targets:
        if np.isfinite(clean.column(target)).sum() < _LEARNED_FROM:
            notes.append(f"{target}: fewer than {_LEARNED_FROM} samples, too few to learn from")
            continue
        say(f"learning {target}")
        chosen = [driver.name for driver in drivers.get(target, ())[:_METRICS_LEARNED]]
        replays.append(replay(with_settings(clean, table), target, chosen, horizon, abnormal))
    found = profile(table)
    if not found.operators:
        notes.append("no profiles: rows and busy time of operators are not recorded, or of too few batches")
    return Study(
        table=table,
        dropped=prepared.dropped,
        correlations=correlations,
        groups=groups,
        factors=factors,
        drivers=drivers,
        anomalies=anomalies,
        replays=tuple(replays),
        profile=found,
        recommendations=recommend(table, found, drivers),
        notes=tuple(notes),
    )


def with_settings(clean: MetricTable, table: MetricTable) -> MetricTable:
    """Return the prepared samples with all columns. A constant, such as the trigger interval, is a setting for
    predictors."""
    at = np.searchsorted(table.times_s, clean.times_s)
    if len(np.unique(at)) < len(at):
        return clean
    return MetricTable(table.application, table.names, table.times_s[at], table.values[at], table.batch_ids[at])


def _factors(correlations: Correlations, groups: tuple[Group, ...]) -> Factors | None:
    """Analyse one metric of each collinear group, because copies of a metric would form their own factor."""
    names = tuple(group.representative for group in groups)
    places = [correlations.names.index(name) for name in names]
    r = correlations.pearson.r[np.ix_(places, places)]
    known = [at for at in range(len(names)) if np.isfinite(r[at]).all()]
    kept = np.ix_(known, known)
    samples = float(np.median(correlations.pearson.n)) if len(correlations.names) else 0.0
    return analyse_factors(tuple(names[at] for at in known), r[kept], samples)


def to_json(found: Study) -> dict[str, Any]:
    """Return the study as a JSON document; see docs/analyze.md."""
    table = found.table
    return {
        "application": table.application,
        "samples": len(table),
        "from_s": float(table.times_s[0]) if len(table) else None,
        "until_s": float(table.times_s[-1]) if len(table) else None,
        "summary": {name: _summary(table.column(name)) for name in table.names},
        "dropped": [asdict(dropped) for dropped in found.dropped],
        "correlations": _correlations_json(found.correlations),
        "collinear": [asdict(group) for group in found.groups if len(group.members) > 1],
        "factors": _factors_json(found.factors),
        "drivers": {target: [asdict(driver) for driver in drivers] for target, drivers in found.drivers.items()},
        "anomalies": [asdict(anomaly) for anomaly in found.anomalies],
        "learning": [_replay_json(each) for each in found.replays],
        "profile": asdict(found.profile),
        "recommendations": [asdict(each) for each in found.recommendations],
        "notes": list(found.notes),
    }


def _summary(values: np.ndarray[Any, np.dtype[np.float64]]) -> dict[str, float | int] | None:
    known = values[np.isfinite(values)]
    if not len(known):
        return None
    p50, p95 = np.quantile(known, [0.5, 0.95])
    return {
        "samples": len(known),
        "mean": float(known.mean()),
        "min": float(known.min()),
        "p50": float(p50),
        "p95": float(p95),
        "max": float(known.max()),
    }


def _correlations_json(found: Correlations | None) -> dict[str, Any] | None:
    if found is None:
        return None
    return {
        "engine": found.engine,
        "samples": found.samples,
        "correction": found.correction,
        "confidence": 0.95,
        "pairs": [asdict(pair) for pair in found.pairs()],
    }


def _factors_json(found: Factors | None) -> dict[str, Any] | None:
    if found is None:
        return None
    return {
        "count": found.count,
        "why": "eigenvalues above the 95th percentile of random data (Horn's parallel analysis)",
        "kaiser": found.kaiser,
        "kmo": found.kmo,
        "bartlett_p": found.bartlett_p,
        "eigenvalues": found.eigenvalues.tolist(),
        "random_eigenvalues": found.random_eigenvalues.tolist(),
        "explained": found.explained.tolist(),
        "loadings": {name: row.tolist() for name, row in zip(found.names, found.loadings, strict=True)},
    }


def _replay_json(found: Replay) -> dict[str, Any]:
    return {
        "target": found.target,
        "horizon": found.horizon,
        "metrics": list(found.metrics),
        "scored": found.score.scored,
        "mae": found.score.mae,
        "last_value_mae": found.score.last_value_mae,
        "gain": found.score.gain,
        "used": found.score.usable,
        "drifts": list(found.drifts),
        "weights": found.weights,
    }
