"""Streams that come, go and keep their own time, and a bank that is saved and goes on exactly."""

from __future__ import annotations

import copy

import numpy as np
import pytest

from tests.forecast.test_contract import waves
from tidegate.evaluate.forecast import SelectingBank
from tidegate.evaluate.forecast.rows import State


def bank(streams: int) -> SelectingBank:
    return SelectingBank(streams, 3, anchors=(1,), seasons=(24,), history=128)


def test_saved_and_restored_it_goes_on_bit_for_bit() -> None:
    rows = waves(300, 3)
    rows[::11, 1] = np.nan
    whole, first = bank(3), bank(3)
    for row in rows[:170]:
        whole.observe(row)
        first.observe(row)
    again = SelectingBank.from_state(first.state())
    for row in rows[170:]:
        whole.observe(row)
        again.observe(row)
        a, b = whole.forecast(), again.forecast()
        for name in ("mean", "lower", "upper", "trusted"):
            np.testing.assert_array_equal(getattr(a, name), getattr(b, name))
    one, two = whole.state(), again.state()
    assert all(np.array_equal(one[name], two[name], equal_nan=True) for name in one)


def test_a_state_that_does_not_fit_is_refused() -> None:
    state: State = bank(2).state()
    state["ring"] = state["ring"][:1]
    with pytest.raises(ValueError, match=r"ring should have the shape \(2, 128\)"):
        SelectingBank.from_state(state)


def test_each_stream_has_a_clock_of_its_own() -> None:
    rows = waves(200, 2)
    together, apart = bank(2), bank(2)
    for row in rows:
        together.observe(row)
    for row in range(0, 200, 5):  # the same samples, but now one stream, now the other is behind
        for at in range(row, row + 5):
            apart.observe(rows[at, :1], [0])
        for at in range(row, row + 5):
            apart.observe(rows[at, 1:], [1])
    np.testing.assert_allclose(apart.forecast().mean, together.forecast().mean, rtol=1e-9)
    np.testing.assert_allclose(apart.forecast([1]).upper, together.forecast().upper[1:], rtol=1e-9)
    assert apart.age.tolist() == [200, 200]


def test_streams_are_added_and_removed_and_the_others_stay() -> None:
    rows = waves(160, 3)
    kept = bank(2)
    for row in rows[:80]:
        kept.observe(row[:2])
    assert kept.add(1).tolist() == [2]
    assert np.isnan(kept.forecast().mean[2]).all()
    for row in rows[80:120]:
        kept.observe(row)
    before = kept.forecast([0, 2])
    kept.remove([1])
    assert kept.streams == 2
    np.testing.assert_array_equal(kept.forecast().mean, before.mean)
    kept.add(1)
    assert kept.age.tolist() == [120, 40, 0], "a new stream in the room of an old one starts empty"


def test_nothing_but_its_samples_moves_a_stream() -> None:
    rows = waves(60, 1)
    quiet = bank(2)
    for row in rows:
        quiet.observe(row, [0])
    before = quiet.forecast([0]).mean
    for row in rows:
        quiet.observe(row, [1])
    np.testing.assert_array_equal(quiet.forecast([0]).mean, before)
    with pytest.raises(ValueError, match="from 0 to 1"):
        quiet.observe([1.0], [2])


def test_a_gap_keeps_the_season_in_phase() -> None:
    hours = np.arange(24 * 20)
    values = 100 + 50 * np.sin(2 * np.pi * hours / 24)
    skipping = SelectingBank(1, 1, seasons=(24,), history=512)
    for value in values[:300]:
        skipping.observe([value])
    skipping.skip([0], 30)
    for value in values[330:440]:
        skipping.observe([value])
    assert skipping.forecast().mean[0, 0] == pytest.approx(values[440], abs=3)
    assert skipping.age.tolist() == [440]


def test_a_forecast_is_never_older_than_the_last_sample_gap_or_stream() -> None:
    random = np.random.default_rng(5)
    bank = SelectingBank(2, 12, anchors=(3,), history=256)
    changes = [
        lambda: bank.observe(random.random(bank.streams)),
        lambda: bank.observe(random.random(1), [0]),
        lambda: bank.skip([1], 5),
        lambda: bank.add(1),
        lambda: bank.remove([0]),
    ]
    for step in range(60):
        bank.forecast()
        bank.forecast([0])
        changes[0 if step < 40 else step % len(changes)]()
        fresh = SelectingBank.from_state(bank.state())
        for one, other in ((bank, fresh), (copy.deepcopy(bank), fresh)):
            np.testing.assert_array_equal(one.forecast().mean, other.forecast().mean)
            np.testing.assert_array_equal(one.forecast().upper, other.forecast().upper)
