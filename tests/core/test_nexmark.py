"""The generator of Nexmark's events, and the plain queries over them."""

from __future__ import annotations

from collections import Counter

from tidegate.load import Nexmark, content_from_spec
from tidegate_lab.workloads import nexmark_plain

LINES = Nexmark(seed=3).texts(0, 20_000)


def test_persons_auctions_and_bids_come_in_their_proportions() -> None:
    assert Counter(line[0] for line in LINES) == {"P": 400, "A": 1200, "B": 18_400}


def test_everything_refers_to_what_came_before() -> None:
    persons, auctions = set(), set()
    for line in LINES:
        kind, *parts = line.split("|")
        if kind == "P":
            persons.add(parts[0])
        elif kind == "A":
            assert parts[1] in persons
            auctions.add(parts[0])
        else:
            assert parts[1] in persons


def test_half_of_the_bids_go_to_hot_auctions() -> None:
    bids = [int(line.split("|")[1]) for line in LINES if line[0] == "B"]
    assert 0.48 < sum(auction % 100 == 0 for auction in bids) / len(bids) < 0.54


def test_the_source_makes_them_by_name() -> None:
    assert content_from_spec("nexmark").texts(7, 9) == Nexmark().texts(7, 9)


def test_plain_queries_on_events_written_by_hand() -> None:
    lines = ["P|1|Ann|Boise|ID|0", "A|123|1|10|500|1000", "B|123|1|1000|2000", "B|5|1|10|2500", "B|5|1|10|14000"]
    assert nexmark_plain.q1(lines)[0] == (123, 1, 908.0, 2000)
    assert nexmark_plain.q2(lines) == [(123, 1000)]
    assert nexmark_plain.q3(lines) == [("Ann", "Boise", "ID", 123)]
    assert (2000, 5, 1) in nexmark_plain.q5(lines)
    assert (0, 5, 1) in nexmark_plain.q5(lines)
    assert nexmark_plain.q8(lines) == [(1, "Ann", 0)]
    assert nexmark_plain.q11(lines) == [(1, 2, 2000, 12_500), (1, 1, 14_000, 24_000)]
