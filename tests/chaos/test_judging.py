"""What the chaos run counts: a sink that knows its batches and runs, rows that went missing, runs that overlapped."""

from __future__ import annotations

import random
import time
from collections import Counter
from pathlib import Path

import pytest

from tidegate_lab.experiments.chaos_feed import key_of, messages
from tidegate_lab.experiments.chaos_play import Play, Struck, judge_counts, judge_ids, overlaps
from tidegate_lab.experiments.chaos_sink import Sink
from tidegate_lab.experiments.chaos_watch import CALM_S, SAMPLE_S, Sample, Watch


def fine() -> None:
    """The lease is still ours."""


@pytest.fixture
def sink(tmp_path: Path) -> Sink:
    return Sink(tmp_path / "sink.db")


def test_a_batch_that_is_repeated_changes_nothing(sink: Sink) -> None:
    sink.put_counts(0, 1, [("a", 2)], fine)
    sink.put_counts(0, 2, [("a", 7), ("b", 1)], fine)
    assert sink.counts() == {"a": 2}
    sink.put_counts(1, 2, [("b", 1)], fine)
    assert sink.counts() == {"a": 2, "b": 1}
    assert (sink.total(), [batch.run for batch in sink.batches()]) == (3, [1, 2])


def test_a_run_that_was_replaced_writes_nothing(sink: Sink) -> None:
    sink.put_ids(0, 2, [1, 2], fine)
    with pytest.raises(RuntimeError, match="run 2 has taken its place"):
        sink.put_ids(1, 1, [3], fine)
    assert sink.copies() == {1: 1, 2: 1}


def test_a_transaction_whose_lease_is_gone_is_undone(sink: Sink) -> None:
    def gone() -> None:
        raise RuntimeError("fenced")

    with pytest.raises(RuntimeError, match="fenced"):
        sink.put_ids(0, 1, [1], gone)
    assert sink.copies() == {}
    assert sink.batches() == []


def test_a_commit_after_the_next_run_began_is_an_overlap(sink: Sink) -> None:
    sink.put_ids(0, 1, [1], fine)
    between_s = time.time()
    sink.put_ids(1, 1, [2], fine)
    assert overlaps(sink, {1: 0.0}) == 0
    assert overlaps(sink, {1: 0.0, 2: time.time() + 1}) == 0
    assert overlaps(sink, {1: 0.0, 2: between_s}) == 1


def test_ids_that_are_there_twice_or_not_at_all_are_found(sink: Sink) -> None:
    sink.put_ids(0, 1, [0, 1, 1], fine)
    judged = judge_ids(3, sink.copies())
    assert (judged.rows_lost, judged.rows_doubled) == (1, 1)


def test_state_that_went_missing_shows_in_the_counts() -> None:
    """The last rows touch every key: a count that began anew is lower than it should be."""
    expected = Counter(key for row in range(10_000) for key, _ in messages(row))
    seen_late = Counter(key for row in range(9_000, 10_000) for key, _ in messages(row))
    found = {**expected, key_of(1): seen_late[key_of(1)], key_of(9_999): seen_late[key_of(9_999)]}
    judged = judge_counts(expected, found)
    assert judged.rows_in == sum(expected.values())
    assert judged.rows_lost > 0
    assert judged.rows_doubled == 0


class World:
    """A job that keeps up, except for a while after each strike."""

    def __init__(self, hurts_s: float) -> None:
        self._hurts_s = hurts_s
        self._until_s = 0.0
        self.struck: list[str] = []

    def strike(self, kind: str) -> None:
        self.struck.append(kind)
        self._until_s = time.monotonic() + self._hurts_s

    def behind_s(self) -> dict[str, float]:
        return {"job": 9.0 if time.monotonic() < self._until_s else 1.0}


@pytest.fixture
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidegate_lab.experiments.chaos_watch.SAMPLE_S", SAMPLE_S / 25)
    monkeypatch.setattr("tidegate_lab.experiments.chaos_watch.CALM_S", CALM_S / 25)


@pytest.mark.slow
@pytest.mark.usefixtures("_quick")
def test_every_kind_strikes_once_a_round_in_the_seeds_order_and_is_waited_for() -> None:
    played: list[tuple[list[str], list[Struck]]] = []
    for seed in (1, 1, 2):
        world = World(hurts_s=0.3)
        strikes = {kind: (lambda kind=kind, world=world: world.strike(kind)) for kind in "abcdef"}
        with Watch(world.behind_s, lambda: int(time.monotonic() * 1000)) as watch:
            struck = Play(watch, random.Random(seed), lambda *_: None).faults(strikes, 1.5)
        played.append((world.struck, struck))
    (first, faults), (again, _), (other, _) = played
    both = min(len(first), len(again))
    assert both >= 2
    assert first[:both] == again[:both]
    assert first[: len(other)] != other[: len(first)]
    assert len(set(first[:6])) == len(first[:6])
    assert [fault.kind for fault in faults] == first
    assert all(fault.recovered_s is not None and fault.recovered_s >= 0.25 for fault in faults)


@pytest.mark.usefixtures("_quick")
def test_a_job_that_does_not_come_back_is_not_called_recovered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidegate_lab.experiments.chaos_play._GIVEN_UP_S", 0.5)
    world = World(hurts_s=60.0)
    with Watch(world.behind_s, lambda: int(time.monotonic() * 1000)) as watch:
        (fault,) = Play(watch, random.Random(1), lambda *_: None).faults({"a": lambda: world.strike("a")}, 0.1)
    assert fault.recovered_s is None


def test_calm_needs_a_control_that_steps() -> None:
    watch = Watch(dict, lambda: 0)
    watch.samples = [Sample(watch.now_s() + at, {"job": 0.0}, 7) for at in (0.1, 0.2, 0.3)]
    assert not watch.calm(-CALM_S, 5.0)
    watch.samples.append(Sample(watch.now_s() + 0.4, {"job": 0.0}, 8))
    assert watch.calm(-CALM_S, 5.0)
