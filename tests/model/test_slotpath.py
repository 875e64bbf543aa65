"""One number of slots and a table of them have to come to the same."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tidegate.model.slotpath import effective_slots, effective_slots_at

OPERATORS = st.lists(st.tuples(st.integers(1, 200), st.floats(1e-6, 1e3)), max_size=5)


@given(OPERATORS, st.floats(0.0, 300.0) | st.integers(0, 300).map(float), st.booleans())
def test_one_number_is_what_the_table_has(operators: list[tuple[int, float]], slots: float, in_waves: bool) -> None:
    tasks, work = [tasks for tasks, _ in operators], [work for _, work in operators]
    table = effective_slots(np.array([slots]), tasks, work, in_waves)
    assert effective_slots_at(slots, tasks, work, in_waves) == table[0]
