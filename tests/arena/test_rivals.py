"""Rivals against published worked examples, and behind the product's own port."""

from __future__ import annotations

import pytest

from tidegate import testing
from tidegate.domain import Targets
from tidegate_lab.arena.loads import ArenaLoad, made
from tidegate_lab.arena.play import Stage
from tidegate_lab.arena.rivals import amadeus, catalogue, daedalus, dhalion, ds2, dstreams, flink, hpa, hpa_varga, keda
from tidegate_lab.arena.rivals.dynamic_allocation import DynamicAllocation
from tidegate_lab.arena.rivals.measures import Measures
from tidegate_lab.arena.rivals.rival import Glance, Rival
from tidegate_lab.arena.setting import Setting
from tidegate_lab.experiments.datasets import recorded


def measures(**given: object) -> Measures:
    base: dict[str, object] = {
        "time_s": 60.0, "span_s": 60.0, "executors": 4, "requested": 4, "slots_per_executor": 2,
        "arrived_rows": 6000.0, "done_rows": 6000.0, "busy_s": 60.0, "lag_rows": 0.0, "lag_growth": 0.0,
        "utilisation": 0.5, "batches": (), "interval_s": 1.0, "tasks_left": 0, "partitions": 16,
        "active": frozenset(), "ids": ("0", "1", "2", "3"), "ages_s": (100.0,) * 4,
    }  # fmt: skip
    return Measures(**{**base, **given})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("current", "metric", "target", "expected"),
    [(1, 200, 100, 2), (4, 200, 100, 8), (4, 50, 100, 2), (3, 90, 60, 5), (10, 109, 100, 10), (10, 91, 100, 10)],
)
def test_hpa_follows_its_documented_rule(current: int, metric: float, target: float, expected: int) -> None:
    assert hpa.desired_replicas(current, metric, target) == expected


def test_hpa_shrinks_to_the_largest_recommendation_of_its_window() -> None:
    window = hpa.Stabiliser(down_window_s=300.0)
    assert window.size(0.0, 8, 8) == 8
    assert window.size(100.0, 8, 5) == 8
    assert window.size(320.0, 8, 3) == 5  # the 8 is forgotten, the 5 is not


def test_hpa_grows_by_four_or_to_the_double_within_a_period() -> None:
    assert hpa.Stabiliser().size(0.0, 2, 40) == 6
    assert hpa.Stabiliser().size(0.0, 10, 40) == 20


def test_hpa_counts_pods_on_their_way_as_idle() -> None:
    starting = measures(utilisation=1.0, executors=4, requested=8)
    assert hpa.HpaCpu(target=0.8).by_cpu(starting) == 8


def test_varga_adds_what_the_growing_lag_asks_for() -> None:
    assert hpa_varga.by_lag(4, 50.0, 100.0) == 6
    quiet = measures(utilisation=0.8, lag_rows=100 * 59.0, lag_growth=3000.0)
    behind = measures(utilisation=0.8, lag_rows=100 * 61.0, lag_growth=3000.0)
    assert hpa_varga.HpaVarga().wish(quiet) == (4, "80% busy")
    wished = hpa_varga.HpaVarga().wish(behind)
    assert wished is not None
    assert wished[0] == 6


def test_keda_divides_the_lag_and_stops_at_the_partitions() -> None:
    assert keda.replicas_for(lag=35, threshold=10, partitions=10, current=1) == 4
    assert keda.replicas_for(lag=1000, threshold=10, partitions=10, current=1) == 10
    assert keda.replicas_for(lag=0, threshold=10, partitions=10, current=4) == 1


@pytest.mark.parametrize(
    ("current", "target", "true_rate", "utilisation", "expected"),
    # ⌈current · target ÷ utilisation ÷ true rate⌉
    [
        (10, 50, 100, 0.8, 7),
        (10, 80, 100, 0.8, 10),
        (10, 60, 100, 0.8, 8),
        (2, 100, 40, 0.5, 10),
        (2, 100, 100, 0.6, 4),
    ],
)
def test_flink_scales_by_capacity_over_true_rate(
    current: int, target: float, true_rate: float, utilisation: float, expected: int
) -> None:
    wanted = flink.capacity(target, utilisation, lag=0.0, catch_up_s=0.0, restart_s=0.0)
    assert flink.new_parallelism(current, wanted, true_rate) == expected


def test_flink_never_shrinks_below_two_fifths_at_once() -> None:
    assert flink.new_parallelism(10, wanted=1.0, true_rate=100.0) == 4


def test_flink_stays_inside_its_band() -> None:
    scaler = flink.Flink(flink.FlinkSettings(catch_up_s=0.0))
    assert scaler.after(10, target=70.0, true_rate=100.0, lag=0.0) == 10
    assert scaler.after(10, target=101.0, true_rate=100.0, lag=0.0) == 15
    assert scaler.after(10, target=30.0, true_rate=100.0, lag=0.0) == 5


def test_ds2_reaches_the_parallelism_of_its_own_tests() -> None:
    def needed(sources: tuple[float, ...], first: tuple[float, float], second: float) -> dict[str, int]:
        names = tuple(f"source-{number}" for number in range(len(sources)))
        operators = {name: ds2.OperatorRates(1, 0.0, rate) for name, rate in zip(names, sources, strict=True)}
        operators["op1"] = ds2.OperatorRates(1, *first, names)
        operators["op2"] = ds2.OperatorRates(1, second, 200.0, ("op1",))
        return ds2.rounded(ds2.instances_needed(operators))

    assert needed((100.0,), (50.0, 400.0), 100.0) == {"op1": 2, "op2": 8}
    assert needed((200.0,), (40.0, 700.0), 99.0) == {"op1": 5, "op2": 36}
    assert needed((200.0,), (10.0, 700.0), 201.0) == {"op1": 20, "op2": 70}
    assert needed((100.0, 100.0), (50.0, 400.0), 100.0) == {"op1": 4, "op2": 16}
    assert needed((200.0, 200.0), (40.0, 700.0), 99.0) == {"op1": 10, "op2": 71}
    assert needed((200.0, 200.0), (10.0, 700.0), 201.0) == {"op1": 40, "op2": 140}


def test_ds2_on_its_recorded_wordcount() -> None:
    """One splitter and one counter carry the recorded rate, as the policy prints for the first epoch of the file."""
    path = recorded("ds2_wordcount/offline/flink_rates.log")
    if path is None:
        pytest.skip("the recorded rates are not here")
    epoch = [line.split(",") for line in path.read_text().splitlines()[1:5]]
    splitters = [row for row in epoch if row[0].startswith("Splitter")]
    operators = {
        "source": ds2.OperatorRates(1, 0.0, float(epoch[0][5])),
        "split": ds2.OperatorRates(
            2, sum(float(row[4]) for row in splitters), sum(float(row[5]) for row in splitters), ("source",)
        ),
        "count": ds2.OperatorRates(1, float(epoch[3][4]), 0.0, ("split",)),
    }
    assert ds2.rounded(ds2.instances_needed(operators)) == {"split": 1, "count": 1}


def test_dstreams_adds_the_rounded_ratio_and_removes_one() -> None:
    rule = dstreams.DStreams()
    assert [rule.after(4, ratio) and rule.after(4, ratio)[0] for ratio in (0.9, 2.6, 0.5, 0.3)] == [5, 7, None, 3]  # type: ignore[index]


def test_amadeus_scales_in_proportion() -> None:
    rule = amadeus.Amadeus()
    assert rule.smooth(1.0, 2.0) == pytest.approx(1.6)
    assert [rule.after(4, ratio) for ratio in (1.5, 0.8, 0.5)] == [6, 4, 2]


def test_dhalion_grows_by_its_back_pressure() -> None:
    assert dhalion.growth(0.5) == 2.0
    assert dhalion.growth(0.95) == pytest.approx(10.0)


def test_dynamic_allocation_doubles_its_step_and_stops_at_the_tasks() -> None:
    rule = DynamicAllocation()
    size, sizes = 1, []
    for second in range(1, 12):
        wished = rule.wish(
            measures(time_s=float(second), executors=size, requested=size, tasks_left=20, ids=(), ages_s=())
        )
        size = wished[0] if wished else size
        sizes.append(size)
    assert list(dict.fromkeys(sizes)) == [1, 2, 4, 8, 10]


def test_dynamic_allocation_releases_what_idled() -> None:
    rule = DynamicAllocation()
    rule.wish(measures(time_s=0.0, active=frozenset("0123")))
    assert rule.wish(measures(time_s=59.0, active=frozenset("01"))) is None
    wished = rule.wish(measures(time_s=61.0, active=frozenset("01")))
    assert wished is not None
    assert wished[0] == 2


def test_the_forecast_follows_a_trend() -> None:
    import numpy as np

    assert daedalus.forecast(np.arange(60.0) * 3, 5).tolist() == pytest.approx([180.0, 183.0, 186.0, 189.0, 192.0])


@pytest.mark.parametrize("name", list(catalogue.RIVALS))
def test_every_rival_conforms_to_the_port(name: str) -> None:
    testing.check_controller(catalogue.RIVALS[name].make)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", list(catalogue.RIVALS))
def test_every_setting_of_the_grid_can_be_made(name: str) -> None:
    for settings in catalogue.RIVALS[name].settings:
        assert isinstance(catalogue.make(name, settings), Rival)


def short(seed: int = 1) -> ArenaLoad:
    whole = made("cosine", seed=seed)
    return ArenaLoad("short", whole.values[20:35], 60.0, seed)


@pytest.mark.parametrize("name", ["dstreams", "ds2", "flink-1min"])
def test_looks_between_decisions_do_not_change_what_a_rival_knows(name: str) -> None:
    setting, load = Setting(), short()
    journals = []
    for look_s in (1.0, 15.0):
        rival, stage = catalogue.make(name), Stage(setting, load, 4)
        for look in range(int(load.duration_s / look_s)):
            stage.cluster.advance_to(look * look_s)
            plan = rival.plan(Glance(stage.cluster.observe(), (1, 16)))
            stage.note([proposal.action for proposal in plan.proposals], "")
            stage.cluster.converge(Targets().after(proposal.action for proposal in plan.proposals))
        journals.append([(change.time_s, change.executors) for change in stage.journal])
    assert journals[0] == journals[1]
    assert journals[0]
