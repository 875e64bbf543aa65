"""Loads: what they are made of, how they are read, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tidegate.domain import InvalidInput
from tidegate_lab.arena.loads import FIELD, MADE, made
from tidegate_lab.arena.recorded import recorded_load


@pytest.mark.parametrize("name", MADE)
def test_a_made_load_depends_on_its_seed_alone(name: str) -> None:
    assert np.array_equal(made(name, seed=2).values, made(name, seed=2).values)
    assert not np.array_equal(made(name, seed=2).values, made(name, seed=3).values)
    assert made(name).values.min() >= 0


@pytest.mark.parametrize("name", FIELD)
def test_the_fields_loads_last_140_minutes_and_peak_where_they_are_told(name: str) -> None:
    load = made(name, seed=1)
    assert load.duration_s == 140 * 60
    assert load.rates(5000.0).max() == pytest.approx(5000.0)


def test_convergence_steps_in_sevenths() -> None:
    values = made("convergence", seed=1).values
    levels = [values[first : first + 20].mean() for first in (0, 30, 70, 110)]
    assert levels == pytest.approx([0, 75_000, 150_000, 75_000], abs=6_000)


def test_a_file_is_read_by_its_timestamps_or_by_a_given_step(tmp_path: Path) -> None:
    stamped = tmp_path / "stamped.csv"
    stamped.write_text(
        "timestamp,hits,misses\n"
        "2020-01-01 00:00,5,1\n2020-01-01 00:05,10,2\n2020-01-01 00:15,20,3\n2020-01-01 00:20,9,4\n"
    )
    load = recorded_load(f"{stamped}:misses", compress=5.0)
    assert load.values.tolist() == [1.0, 2.0, 2.0, 3.0, 4.0]  # the gap is bridged
    assert (load.step_s, load.played_step_s) == (300.0, 60.0)
    bare = tmp_path / "bare.csv"
    bare.write_text("count\n3\n4\n")
    assert recorded_load(str(bare), step_s=10.0).duration_s == 20.0


def test_rows_at_irregular_times_are_events_and_are_counted(tmp_path: Path) -> None:
    file = tmp_path / "requests.csv"
    times = ("18:17:03.9799600", "18:17:04.0319600", "18:17:04.0319600", "18:17:09.5", "18:17:24.1", "18:17:33.9")
    rows = [f"2023-11-16 {time},{tokens}" for time, tokens in zip(times, (5, 7, 1, 2, 4, 8), strict=True)]
    file.write_text("\n".join(["TIMESTAMP,tokens", *rows]))
    load = recorded_load(f"{file}:tokens", step_s=10.0)
    assert (load.values.tolist(), load.step_s) == ([15.0, 0.0, 12.0], 10.0)


def test_disorder_repeated_times_and_empty_cells_are_no_holes(tmp_path: Path) -> None:
    file = tmp_path / "load.csv"
    file.write_text("time,n\n120,3\n0,1\n60,\n120,5\n180,2\n240,6\n300,6\n")
    assert recorded_load(str(file)).values.tolist() == [1.0, 1.0, 4.0, 2.0, 6.0, 6.0]


_REFUSED = {
    "no times": ("count\n1\n", "", "--step-s"),
    "no such column": ("timestamp,count\n0,1\n60,2\n", ":hits", "no column 'hits'"),
    "text": ("timestamp,count\n0,1\n60,many\n", "", "line 3: count is 'many', not a number"),
    "negative": ("timestamp,count\n0,1\n60,-4\n", "", "line 3: count is -4; loads are 0 or more"),
    "endless": ("timestamp,count\n0,1\n60,inf\n", "", "loads are 0 or more"),
    "no time": ("timestamp,count\nnoon,1\n60,2\n", "", "neither ISO time nor seconds"),
    "no value": ("timestamp,count\n0,\n60,\n", "", "has no values"),
    "only zeros": ("timestamp,count\n0,0\n60,0\n", "", "no value above 0"),
    "empty": ("", "", "no column"),
    "only a header": ("timestamp,count\n", "", "has no values"),
}


@pytest.mark.parametrize(("text", "spec", "complaint"), _REFUSED.values(), ids=_REFUSED)
def test_what_cannot_be_a_load_is_refused_in_one_line(tmp_path: Path, text: str, spec: str, complaint: str) -> None:
    file = tmp_path / "load.csv"
    file.write_text(text)
    with pytest.raises(InvalidInput, match=complaint) as refused:
        recorded_load(f"{file}{spec}")
    assert "\n" not in str(refused.value)


def test_a_binary_file_and_a_missing_one_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "load.csv"
    file.write_bytes(bytes(range(256)))
    for spec, complaint in ((str(file), "cannot be read"), (f"{tmp_path}/none.csv:n", "no such file")):
        with pytest.raises(InvalidInput, match=complaint):
            recorded_load(spec)
