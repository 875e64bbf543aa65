"""What a batch and a row cost."""

import pytest

from tidegate.domain.cost import Cost
from tidegate.monitor.cost import fit_cost


def test_noise_on_small_batches_does_not_make_rows_cheap() -> None:
    rows = [100.0, 130.0, 90.0, 110.0, 80.0, 120.0]
    busy_s = [0.85, 0.86, 0.88, 0.84, 0.87, 0.85]  # 4 ms a row and 0.45 s a batch, under noise
    cost = fit_cost(rows, busy_s, [0.2] * 6, None)
    assert cost.row_s >= 0.004


def test_the_fixed_part_is_remembered_where_sizes_do_not_vary() -> None:
    before = Cost(batch_s=0.5, row_s=0.01, overhead_s=0.3)
    cost = fit_cost([100.0] * 6, [2.5] * 6, [0.3] * 6, before)
    assert (cost.batch_s, cost.row_s) == (0.5, pytest.approx(0.02))


def test_no_batch_costs_less_than_its_fixed_part() -> None:
    cost = fit_cost([10.0, 20.0], [0.2, 0.4], [0.1, 0.1], Cost(batch_s=9.0, row_s=0.01, overhead_s=0.1))
    assert cost.batch_s <= 0.2
    assert cost.row_s > 0
