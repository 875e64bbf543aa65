"""What is written reads back equal, whatever it is."""

from __future__ import annotations

import math
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.journal.vocabulary import STEPS
from tidegate.control.journal import SqliteJournal, read_entries
from tidegate.control.journal.block import read_block, write_block
from tidegate.control.journal.templates import joined, parted
from tidegate.domain import Decision, Observation, Receipt

QUICK = (Phase.explicit, Phase.reuse, Phase.generate)  # a journal a try: looking for the least case takes minutes

Step = tuple[Observation, Decision | None, Receipt | None]

_LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.integers(0, 10_000).map(lambda value: value / 1000)
    | st.text(max_size=8)
    | st.sampled_from(["load 1.50", "load 12.25", "\x1a0 of 3", "at 007"])
)
_TREES = st.recursive(
    _LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b", "time_s"]), inner),
    max_leaves=8,
)


def exactly(left: Any, right: Any) -> bool:
    """Equal in type, order of keys, sign of zero, and NaN."""
    return repr(left) == repr(right)


@pytest.mark.slow
@given(st.lists(_TREES, max_size=30), st.integers(1, 4))
@settings(max_examples=120, deadline=None)
def test_any_trees_read_back(trees: list[Any], times: int) -> None:
    assert exactly(read_block(write_block(trees * times)), trees * times)


@given(st.lists(st.floats() | st.integers(-(2**70), 2**70), min_size=2, max_size=60))
@settings(max_examples=100, deadline=None)
def test_any_numbers_read_back(numbers: list[float]) -> None:
    rows = [{"x": number, "y": -number, "z": [number]} for number in numbers]
    assert exactly(read_block(write_block(rows)), rows)


@given(st.text(st.characters(exclude_categories=[])) | st.from_regex(r"[0-9.]{1,40}\x1a?[0-9]?"))
def test_any_text_is_parted_and_joined(text: str) -> None:
    pattern, numbers = parted(text)
    assert joined(pattern, numbers) == text
    assert all(number < 2**62 for number in numbers)


@pytest.mark.slow
@given(STEPS, st.booleans())
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck), phases=QUICK)
def test_any_steps_read_back_from_rows_and_from_blocks(steps: list[Step], repeated: bool) -> None:
    steps = steps * 2 if repeated else steps
    with TemporaryDirectory() as folder:
        journal = SqliteJournal(Path(folder) / "j.db")
        for step in steps:
            journal.record(*step)
        journal.close()
        found = [(entry.observation, entry.decision, entry.receipt) for entry in read_entries(journal.path)]
    assert found == steps


def test_an_infinite_figure_stays_infinite(tmp_path: Path) -> None:
    from tests.core.worlds import steady

    journal = SqliteJournal(tmp_path / "j.db")
    journal.record(steady(10, 1, 1)[0], Decision(1, math.inf, (), (), ()), None)
    (entry,) = read_entries(journal.path)
    assert entry.decision is not None
    assert entry.decision.time_s == math.inf
