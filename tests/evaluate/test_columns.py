"""The fast ways through the columns say the same as the careful ones."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import numpy as np
import pytest

from tidegate.domain import ApplicationSample, ArrivalSample, BatchSample, LatencySample
from tidegate.evaluate.expected import ClassForecasts, Expected
from tidegate.evaluate.forecast.arrivals import ArrivalForecaster, Recent
from tidegate.evaluate.forecast.buckets import Buckets
from tidegate.evaluate.intake import Intake, Reader
from tidegate.evaluate.table import Column, Table


def batch(number: int, rows: int = 10) -> BatchSample:
    return BatchSample(number, 5.0 + number, 0.5, rows, 0.3, 0.1, 4, LatencySample(rows, 0.5, 0.7, 0.9, 1.0))


def sample(name: str, *batches: BatchSample) -> ApplicationSample:
    return ApplicationSample(name, batches, 9.0, 1.0, arrival=ArrivalSample(10.0, 70), gated=True)


def read(*samples: ApplicationSample) -> Intake:
    return Reader(Table({"size": Column()})).read(samples)


def test_what_one_application_leaves_out_changes_nothing_about_the_others() -> None:
    whole = read(sample("a", batch(1)), sample("b", batch(2, rows=20)))
    silent = replace(sample("c"), arrival=None, last_progress_s=None)
    blind = replace(sample("d"), batches=(replace(batch(3), latency=None, busy_s=None, backlog_rows=None),))
    partial = read(sample("a", batch(1)), sample("b", batch(2, rows=20)), silent, blind)
    assert partial.arrived[:2].tolist() == whole.arrived.tolist() == [70.0, 70.0]
    assert np.isnan([partial.arrived[2], partial.last_progress_s[2]]).all()
    (known,), (round_,) = whole.rounds, partial.rounds
    assert round_.rows.tolist() == [0, 1, 3]
    for name in ("started_s", "duration_s", "size", "busy_s", "overhead_s", "backlog", "p99_s", "max_s"):
        assert getattr(round_, name)[:2].tolist() == getattr(known, name).tolist(), name
    assert np.isnan([round_.p99_s[2], round_.busy_s[2]]).all()
    assert round_.backlog[2] == 0.0


def test_several_batches_come_in_rounds_and_none_in_no_round() -> None:
    found = read(sample("a", batch(1), batch(2)), sample("b", batch(3)))
    assert [one.rows.tolist() for one in found.rounds] == [[0, 1], [0]]
    assert found.busy_s(2).tolist() == pytest.approx([0.6, 0.3])
    assert read(sample("a")).rounds == read().rounds == ()


def test_a_change_of_status_or_limit_is_seen_and_leaves_the_step_before_alone() -> None:
    reader = Reader(Table({"size": Column()}))
    first = reader.read((sample("a"), sample("b")))
    changed = replace(sample("b"), admission_rows=50, running=False, error="gone")
    second = reader.read((sample("a"), changed))
    assert first.limits.tolist() == [inf, inf]
    assert second.limits.tolist() == [inf, 50.0]
    assert (first.status.running.tolist(), second.status.running.tolist()) == ([True, True], [True, False])
    assert second.status.failed.tolist() == [False, True]
    assert reader.read((changed,)).limits.tolist() == [50.0]


@pytest.mark.parametrize("names", [["a", "b", "c"], ["c", "a"]])
def test_what_is_gathered_and_scattered_is_in_the_table(names: list[str]) -> None:
    table = Table({"one": Column(), "two": Column(5.0)})
    table.rows_of(["a", "b", "c"])
    rows, span = table.rows_of(names), table.span("one", "two")
    block = table.gather(span, rows)
    block[0] += 1.0
    table.scatter(span, rows, block)
    assert table["one"][rows].tolist() == [1.0] * len(names)
    assert table["one"].sum() == len(names)
    assert table["two"].tolist() == [5.0] * 3


def test_buckets_count_the_same_whichever_way_a_step_takes() -> None:
    random = np.random.default_rng(3)
    quick, careful, streams = Buckets(5.0), Buckets(5.0), np.arange(4)
    for buckets in (quick, careful):
        buckets.add(np.array([0.0, 1.3, 2.0, 4.9]))
    totals = np.zeros(4)
    for second in range(200):
        totals = totals + random.poisson(20, 4)
        totals[random.random(4) < 0.02] = 0.0  # a source starts anew
        told = np.where(random.random(4) < 0.1, np.nan, totals)
        found = quick.tell(float(second), streams, told)
        expected = careful.tell(float(second), streams.copy(), told)  # never the same streams: never the short way
        assert [(one.streams.tolist(), one.end_s.tolist()) for one in found] == [
            (one.streams.tolist(), one.end_s.tolist()) for one in expected
        ]
        np.testing.assert_array_equal(quick.table, careful.table)


def test_what_is_followed_by_the_minute_goes_on_as_of_late() -> None:
    arrivals = ArrivalForecaster()
    for second in range(400):
        rows = 100.0 * second + 300.0 * max(0, second - 380)
        arrivals.tell(float(second), ["one", "Σ"], [rows, rows], near_from=1)
    recent = Recent(np.array([400.0]), np.array([10.0]))
    path = arrivals.path([0], 600.0, 10.0, recent)
    assert path.mean[0, 0] == 400.0
    assert path.lower[0, 0] < 400.0 < path.upper[0, 0]
    assert path.mean[0, -1] < 200.0, "the burst is not seen in minutes yet"
    assert not path.trusted[0, 0]
    assert arrivals.path([1], 60.0, 10.0).mean[0, 0] > 200.0, "sums are followed by the second"


def test_forecasts_of_classes_are_looked_at_every_five_seconds() -> None:
    arrivals, classes = ArrivalForecaster(), ClassForecasts()
    found = []
    for second in range(60):
        arrivals.tell(float(second), ["one", "Σ"], [10.0 * second, 10.0 * second], near_from=1)
        classes.look(float(second), arrivals, applications=1, classes=1)
        found.append(Expected(arrivals, 1, classes).classes_ahead(steps=3, step_s=5.0))
    assert len({id(one) for one in found}) == 12
    assert found[-1] is not None
    assert found[-1].mean.round().tolist() == [[10.0, 10.0, 10.0]]
