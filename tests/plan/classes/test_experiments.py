"""The experiments on service classes, small: they drive the product's controller and keep the keys of their figures."""

from __future__ import annotations

import pytest

from tidegate_lab.experiments import qos_scale, sensitivity, step_overhead
from tidegate_lab.experiments.class_world import CLASSES
from tidegate_lab.experiments.qos_scale import Scenario


@pytest.mark.slow
def test_classes_keep_their_objectives_in_a_burst_of_the_lowest() -> None:
    burst = Scenario("burst", 100, 0.9, until_s=90, measured=(60, 85), bursts=True)
    found = qos_scale.run(applications=30, scenarios=(burst,))["scenarios"]["burst"]
    assert list(found) == ["round-robin", "weighted-fair", "mpc"]
    for classes in found.values():
        assert list(classes) == list(CLASSES)
    assert found["mpc"]["q1"]["violations"] < 0.02
    assert found["mpc"]["q1"]["mean_s"] < found["round-robin"]["q1"]["mean_s"]
    used = {policy: sum(each["cpus"] for each in classes.values()) for policy, classes in found.items()}
    assert used["mpc"] > 0.9 * used["round-robin"], "holding back idles nothing"


def test_a_step_is_measured_on_both_clocks() -> None:
    seen = step_overhead.measure(applications=100, seed=1, steps=6)
    assert set(seen) == {"applications", "step_ms_p50", "step_ms_p99", "wall_ms_p50", "wall_ms_p99", "rolled_out"}
    assert 0 < seen["step_ms_p50"] <= seen["step_ms_p99"]
    assert seen["rolled_out"] > 0


def test_the_surges_are_those_that_the_forecast_is_told_of() -> None:
    q1, q2 = (sensitivity.surging()[name] for name in ("q1", "q2"))
    known = sensitivity.Erring({"a": q1, "b": q2}, error=0.0, common=False, seed=1)
    known.tell(38.0, ["a", "b"], [0.0, 0.0])
    assert known.path([0, 1], horizon_s=12.0, step_s=2.0).mean.round().tolist() == [
        [100, 400, 400, 400, 400, 400],
        [100, 100, 100, 100, 400, 400],
    ]
