"""The comparison of four variants on Spark: their files, and the figures made from what was seen."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tidegate.fleet.config import FleetConfig
from tidegate_lab.experiments.fleet_variants import FOUR_WAYS, figures_of, restarts

FLEET = {"regions": {"east": {"min_hosts": 1, "max_hosts": 2}, "west": {"min_hosts": 1, "max_hosts": 2}}}


@pytest.mark.parametrize("name", FOUR_WAYS)
def test_only_what_is_elastic_may_change(name: str) -> None:
    variant = FOUR_WAYS[name]
    config = FleetConfig.model_validate(variant.file(FLEET))
    fixed = all(rule.min_hosts == rule.max_hosts for rule in config.regions.values())
    assert fixed == (name in {"static", "application"})
    assert bool(variant.words) == (name in {"application", "both"})
    assert FLEET["regions"]["east"]["min_hosts"] == 1, "the file itself stays as it is"


def _sample(time_s: float, hosts: dict[str, str], **apps: tuple[int | None, int]) -> dict[str, Any]:
    seen = {
        name: {"epoch": epoch, "tasks": {"lookup": tasks} if tasks else {}, "busy_slots": 1.0 if epoch else None}
        for name, (epoch, tasks) in apps.items()
    }
    return {"time_s": time_s, "hosts": hosts, "applications": seen}


def test_moves_and_rescales_are_restarts_and_starting_is_none() -> None:
    samples = [
        _sample(0, {}, a=(None, 0), b=(1, 2)),
        _sample(1, {}, a=(1, 2), b=(1, 3)),  # b is rescaled
        _sample(2, {}, a=(2, 0), b=(1, 3)),  # a is moved ...
        _sample(3, {}, a=(2, 3), b=(1, 3)),  # ... and comes up with another number of tasks: one restart
    ]
    assert restarts(samples) == 2


def test_an_operator_that_a_batch_does_not_report_was_not_rescaled() -> None:
    samples = [_sample(0, {}, a=(1, 2)), _sample(1, {}, a=(1, 2)), _sample(2, {}, a=(1, 2))]
    samples[0]["applications"]["a"]["tasks"] = {"lines": 1, "lookup": 2}
    samples[1]["applications"]["a"]["tasks"] = {"lines": 1}
    assert restarts(samples) == 0
    samples[2]["applications"]["a"]["tasks"] = {"lookup": 3}
    assert restarts(samples) == 1


def test_hosts_are_paid_for_from_their_start_until_they_are_gone() -> None:
    samples = [
        _sample(0, {"e": "ready"}, a=(1, 2)),
        _sample(10, {"e": "ready", "f": "starting"}, a=(1, 2)),
        _sample(30, {"e": "ready", "f": "lost"}, a=(1, 2)),
        _sample(40, {"e": "ready"}, a=(1, 2)),
    ]
    found = figures_of(samples, np.array([1.0, 2.0, 40.0, 1.0]), objective_s=30.0, slots=4)
    assert found["host_hours"] == pytest.approx((10 + 2 * 20 + 10) / 3600, abs=1e-4)
    assert found["utilisation"] == pytest.approx(40 / (4 * 60), abs=1e-4)
    assert found["violation_rate"] == 0.25
    assert figures_of([], np.zeros(0), 30.0, 4)["p99_s"] is None
