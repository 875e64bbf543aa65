"""A burst that is expected: room is made for the heavy class before it comes, and not on the word of nobody."""

from __future__ import annotations

import numpy as np
import pytest

from tests.plan.classes.worlds import POLICY
from tidegate.adapters.sim import SimApplication, SimCluster, SimOperator
from tidegate.control.controller import Controller
from tidegate.domain import SetAdmission
from tidegate.evaluate.forecast.arrivals import ArrivalForecaster
from tidegate.load.profile import Burst, Constant, LoadProfile
from tidegate_lab.experiments.sensitivity import Blind, Erring

BURST_S = 90.0
LOADS: dict[str, LoadProfile] = {
    name: Burst(20, 100, start_s=BURST_S, duration_s=20.0) if name.startswith("q1") else Constant(rate)
    for name, rate in {"q1-0": 20, "q1-1": 20, "q3-0": 140, "q3-1": 140}.items()
}


def played(arrivals: ArrivalForecaster) -> tuple[SimCluster, list[tuple[float, SetAdmission]]]:
    """Two slots, 85 % busy before q1 wants five times as much."""
    jobs = [
        SimApplication(
            name, load, interval_s=5.0, overhead_s=0.2,
            operators=(SimOperator("work", cost_s_per_row=0.0053, parallelism=2),),
        )
        for name, load in LOADS.items()
    ]  # fmt: skip
    groups = {name: name[:2] for name in LOADS}
    policy = POLICY.model_validate(
        {
            "executors": {"min": 1, "max": 1},
            "classes": {name: rule for name, rule in POLICY.model_dump()["classes"].items() if name != "q2"},
            "applications": {name: {"class": group} for name, group in groups.items()},
        }
    )
    cluster = SimCluster(jobs, 1, 2, startup_s=0.001, warmup_s=0.001, groups=groups, seed=1)
    controller = Controller(policy)
    controller.knowledge.evaluation.arrivals = arrivals
    limits: list[tuple[float, SetAdmission]] = []
    for second in range(131):
        cluster.clock.sleep_until(float(second))
        decision = controller.step(cluster.observe())
        controller.learn(decision, cluster.converge(controller.knowledge.targets.after(decision.actions)))
        held = [one for one in decision.actions if isinstance(one, SetAdmission) and one.rows_per_trigger is not None]
        limits += [(decision.time_s, one) for one in held]
    return cluster, limits


def of_the_burst(cluster: SimCluster) -> float:
    """Mean response of q1's rows that came in the first half of the burst."""
    gates = [gate for gate in cluster.gates if gate.name.startswith("q1")]
    return float(np.mean([gate.ledger.latencies_of(BURST_S, BURST_S + 10, 130.0).mean_s for gate in gates]))


@pytest.mark.slow
def test_room_is_made_for_a_burst_that_is_expected_before_it_comes() -> None:
    knowing, expected = played(Erring(LOADS, error=0.0, common=False, seed=1))
    blind, surprised = played(Blind())

    def held_before(limits: list[tuple[float, SetAdmission]]) -> list[int]:
        """Limits of the light class, from a period before the burst until it comes, that leave rows behind."""
        window = [one for at_s, one in limits if BURST_S - 6 <= at_s < BURST_S and one.application.startswith("q3")]
        return [one.rows_per_trigger for one in window if (one.rows_per_trigger or 0) < 140 * 5]

    assert held_before(expected)
    assert not held_before(surprised)
    assert of_the_burst(knowing) <= of_the_burst(blind)


@pytest.mark.parametrize("arrivals", [Blind(), Erring({"a": Constant(10.0)}, 0.5, True, 1)])
def test_the_forecasters_of_the_experiments_keep_the_port(arrivals: ArrivalForecaster) -> None:
    arrivals.tell(1.0, ["a"], [10.0])
    path = arrivals.path([0], horizon_s=20.0, step_s=5.0)
    assert path.mean.shape == path.upper.shape == path.trusted.shape == (1, 4)
    assert bool(path.trusted.all()) is isinstance(arrivals, Erring)
