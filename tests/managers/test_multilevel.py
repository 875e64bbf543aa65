"""The experiment's parts: the load it is given, the sizes it searches, and what it judges."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from tidegate.adapters.sim.fleet_load import made_up_days, per_second, regional_shares
from tidegate.domain.errors import InvalidInput
from tidegate_lab.experiments import multilevel
from tidegate_lab.experiments.multilevel_loads import LOADS, read_minutes
from tidegate_lab.experiments.multilevel_scenario import ALLOWED, WANDER, fleet, fleet_file, load, static_size

SPEC = fleet(("europe",), (1.0,))


def test_the_total_is_what_the_regions_get() -> None:
    shares = regional_shares(86_400, 3, WANDER)
    assert np.allclose(shares.sum(axis=0), 1)
    assert shares.min() == pytest.approx(0.1, abs=1e-3)
    assert (np.diff(np.argmax(shares, axis=1)) != 0).all()  # each has its own noon


@pytest.mark.parametrize("source", LOADS, ids=lambda one: one.name)
def test_recorded_loads_have_whole_days_and_are_trained_on_earlier_ones(source: multilevel.RecordedLoad) -> None:
    assert (source.judged - source.training).days >= source.days
    path = source.find()
    if path is None:
        pytest.skip("the recorded loads are not here: set TIDEGATE_DATA")
    for first in (source.training, source.judged):
        assert len(read_minutes(path, first, source.days)) == source.days * 1440
    with pytest.raises(InvalidInput, match="counts from"):
        read_minutes(path, source.judged.replace(year=2001), 1)


def test_without_a_trace_days_are_made_up() -> None:
    minutes = made_up_days(2, np.random.default_rng(1))
    assert len(minutes) == 2880
    assert minutes.max() > 2 * minutes.min() > 0
    assert np.quantile(per_second(minutes, 1000.0), 0.995) == pytest.approx(1000, rel=0.05)


def test_every_variant_runs_on_the_same_rows_and_is_judged_alike() -> None:
    rows = load(SPEC, None, multilevel.JUDGED_WEEK, 1, np.random.default_rng(2))[:, 40_000:43_600]
    trial = multilevel.Trial(SPEC, rows, static_size(SPEC, rows))
    static = trial.static()
    assert max(static.totals.violation_rates.values()) <= ALLOWED
    assert static.figures()["reconfigurations"] == 0
    both, learned = trial.run("model-based")
    assert set(both.figures()) == set(static.figures())
    assert set(learned) == {app.name for app in SPEC.applications}
    assert all(known["policy"] == "model-based" for one in learned.values() for known in one.values())
    assert both.totals.latencies.rows == pytest.approx(static.totals.latencies.rows, rel=1e-3)
    again, _ = trial.run("model-based", learned=learned)
    assert again.cost > 0


def test_the_largest_static_size_is_tried_too() -> None:
    rows = load(SPEC, None, multilevel.JUDGED_WEEK, 1, np.random.default_rng(2))[:, 40_000:40_600]
    said: list[str] = []
    size = static_size(SPEC, 40.0 * rows, said.append)
    for region in SPEC.regions:
        assert size.hosts[region] == sum(app.region == region for app in SPEC.applications)
        assert f"static: {region} misses its objectives even with a host for every application" in said
    said.clear()
    static_size(SPEC, rows, said.append)
    assert not [text for text in said if "misses" in text]


def test_the_fleets_file_sets_sizes_and_clocks_and_leaves_the_rest_to_the_defaults() -> None:
    written = fleet_file(fleet(), "threshold", {"europe": 3, "asia": 2, "america": 2}, elastic=True)
    assert written.model_fields_set == {"regions", "most_hosts", "host", "timing", "managers", "policy"}
    assert written.host.model_fields_set == {"slots"}
    assert written.timing.model_fields_set == {"poll_s"}
    assert written.managers.model_fields_set == {"policy", "period_s", "silence_s", "alone_pause_s"}
    assert written.policy.model_fields_set == {"mode", "applications"}


@pytest.mark.parametrize("cores", [1, 2])
def test_jobs_give_the_same_results_on_any_number_of_cores(cores: int) -> None:
    told: list[tuple[int, int]] = []
    jobs = {"seven": partial(max, 3, 7), "three": partial(min, 3, 7)}
    found = multilevel.run_all(jobs, lambda done, total, what: told.append((done, total)), cores)
    assert found == {"seven": 7, "three": 3}
    assert told[0] == (0, 2)
    assert len(told) >= 2
