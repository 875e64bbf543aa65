"""Whether tasks run in waves is measured, not assumed."""

from __future__ import annotations

import numpy as np
import pytest

from tidegate.domain.cost import BatchCost
from tidegate.evaluate.waves import WarmBatch, WavesMemory, learn

_COST = BatchCost(batch_s=0.0, row_s=0.01, overhead_s=0.2)
_WAVES_S, _BLURRED_S = 0.2 + 10 / (32 / 3), 0.2 + 10 / 14
"""1000 rows of 32 equal tasks on 14 slots: three waves, or no slot idle."""


def _told(measured_s: float, batches: int, memory: WavesMemory | None = None) -> WavesMemory:
    memory = memory or WavesMemory()
    for _ in range(batches):
        learn(memory, _COST, WarmBatch(1000, 14, [32], [1.0], measured_s))
    return memory


@pytest.mark.parametrize(("measured_s", "in_waves"), [(_WAVES_S, True), (_BLURRED_S, False)])
def test_the_rule_that_explains_the_batches_is_believed(measured_s: float, in_waves: bool) -> None:
    assert _told(measured_s, 40).in_waves is in_waves


def test_a_few_batches_are_no_evidence() -> None:
    assert _told(_BLURRED_S, 20).in_waves


def test_batches_that_fit_in_whole_waves_say_nothing() -> None:
    memory = WavesMemory()
    for _ in range(50):
        learn(memory, _COST, WarmBatch(1000, 16, [32], [1.0], 0.2 + 10 / 16))
    assert (memory.batches, memory.in_waves) == (0, True)


def test_a_change_is_noticed() -> None:
    """Tasks that had blurred become equal: waves count again."""
    memory = _told(_BLURRED_S, 200)
    assert _told(_WAVES_S, 200, memory).in_waves


@pytest.mark.parametrize("in_waves", [True, False])
def test_a_small_difference_is_told_apart_in_spite_of_noise(in_waves: bool) -> None:
    """32 tasks on 18 slots: two waves are as good as 16 slots, which is 9 % of the batch's time."""
    memory, noise = WavesMemory(), np.random.default_rng(1).lognormal(0.0, 0.05, 200)
    cost, slots = BatchCost(batch_s=0.0, row_s=0.001, overhead_s=0.3), 16 if in_waves else 18
    for factor in noise.tolist():
        learn(memory, cost, WarmBatch(12_500, 18, [32], [1.0], (0.3 + 12.5 / slots) * factor))
    assert memory.in_waves is in_waves
