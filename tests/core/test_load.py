"""Loads: arrivals and counts are each other's inverse, and bad traces are refused with their line."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.domain import InvalidInput
from tidegate.load import Burst, Constant, Poisson, Sentences, Sinusoid, Spikes, Sum, TextLines, Timeline, Trace
from tidegate.load.profile import LoadProfile, profile_from_spec, profile_to_json

rates = st.floats(0.5, 5000)
simple = st.one_of(
    st.builds(Constant, rate=rates),
    st.builds(Burst, base=rates, peak=rates, start_s=st.floats(0, 30), duration_s=st.floats(1, 30)),
    st.builds(Sinusoid, baseline=rates, amplitude=rates, period_s=st.floats(5, 60)),
)
profiles = st.one_of(
    simple,
    st.builds(Poisson, of=simple, seed=st.integers(0, 99)),
    st.builds(
        Sum, parts=st.tuples(simple, st.builds(Spikes, height=rates, every_s=st.just(7.0), width_s=st.just(1.0)))
    ),
)


@pytest.mark.slow
@settings(max_examples=40)
@given(profile=profiles, t_s=st.floats(1, 40))
def test_arrivals_and_counts_are_inverse(profile: LoadProfile, t_s: float) -> None:
    timeline = Timeline(profile)
    rows = timeline.rows_by(t_s)
    arrivals = timeline.arrivals_s(0, rows)
    assert len(arrivals) == rows
    assert (np.diff(arrivals) >= 0).all()
    assert not rows or arrivals[-1] <= t_s + 1e-6
    again = Timeline(profile_from_spec(profile_to_json(profile)))
    assert again.rows_by(t_s) == rows
    if rows > 10:
        assert again.arrivals_s(rows - 3, rows).tolist() == arrivals[-3:].tolist()


def test_a_sum_arrives_as_its_parts_together() -> None:
    both = Timeline(Sum(parts=(Constant(rate=30), Constant(rate=12))))
    assert both.rows_by(10) == 420


@pytest.mark.slow
def test_poisson_counts_scatter_around_the_rate() -> None:
    rows = [Timeline(Poisson(of=Constant(rate=100), seed=seed)).rows_by(20) for seed in range(20)]
    assert abs(np.mean(rows) - 2000) < 60
    assert np.std(rows) == pytest.approx(np.sqrt(2000), rel=0.6)


def test_a_load_that_has_ended_says_so() -> None:
    with pytest.raises(ValueError, match="never arrives"):
        Timeline(Burst(base=0, peak=10, start_s=0, duration_s=5)).arrivals_s(0, 100)


def csv(tmp_path: Path, text: str) -> str:
    path = tmp_path / "trace.csv"
    path.write_text(text)
    return str(path)


def test_a_trace_is_scaled_in_time_and_rate(tmp_path: Path) -> None:
    path = csv(tmp_path, "when,count\n2024-01-01 00:00:00,60\n2024-01-01 00:01:00,120\n")
    trace = Trace(path=path, column="count", time_column="when", time_scale=60, rate_scale=2)
    assert trace.rows_per_s(np.array([0.0, 0.5, 1.5, 2.5])).tolist() == [2.0, 2.0, 4.0, 0.0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("t,v\n0,1\n60,2\n300,3\n", "line 3: a gap of 240 s follows"),
        ("t,v\n0,1\n60,-2\n", "line 3: v is -2; a load must be at least 0"),
        ("t,v\n60,1\n0,2\n", "line 3: t does not increase; sort the file"),
        ("t,v\n0,1\n60,many\n", "line 3: v is 'many', not a number"),
        ("t,v\n0,1\nsoon,1\n", "line 3: t is 'soon', neither ISO time nor seconds"),
        ("t,w\n0,1\n", "no column 'v'; it has t, w"),
        ("t,v\n0,nan\n", "a load must be at least 0"),
        ("t,v\n", "no rows from row 0"),
    ],
)
def test_bad_traces_say_where_and_what_to_do(tmp_path: Path, text: str, message: str) -> None:
    spec = {"kind": "trace", "path": csv(tmp_path, text), "column": "v", "time_column": "t"}
    with pytest.raises(InvalidInput, match=message):
        profile_from_spec(spec)


@pytest.mark.parametrize(("rule", "rate"), [("hold", 2.0), ("zero", 0.0)])
def test_gaps_can_be_held_or_emptied(tmp_path: Path, rule: str, rate: float) -> None:
    path = csv(tmp_path, "t,v\n0,60\n60,120\n300,60\n360,60\n")
    spec = {"kind": "trace", "path": path, "column": "v", "time_column": "t", "gaps": rule}
    assert profile_from_spec(spec).rows_per_s(np.array([200.0])).tolist() == [rate]


@pytest.mark.parametrize("spec", [{"kind": "burts"}, {"kind": "constant", "rate": -1}, {"rate": 5}, "{", "[]", None])
def test_a_wrong_profile_names_the_kinds(spec: object) -> None:
    with pytest.raises(InvalidInput, match=r"kinds are constant|not JSON"):
        profile_from_spec(spec)


def test_content_depends_on_the_index_alone(tmp_path: Path) -> None:
    assert Sentences().texts(100, 110) == Sentences().texts(0, 200)[100:110]
    assert Sentences(seed=1).texts(0, 5) != Sentences(seed=2).texts(0, 5)
    text = tmp_path / "book.txt"
    text.write_text("one\n\ntwo\nthree\n")
    assert TextLines(str(text)).texts(2, 5) == ["three", "one", "two"]
