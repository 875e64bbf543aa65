"""Scenario files and the platform they describe."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from tidegate.adapters.sim.online import watch
from tidegate.adapters.sim.scenario import Scenario
from tidegate.adapters.sim.scenariofile import load_scenario, parse_scenario
from tidegate.adapters.sim.simulation import Simulation
from tidegate.domain import InvalidInput, PolicyInvalid
from tidegate_lab.experiments import four_signals

EXAMPLES = Path(__file__).parents[2] / "examples" / "scenarios"


def simulate(**parts: Any) -> Simulation:
    settings_: dict[str, Any] = {"duration_s": 60, "hosts": [{"name": "h", "cpu": 10, "count": 2}]}
    return Simulation(Scenario.model_validate(settings_ | parts))


def pipeline(**changes: Any) -> dict[str, Any]:
    operators = [
        {"name": "parse", "cost": 0.01, "parallelism": 2},
        {"name": "count", "cost": 0.02, "parallelism": 3, "selectivity": 0.5},
    ]
    return {"name": "clicks", "load": 100, "operators": operators} | changes


@st.composite
def scenarios(draw: st.DrawFn) -> dict[str, Any]:
    """Any graph of operators, on any hosts, with hosts and operators dying on the way."""
    hosts = [
        {"name": f"h{index}", "cpu": draw(st.floats(0.2, 8)), "region": draw(st.sampled_from(["eu", "us"]))}
        for index in range(draw(st.integers(1, 3)))
    ]
    operators: list[dict[str, Any]] = []
    for index in range(draw(st.integers(1, 5))):
        parallelism = draw(st.integers(1, 3))
        before = [f"o{earlier}" for earlier in range(index)]
        operators.append(
            {
                "name": f"o{index}",
                "cost": draw(st.sampled_from([0.0, 0.005, 0.02, 0.1])),
                "selectivity": draw(st.sampled_from([0.0, 0.3, 1.0, 2.5])),
                "parallelism": parallelism,
                "max_cpu": draw(st.none() | st.floats(0.1, 2)),
                "inputs": draw(st.lists(st.sampled_from(before), unique=True, max_size=3)) if before else [],
                "routing": draw(
                    st.sampled_from([{"by": "random"}, {"by": "key", "weights": [3.0, 0.0, 1.0][:parallelism]}])
                ),
            }
        )
    events: list[dict[str, Any]] = [{"event": "Schedule", "at_s": 0}, {"event": "Schedule", "at_s": 40}]
    if draw(st.booleans()):
        events.append({"event": "KillNode", "at_s": draw(st.integers(1, 39)), "id": "h0"})
    if draw(st.booleans()):
        victim = draw(st.sampled_from(operators))["name"]
        events.append({"event": "KillOperator", "at_s": draw(st.integers(1, 59)), "id": f"a.{victim}"})
    return {
        "duration_s": 60,
        "step_s": draw(st.sampled_from([0.5, 1.0])),
        "hosts": hosts,
        "regions": [{"between": ["eu", "us"], "delay_s": draw(st.sampled_from([0, 1, 7]))}]
        if {host["region"] for host in hosts} == {"eu", "us"}
        else [],
        "delays": {"startup_s": 2, "migration_s": 3},
        "applications": [{"name": "a", "load": draw(st.integers(0, 300)), "operators": operators}],
        "events": events,
    }


@pytest.mark.slow
@settings(max_examples=60)
@given(scenarios())
def test_no_row_is_lost_or_made_in_any_scenario(parts: dict[str, Any]) -> None:
    """A task: received = processed + queued + dropped. A flow: what the parent did × weight = received + under way."""
    simulation = Simulation(Scenario.model_validate(parts))
    simulation.run()
    assert simulation.platform is not None
    plant, network = simulation.platform.plant, simulation.platform.network
    ledger = plant.ledger()
    assert ledger.received == pytest.approx(ledger.processed + ledger.queued + ledger.dropped, rel=1e-9, abs=1e-6)
    sent = np.zeros(len(network.tasks))
    for link in network.links:
        if link.parent is not None:
            sent[link.child] += ledger.processed[link.parent] * link.weight
    inner = ~simulation.platform._external
    assert (ledger.received + ledger.flying)[inner] == pytest.approx(sent[inner], rel=1e-9, abs=1e-6)
    assert min(ledger.queued.min(), ledger.flying.min(), ledger.processed.min()) >= -1e-9
    outside = ~inner & plant.state.alive
    came = sum(
        share * load.rows_per_s(np.zeros(1))[0] * 60
        for (load, share), link in zip(
            network.loads, [link for link in network.links if link.parent is None], strict=True
        )
        if outside[link.child]
    )
    assert ledger.received[outside].sum() == pytest.approx(came, rel=1e-9, abs=1e-6)


def test_rows_in_are_rows_out_over_selectivity_plus_queued() -> None:
    simulation = simulate(applications=[pipeline()], hosts=[{"name": "h", "cpu": 2}])
    clicks = simulation.run().summary["applications"]["clicks"]
    assert clicks["queued"] > 100  # 3 cores are needed and 2 there
    assert clicks["rows_in"] == pytest.approx(clicks["rows_out"] / 0.5 + clicks["queued"] + clicks["in_flight"])


def test_the_same_scenario_gives_the_same_result() -> None:
    def run() -> dict[str, Any]:
        loads = {"kind": "poisson", "of": {"kind": "constant", "rate": 100}, "seed": 3}
        return simulate(applications=[pipeline(load=loads)]).run().to_dict()

    assert run() == run()


def test_tasks_of_a_killed_host_queue_until_the_next_schedule() -> None:
    result = simulate(
        applications=[{"name": "a", "load": 100, "operators": [{"name": "w", "cost": 0.01}]}],
        duration_s=100,
        events=[
            {"event": "Schedule", "at_s": 0},
            {"event": "KillNode", "at_s": 20, "id": "h-0"},
            {"event": "Schedule", "at_s": 50},
        ],
    ).run()
    assert result.applications is not None
    queued = dict(zip(result.applications.time_s, result.applications.of("a", "queued"), strict=True))
    assert (queued[20.0], queued[30.0], queued[50.0], queued[60.0]) == pytest.approx((0, 1000, 3000, 0))
    assert [entry["assignment"]["a.w"] for entry in result.summary["schedules"]] == ["h-0", "h-1"]
    assert result.hosts is not None
    assert result.hosts.columns["tasks"][[0, 30, 60]].tolist() == [[1, 0], [0, 0], [0, 1]]
    assert result.summary["hosts"]["h-0"]["alive_s"] == 20
    assert result.summary["applications"]["a"]["latency"]["max_s"] == pytest.approx(31)


def test_without_hosts_left_tasks_are_unplaced_and_nothing_is_lost() -> None:
    result = simulate(
        applications=[pipeline()],
        hosts=[{"name": "h", "cpu": 10}],
        events=[{"event": "KillNode", "at_s": 10, "id": "h"}, {"event": "Schedule", "at_s": 20}],
    ).run()
    assert len(result.summary["schedules"][-1]["unplaced"]) == 5
    assert result.summary["applications"]["clicks"]["queued"] > 4000


def test_new_nodes_cost_from_their_arrival() -> None:
    result = simulate(
        applications=[pipeline()],
        duration_s=3600,
        hosts=[{"name": "h", "cpu": 4, "cost_per_hour": 2.0}],
        events=[
            {"event": "NewNode", "at_s": 1800, "id": "late", "cpu": 4, "cost_per_hour": 1.0},
            {"event": "Schedule", "at_s": 0},
        ],
    ).run()
    assert result.summary["cost"] == pytest.approx(2.0 + 0.5)


def test_key_routing_makes_skew_visible() -> None:
    operators = [
        {"name": "read", "cost": 0.0},
        {"name": "count", "cost": 0.02, "parallelism": 2, "max_cpu": 1, "routing": {"by": "key", "weights": [9, 1]}},
    ]
    simulation = simulate(applications=[pipeline(operators=operators)])
    simulation.run()
    assert simulation.platform is not None
    hot, cold = simulation.platform.plant.queued()[1:]
    assert hot == pytest.approx((90 - 50) * 59)  # 90 rows come to an instance that does 50 a second
    assert cold == pytest.approx(0)


def test_custom_routing_has_a_row_for_each_sender() -> None:
    operators = [
        {"name": "read", "cost": 0.001, "parallelism": 2},
        {"name": "sink", "cost": 0.001, "parallelism": 2, "routing": {"by": "custom", "weights": [[1, 0], [0.5, 0.5]]}},
    ]
    simulation = simulate(applications=[pipeline(operators=operators)])
    simulation.run()
    assert simulation.platform is not None
    one, two = simulation.platform.plant.ledger().received[2:]
    assert one / two == pytest.approx(3)


def test_a_network_between_regions_makes_rows_late() -> None:
    def p50_s(delay_s: float) -> float:
        hosts = [{"name": "e", "cpu": 9, "region": "eu"}, {"name": "u", "cpu": 9, "region": "us"}]
        operators = [{"name": "a", "cost": 0.001}, {"name": "b", "cost": 0.001}]
        regions = [{"between": ["us", "eu"], "delay_s": delay_s}]
        simulation = simulate(applications=[pipeline(operators=operators)], hosts=hosts, regions=regions)
        return float(simulation.run().summary["applications"]["clicks"]["latency"]["p50_s"])

    assert p50_s(0) == pytest.approx(2.0)
    assert p50_s(5) == pytest.approx(7.0)


def test_start_up_and_migration_take_their_time() -> None:
    simulation = simulate(applications=[pipeline()], delays={"startup_s": 10})
    simulation.advance_to(10)
    assert simulation.platform is not None
    assert simulation.platform.plant.ledger().processed.sum() == 0
    simulation.advance_to(11)
    assert simulation.platform.plant.ledger().processed.sum() > 0


def test_measures_of_the_paper() -> None:
    result = simulate(
        applications=[{"name": "a", "load": 100, "operators": [{"name": "w", "cost": 0.05}]}],
        hosts=[{"name": "h", "cpu": 4, "cost_per_hour": 6}],
        duration_s=10,
    ).run()
    assert result.hosts is not None
    assert result.applications is not None
    # 100 rows come, 80 are done in a second: Σ RR / w is 5/4 in the first step, then the queue adds to it
    assert result.hosts.of("h", "overload")[:2] == pytest.approx([1.25, 1.5])
    assert result.hosts.of("h", "utilisation")[:2] == pytest.approx([1.0, 1.0])
    assert result.applications.of("a", "relative_latency")[:2] == pytest.approx([1.25, 1.5])
    assert result.summary["throughput_rows_per_s"] == pytest.approx(80)
    assert result.summary["cost"] == pytest.approx(6 * 10 / 3600)


def test_every_problem_of_a_file_is_told_with_its_line() -> None:
    text = """\
duration_s: 60
hosts:
  - {name: h, cpu: 4}
  - {name: h, cpu: 4}
regions:
  - {between: [here, mars], delay_s: 1}
applications:
  - name: a
    load: 10
    operators:
      - {name: x, inputs: [y]}
      - {name: y, inputs: [x]}
  - name: b
    load: 10
    operators:
      - {name: z, inputs: [ghost]}
      - {name: v, cost: {gpu: 1}}
  - name: b
    load: 10
    operators:
      - {name: w, parallelism: 2, routing: {by: key, weights: [1]}}
      - {name: u, routing: {by: custom, weights: [[1], [1], [1]]}}
      - {name: t, routing: {by: custom}}
events:
  - {event: KillNode, at_s: 5, id: nobody}
  - {event: KillOperator, at_s: 99, id: a.x}
  - {event: NewNode, at_s: 9, id: late, cpu: 1}
  - {event: KillNode, at_s: 5, id: late}
  - {event: NewNode, at_s: 9, id: late, cpu: 1}
"""
    with pytest.raises(PolicyInvalid) as found:
        parse_scenario(text, "s.yaml")
    assert sorted(found.value.problems) == sorted(
        [
            "line 4: h is defined twice",
            "line 6: no host stands in region mars",
            "line 10: a has a cycle: x → y → x",
            "line 16: b.z reads ghost, which is no operator of b",
            "line 17: b.v needs gpu, which no host has",
            "line 18: b is defined twice",
            "line 21: b.w: 1 weights for 2 instances",
            "line 22: b.u: 3 rows of weights for 2 instances of w",
            "line 23: b.t: custom routing needs weights",
            "line 25: no host is named nobody",
            "line 26: KillOperator at 99 s comes after the end (60 s)",
            "line 28: KillNode at 5 s comes before late exists (9 s)",
            "line 29: late is defined twice",
        ]
    )


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("duration_s: -5", "line 1: duration_s: should be greater than 0, not -5"),
        ("duration_s: .nan", "line 1: duration_s: should be a finite number"),
        ("duration: 5", "duration: unknown setting; did you mean duration_s"),
        ("planets: 5", "planets: unknown setting; allowed here"),
        ("duration_s: 5\nhosts: [{name: h, cpu: -1}]", "line 2: hosts.0.cpu: should be greater than 0, not -1"),
        ("duration_s: 5", "there is nothing to simulate"),
        ("duration_s: 5\napplications: [{name: a, load: -1, operators: [{name: o}]}]", "line 2: .*load"),
        (
            "duration_s: 5\nhosts: [{name: h, cpu: 1}]\nevents:\n"
            + "  - {event: NewSinusOperator, at_s: 0, id: t, baseline: 1, amplitude: .nan, period_s: 4}",
            "line 4: events.0.NewSinusOperator.amplitude: should be a finite number",
        ),
        ("duration_s: 5\nevents: [{event: Explode, at_s: 0}]", "line 2: events.0: .*'Explode'"),
        (
            "duration_s: 5\npool:\n  applications: [{name: a, load: 1, operators: [{name: o, cost_s_per_row: 1}]}]\n"
            + "  faults: [{kind: metrics-stale, at_s: 3}]",
            "line 4: pool.faults.0: metrics-stale needs an until_s after its at_s",
        ),
        ("- a list", "must be a mapping"),
        ("a: [", "not YAML"),
    ],
)
def test_bad_files_say_what_is_wrong_and_where(line: str, message: str) -> None:
    with pytest.raises(PolicyInvalid, match=message):
        parse_scenario(line)


def test_a_file_that_is_not_there() -> None:
    with pytest.raises(InvalidInput, match="cannot be read"):
        load_scenario("no/such/scenario.yaml")


def test_an_unknown_scheduler_names_those_there_are() -> None:
    events = "events: [{event: NewNode, at_s: 0, id: n, cpu: 1}, {event: Schedule, at_s: 3, scheduler: dice}]"
    with pytest.raises(PolicyInvalid, match=r"line 2: unknown scheduler 'dice'; known are .*round-robin") as found:
        parse_scenario(f"duration_s: 5\n{events}\nscheduler: coin")
    assert any(problem.startswith("line 3: unknown scheduler 'coin'") for problem in found.value.problems)


@pytest.mark.slow
@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.yaml")), ids=lambda path: path.stem)
def test_examples_run_and_give_plain_json(path: Path) -> None:
    result = Simulation(load_scenario(path)).run().to_dict()
    assert json.loads(json.dumps(result, allow_nan=False)) == result
    applications = result["summary"].get("applications") or result["summary"]["pool"]["applications"]
    assert all(application["rows_out"] > 0 for application in applications.values())


@pytest.mark.slow
def test_the_burst_example_grows_and_shrinks_with_its_load() -> None:
    result = Simulation(load_scenario(EXAMPLES / "burst.yaml")).run()
    assert result.pool is not None
    executors = result.pool.of("pool", "executors")
    assert executors[0] == 1
    assert executors.max() >= 3
    assert executors[-1] == 1
    assert result.pool_applications is not None
    assert result.pool_applications.of("words", "queued")[-1] < 500


def test_a_schedule_is_not_fooled_by_flows_that_stopped_with_a_host() -> None:
    """While `parse` has no host nothing reaches `count`; its demand is still what the load will bring."""
    simulation = simulate(
        applications=[pipeline()],
        events=[{"event": "Schedule", "at_s": 0}, {"event": "KillNode", "at_s": 20, "id": "h-0"}],
    )
    simulation.advance_to(40)
    assert simulation.platform is not None
    situation = simulation.platform.situation()
    demand = dict(zip(situation.task_names, situation.demand, strict=True))
    counted = [demand[f"clicks.count[{index}]"] for index in range(3)]
    assert sum(float(series.mean()) for series in counted if series is not None) == pytest.approx(100 * 0.02)


def test_four_signals_as_the_paper_tells_it() -> None:
    report = four_signals.run("tidegate")
    assert [entry["at_s"] for entry in report["schedules"]] == [0.0, 100.0, 300.0]
    assert report["pairs"][1:] == [[["t0", "t1"]], [["t0", "t1"], ["t2", "t3"]]]
    assert report["opposite_phases_share_a_host"]
    assert report["late_queue_slope_rows_per_s"] == pytest.approx(-2.0, abs=1e-6)
    assert report["early_queue_rows_at_end"] == pytest.approx(0.0, abs=1e-6)
    assert report["late_queue_rows"]["after_last_schedule"] == pytest.approx(2 * 249 * 100 - 2)
    blind = four_signals.run("round-robin")
    assert not blind["opposite_phases_share_a_host"]


def test_the_example_file_is_the_experiment() -> None:
    from_file = load_scenario(EXAMPLES / "four-signals.yaml")
    assert Simulation(from_file).run().summary == Simulation(four_signals.scenario()).run().summary


@pytest.mark.slow
def test_four_signals_are_drawn(tmp_path: Path) -> None:
    report = four_signals.run(out=tmp_path)
    assert Path(report["figure"]).read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_watching_is_paced_and_gives_the_same_result() -> None:
    real_s = [0.0]

    def sleep(seconds: float) -> None:
        real_s[0] += seconds

    screen = io.StringIO()
    scenario = load_scenario(EXAMPLES / "burst.yaml")
    watched = watch(
        Simulation(scenario),
        speed=20,
        console=Console(file=screen, force_terminal=True, width=100),
        now_s=lambda: real_s[0],
        sleep=sleep,
    )
    assert real_s[0] == pytest.approx(scenario.duration_s / 20, abs=0.5)
    assert watched.summary == Simulation(scenario).run().summary
    assert "executors" in screen.getvalue()
    with pytest.raises(InvalidInput, match="speed"):
        watch(Simulation(scenario), speed=0)
