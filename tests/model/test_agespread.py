"""Latency distributions made of stretches, against samples drawn from them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.model.agespread import quantiles, rows_over

stretches = st.lists(
    st.tuples(st.floats(1, 100), st.floats(0, 50), st.floats(0.01, 20), st.floats(0, 0.25)), min_size=1, max_size=6
)


@given(stretches, st.integers(0, 2**31))
@settings(max_examples=30, deadline=None)
def test_shares_and_quantiles_are_those_of_a_large_sample(
    drawn: list[tuple[float, float, float, float]], seed: int
) -> None:
    rows, low_s, width_s, deviation_s = (np.array(values)[:, None] for values in zip(*drawn, strict=True))
    deviation_s = deviation_s * width_s  # a batch's time varies by less than the rows of a batch differ in age
    random = np.random.default_rng(seed)
    counts = (rows[:, 0] / rows.sum() * 40_000).astype(int)
    ages_s = np.concatenate(
        [
            random.uniform(low, low + width, count) + random.logistic(0, max(deviation, 1e-9) * 3**0.5 / np.pi, count)
            for count, low, width, deviation in zip(counts, low_s[:, 0], width_s[:, 0], deviation_s[:, 0], strict=True)
        ]
    )
    bound_s = float(np.quantile(ages_s, 0.7))
    share = rows_over(bound_s, rows, low_s, low_s + width_s, deviation_s)[0] / rows.sum()
    assert share == pytest.approx(0.3, abs=0.03)
    # Quantiles are read off a grid of 64 ages and smear narrow stretches by a cell, so shares are compared a step below
    # and a step above; between two stretches that are far apart a quantile may lie anywhere.
    step_s = 0.2 * float(np.std(ages_s)) + float(np.ptp(ages_s)) / 30 + 0.01
    for wanted, found_s in zip(
        (0.5, 0.99), quantiles((0.5, 0.99), rows, low_s, low_s + width_s, deviation_s), strict=True
    ):
        assert np.mean(ages_s <= found_s[0] + step_s) >= wanted - 0.04
        assert np.mean(ages_s <= found_s[0] - step_s) <= wanted + 0.04


def test_a_column_without_rows_has_no_latency() -> None:
    none = np.zeros((3, 2))
    assert [found.tolist() for found in quantiles((0.99,), none, none, none, none)] == [[0.0, 0.0]]
