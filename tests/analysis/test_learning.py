"""Online learning: every learner keeps the protocol; what can be learned is learned, and the rest is not used."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.analysis.test_correlation import table_of
from tidegate.analysis.learning import LEARNERS, Ensemble, Predictor, ProgressiveScore, replay
from tidegate.analysis.learning.recursion import BatchRecursion

FAST = {name: LEARNERS[name] for name in ("last-value", "short-mean", "long-mean", "linear")}


@pytest.mark.parametrize("name", LEARNERS)
def test_every_learner_keeps_the_protocol(name: str) -> None:
    learner = LEARNERS[name]()
    assert learner.predict_one({"level": 1.0}) == 0.0  # nothing is known: no change
    for step in range(30):
        learner.learn_one({"level": float(step % 3), "huge": 1e300 if step == 7 else 0.0}, float(step % 3))
        assert math.isfinite(learner.predict_one({"level": 1.0, "huge": -1e300}))


def test_noise_around_a_mean_is_not_followed() -> None:
    rng = np.random.default_rng(0)
    found = replay(table_of(10 + rng.normal(size=(300, 1)), ("y",)), "y", (), 3, learners=FAST)
    assert found.score.usable
    assert (found.score.gain or 0) > 0.2  # the best that can be done is 1 − 1/√2


def test_a_model_that_is_no_better_is_not_used() -> None:
    walk = 100 + np.cumsum(np.random.default_rng(1).normal(size=(300, 1)), axis=0)
    found = replay(table_of(walk, ("y",)), "y", (), 3, learners={"long-mean": LEARNERS["long-mean"]})
    assert not found.score.usable
    assert (found.score.gain or 0) < 0


def test_a_leading_metric_is_made_use_of() -> None:
    rng = np.random.default_rng(2)
    cause = rng.normal(size=503)
    values = np.column_stack([10 + 2 * cause[:-3] + 0.2 * rng.normal(size=500), 5 + cause[3:]])  # known 3 ahead
    found = replay(table_of(values, ("y", "x")), "y", ("x",), 3, learners=FAST)
    assert (found.score.gain or 0) > 0.6


def test_recovery_within_fifty_samples_after_a_planted_drift() -> None:
    rng = np.random.default_rng(3)
    cause = rng.normal(size=803)
    sign = np.where(np.arange(800) < 400, 1.0, -1.0)  # the relation turns round
    values = np.column_stack([20 + 4 * sign * cause[:-3] + 0.3 * rng.normal(size=800), 5 + cause[3:]])
    found = replay(table_of(values, ("y", "x")), "y", ("x",), 3, learners=FAST)
    error = np.abs(found.predicted - values[:, 0])
    assert found.drifts
    assert 400 < found.drifts[0] <= 450
    assert error[400:420].mean() > 2 * error[300:400].mean()
    assert error[450:500].mean() < 1.25 * error[700:].mean()


def test_abnormal_samples_are_not_learned() -> None:
    wave = 10 + np.sin(np.arange(300) / 5)[:, None]
    spoiled = wave.copy()
    spoiled[150:155] = 1e6
    abnormal = np.zeros(300, dtype=np.bool_)
    abnormal[150:155] = True
    kept = replay(table_of(spoiled, ("y",)), "y", (), 3, abnormal, FAST)
    clean = replay(table_of(wave, ("y",)), "y", (), 3, None, FAST)
    assert np.abs(kept.predicted[200:] - clean.predicted[200:]).mean() < 0.2


def test_missing_targets_are_passed_over_and_bad_horizons_refused() -> None:
    predictor = Predictor("y", ("x",), learners=FAST)
    assert predictor.step({"x": 1.0}) is None
    assert predictor.step({"y": float("nan")}) is None
    assert predictor.samples == 0
    with pytest.raises(ValueError, match="at least 1 sample"):
        Predictor("y", (), horizon=0)


def test_the_recursion_knows_overload() -> None:
    recursion = BatchRecursion()
    for rows in (90.0, 110.0, 100.0, 95.0, 105.0, 100.0):
        calm = {
            "rows": rows,
            "batch_duration_s": 0.1 + 0.005 * rows,
            "input_rows_per_s": 100.0,
            "trigger_interval_s": 1.0,
        }
        recursion.step(calm)
    burst = {"rows": 400.0, "batch_duration_s": 2.1, "input_rows_per_s": 400.0, "trigger_interval_s": 1.0}
    recursion.step(burst)
    one, three = (recursion.ahead("latency_p99_s", ahead)["last"] for ahead in (1, 3))
    assert one == pytest.approx(2.1 + 0.1 + 0.005 * 400 * 2.1, rel=0.02)
    assert three > 2 * one  # at twice the bearable rate every batch is twice the last


def test_weights_and_scores() -> None:
    ensemble = Ensemble(FAST)
    assert sum(ensemble.weights().values()) == pytest.approx(1.0)
    score = ProgressiveScore()
    assert (score.gain, score.mae, score.usable) == (None, None, False)
