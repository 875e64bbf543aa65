"""What rows say: every kind of content depends on the row's index alone, and bad specifications are named."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.domain import InvalidInput
from tidegate.load import content_from_spec
from tidegate.load.rides import FIELDS, Rides

SPECS = ["sentences", "random-text", "rides", '{"kind": "rides", "drivers": 7, "seed": 3}']


@pytest.mark.parametrize("spec", SPECS)
@given(first=st.integers(0, 10**7), before=st.integers(0, 20), rows=st.integers(1, 20))
def test_a_row_says_the_same_in_every_slice(spec: str, first: int, before: int, rows: int) -> None:
    content = content_from_spec(spec)
    assert content.texts(first + before, first + before + rows) == content.texts(first, first + before + rows)[before:]


def test_seeds_differ() -> None:
    one, other = (content_from_spec(f'{{"kind": "random-text", "seed": {seed}}}') for seed in (1, 2))
    assert one.texts(0, 5) != other.texts(0, 5)


def test_no_driver_has_two_rides_at_once() -> None:
    free_from: dict[str, datetime] = {}
    for line in Rides(drivers=5).texts(0, 500):
        fields = dict(zip(FIELDS.split(","), line.split(","), strict=True))
        pickup, dropoff = datetime.fromisoformat(fields["pickup"]), datetime.fromisoformat(fields["dropoff"])
        assert pickup < dropoff
        assert free_from.get(fields["driver"], pickup) <= pickup
        free_from[fields["driver"]] = dropoff
    assert len(free_from) == 5


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("poems", "use sentences, random-text, rides, nexmark, text:PATH or rides:PATH"),
        ('{"kind": "poems"}', "use kind"),
        ("{", "use kind"),
        ('{"kind": "rides", "cars": 3}', "drivers, seed"),
        ('{"kind": "rides", "drivers": "many"}', "whole numbers"),
        ("rides:absent.csv", "cannot be read"),
    ],
)
def test_bad_specifications_are_named(spec: str, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        content_from_spec(spec)


def test_a_file_that_holds_no_rides_is_named(tmp_path: Path) -> None:
    path = tmp_path / "other.csv"
    path.write_text("a,b\n1,2\n")
    with pytest.raises(InvalidInput, match="no column"):
        content_from_spec(f"rides:{path}")
