"""Every local policy keeps the contract; the learning ones learn what they should."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.domain.errors import InvalidInput
from tidegate.managers.policies import (
    DecisionProcess,
    Experience,
    LearnedModel,
    LocalPolicy,
    ModelBased,
    OperatorLimits,
    OperatorView,
    QLearning,
    Threshold,
    Weights,
    Wish,
    rescued,
)

LIMITS = OperatorLimits(least=1, most=6, objective_s=1.0, full_rate_rows_per_s=600.0)
PROCESS = DecisionProcess(LIMITS, levels=24)


def _q(explore: bool = False) -> QLearning:
    return QLearning(PROCESS, Experience.empty(PROCESS), np.random.default_rng(1), explore=explore)


POLICIES: dict[str, Callable[[], LocalPolicy]] = {
    "threshold": lambda: Threshold(LIMITS),
    "q-learning": _q,
    "q-learning exploring": lambda: _q(explore=True),
    "model-based": lambda: ModelBased(PROCESS, LearnedModel.empty(PROCESS)),
}


def view_of(replicas: int, rate: float, settling: bool = False) -> OperatorView:
    """An operator whose replicas bear 100 rows a second each."""
    u = rate / (100 * replicas)
    return OperatorView(replicas, rate, min(1.0, u), 0.05 if u < 0.9 else 5.0, settling)


@pytest.mark.parametrize("name", POLICIES)
@settings(max_examples=10)
@given(seen=st.lists(st.tuples(st.integers(1, 6), st.floats(0, 900), st.booleans()), min_size=1, max_size=30))
def test_a_wish_is_one_step_within_the_limits(name: str, seen: list[tuple[int, float, bool]]) -> None:
    policy = POLICIES[name]()
    for replicas, rate, settling in seen:
        view = view_of(replicas, rate, settling)
        policy.watch(view)
        wish = policy.propose(view)
        assert wish.change in (-1, 0, 1)
        assert LIMITS.least <= replicas + wish.change <= LIMITS.most
        assert LIMITS.least <= replicas + wish.free_change <= LIMITS.most
        assert wish.score >= 0
        if settling:
            assert wish.change == 0


def test_threshold_follows_the_paper() -> None:
    policy = Threshold(LIMITS)
    assert policy.propose(OperatorView(3, 0, 0.71, 0)).change == 1
    assert policy.propose(OperatorView(3, 0, 0.70, 0)).change == 0
    assert policy.propose(OperatorView(3, 0, 0.34, 0)).change == -1  # 0.34 · 3/2 = 0.51 < 0.525
    assert policy.propose(OperatorView(3, 0, 0.36, 0)).change == 0
    assert policy.propose(OperatorView(1, 0, 0.01, 0)).change == 0


def test_growing_outranks_shrinking() -> None:
    policy = Threshold(LIMITS)
    assert policy.propose(OperatorView(3, 0, 0.75, 0)).score > policy.propose(OperatorView(3, 0, 0.01, 0)).score


def _live(policy: LocalPolicy, periods: int, seed: int) -> float:
    """The mean cost of a policy on one operator under a load that walks up and down."""
    rng = np.random.default_rng(seed)
    replicas, rate, total = 3, 250.0, 0.0
    for _ in range(periods):
        rate = float(np.clip(rate + rng.normal(0, 25), 40, 520))
        view = view_of(replicas, rate)
        policy.watch(view)
        change = policy.propose(view).change
        replicas += change
        total += PROCESS.cost(change, view)
    return total / periods


def test_model_based_learning_is_cheaper_than_the_threshold_after_training() -> None:
    model = LearnedModel.empty(PROCESS)
    _live(ModelBased(PROCESS, model), 4_000, seed=4)
    assert _live(ModelBased(PROCESS, model), 2_000, seed=5) < _live(Threshold(LIMITS), 2_000, seed=5)


def test_q_learning_that_does_not_explore_stays_near_the_threshold() -> None:
    table = Experience.empty(PROCESS)
    rng = np.random.default_rng(3)
    _live(QLearning(PROCESS, table, rng, explore=False), 4_000, seed=4)
    simple = _live(Threshold(LIMITS), 2_000, seed=5)
    assert _live(QLearning(PROCESS, table, rng, explore=False), 2_000, seed=5) < 1.1 * simple


def test_the_learned_cost_stays_monotone() -> None:
    model = LearnedModel.empty(PROCESS)
    policy, rng = ModelBased(PROCESS, model), np.random.default_rng(6)
    for _ in range(500):
        policy.watch(view_of(int(rng.integers(1, 7)), float(rng.uniform(0, 600))))
        assert (np.diff(model.late[1:], axis=1) >= -1e-12).all()


def test_full_backup_reaches_a_fixed_point() -> None:
    policy = ModelBased(PROCESS, LearnedModel.empty(PROCESS))
    for rate in np.linspace(0, 600, 50):
        policy.watch(view_of(3, float(rate)))
    policy.backup(sweeps=2_000)
    before = policy.model.values.copy()
    policy.backup()
    finite = np.isfinite(before)
    assert np.allclose(before[finite], policy.model.values[finite], atol=1e-6)


def test_memories_survive_as_plain_data() -> None:
    q, model = _q(explore=True), ModelBased(PROCESS, LearnedModel.empty(PROCESS))
    for rate in (100.0, 200.0, 300.0):
        q.watch(view_of(2, rate))
        model.watch(view_of(2, rate))
    table = Experience.from_plain(json.loads(json.dumps(q.experience.to_plain())), PROCESS)
    assert (table.values == q.experience.values).all()
    assert table.steps == 2
    plain = json.loads(json.dumps(model.model.to_plain()))
    assert (LearnedModel.from_plain(plain, PROCESS).counts == model.model.counts).all()
    other = DecisionProcess(OperatorLimits(1, 9, 1.0, 900.0), levels=24)
    with pytest.raises(InvalidInput, match="retrain"):
        Experience.from_plain(table.to_plain(), other)
    with pytest.raises(InvalidInput, match="retrain"):
        LearnedModel.from_plain(plain, other)


def test_impossible_settings_are_refused() -> None:
    with pytest.raises(ValueError, match="sum to 1"):
        Weights(0.5, 0.5, 0.5)
    with pytest.raises(ValueError, match="least"):
        OperatorLimits(3, 2, 1.0, 100.0)


def test_a_rise_is_answered_by_one_restart_for_all_that_it_will_need() -> None:
    """The objective still holds, but a load that has just begun to rise already needs more than one task."""
    limits = OperatorLimits(1, 4, objective_s=30.0, full_rate_rows_per_s=400.0)
    calm = OperatorView(1, 67.0, 0.3, 6.9, newest_rows_per_s=70.0)
    assert rescued(Wish(0, 0.0, "hold"), calm, limits) == (Wish(0, 0.0, "hold"), False)
    wish, urgent = rescued(Wish(0, 0.0, "hold"), replace(calm, newest_rows_per_s=125.0), limits)
    assert (wish.change, urgent) == (2, True), "125 rows/s keep 1.25 tasks busy, and 183 are to come"
