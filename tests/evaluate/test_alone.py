"""One application in plain numbers, held against the same application in columns: equal to the last bit."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from tidegate.domain import ApplicationSample, ArrivalSample, BatchSample, LatencySample, RunningBatch
from tidegate.evaluate import alone, lateness, quality, workload
from tidegate.evaluate.intake import Reader
from tidegate.evaluate.lateness import Promises
from tidegate.evaluate.table import Table

MAX_AGE_S, STEPS = 20.0, 300


def table() -> Table:
    return Table({**workload.COLUMNS, **lateness.COLUMNS})


def promises(count: int) -> Promises:
    each = [np.full(count, value) for value in (3.0, 0.99, 0.01, 60.0, 1.0, 0.0)]
    return Promises(*each, group=np.zeros(count, np.int64), level=np.zeros(count, np.int64), groups=("one",))


def batch(chance: random.Random, number: int, now_s: float) -> BatchSample:
    rows = chance.choice([0, 1, 40, 50, 60, 400])
    started_s = round(now_s - chance.uniform(0.5, 4.0), 4)
    busy_s = rows * (0.05 if chance.random() < 0.02 else chance.choice([0.01, 0.011]))
    slowest_s = round(chance.uniform(0.5, 5.0), 4)
    latency = LatencySample(max(rows, 1), 0.4 * slowest_s, 0.7 * slowest_s, 0.9 * slowest_s, slowest_s)
    return BatchSample(
        number,
        started_s,
        round(chance.uniform(0.2, 0.5), 4),
        rows,
        chance.choice([busy_s] * 9 + [None]),
        chance.choice([0.1, 0.12] * 20 + [0.9, None]),
        chance.choice([0, 0, 7, None]),
        chance.choice([latency] * 4 + [None]),
        warming=chance.random() < 0.05,
    )


def running(chance: random.Random, now_s: float) -> RunningBatch | None:
    begun_s = now_s - chance.choice([0.5, 5.0, 30.0])
    known_s = chance.choice([None, 12.5])
    held_s = None if known_s is None else 1.0
    seen = RunningBatch(begun_s, chance.choice([None, 500]), 2, 3, tasks_running=1, busy_s=known_s, held_s=held_s)
    return chance.choice([None, None, seen])


def samples(seed: int) -> list[tuple[float, ApplicationSample]]:
    """Batches and none, sources that start anew, reports that fail to come, batches that are seen to run, a rise."""
    chance = random.Random(seed)
    found: list[tuple[float, ApplicationSample]] = []
    now_s, arrived = 1000.0, 0
    for number in range(STEPS):
        now_s = round(now_s + chance.choice([0.0, 1.0, 1.0, 1.0, 2.5, 40.0 if number % 50 == 0 else 1.0]), 4)
        arrived = 5 if chance.random() < 0.01 else arrived + chance.choice([0, 40, 50, 60, 300])
        arrived += 100 * max(0, number - 250)
        few = chance.choice([0, 1, 1, 1, 2])
        sample = ApplicationSample(
            "words",
            tuple(batch(chance, 10 * number + one, now_s) for one in range(few)),
            chance.choice([None] + [now_s - 1.0] * 9),
            1.0,
            running=chance.random() > 0.02,
            in_batch=chance.random() < 0.5,
            running_batch=running(chance, now_s),
            arrival=ArrivalSample(now_s, arrived, waiting_rows=chance.choice([None, 17])),
            partitions=chance.choice([None, 4]),
            error=chance.choice([None] * 40 + ["broken"]),
        )
        found.append((now_s, sample))
    return found


@pytest.mark.parametrize("seed", range(6))
def test_alone_as_in_columns(seed: int) -> None:
    one, two = table(), table()
    reads_one, reads_two = Reader(one), Reader(two)
    asides = 0
    for now_s, sample in samples(seed):
        settled_s = 1050.0
        intake, both = reads_one.read((sample,)), reads_two.read((sample, replace(sample, name="twin")))
        assert alone.stands_alone(intake)
        assert not alone.stands_alone(both)
        aside = alone.learn(one, intake, promises(1), settled_s)
        expected = workload.learn(two, both, settled_s)
        lateness.learn(two, both, promises(2))
        assert aside == tuple(each for each in expected if each.application_row == 0)
        asides += len(aside)
        for name in (*workload.COLUMNS, *lateness.COLUMNS):
            assert np.array_equal(one[name][..., 0], two[name][..., 0], equal_nan=True), name
        loads, columns = alone.read(one, intake, now_s), workload.read(two, both, now_s)
        for name in loads.__slots__:
            assert np.array_equal(getattr(loads, name), getattr(columns, name)[:1], equal_nan=name != "known"), name
        codes = alone.judge(one, intake, loads.row_s.item(0), now_s, MAX_AGE_S)
        assert codes[0] == quality.judge(two, both, columns.row_s, now_s, MAX_AGE_S)[0]
        budgets, others = alone.budgets(one, intake, promises(1), now_s), lateness.read(two, both, promises(2), now_s)
        assert budgets.rows[0] == others.rows[0]
        assert budgets.late[0] == pytest.approx(others.late[0], rel=1e-12)
    assert asides


def test_sources_that_do_not_count_are_left_to_columns() -> None:
    sample = ApplicationSample("words", (), 1.0, 1.0)
    assert not alone.stands_alone(Reader(table()).read((sample,)))


@pytest.mark.parametrize("twins", [False, True])
def test_the_first_batch_after_a_quiet_time_has_taken_only_recent_rows(twins: bool) -> None:
    """A batch ended ten minutes ago. Rows have been arriving for three seconds, and a batch began a second ago."""
    kept = table()
    reads, found = Reader(kept), []
    for now_s, arrived in ((1000.0, 0), (1001.0, 100), (1600.0, 100), (1601.0, 1100), (1602.0, 2100), (1603.0, 3100)):
        last = BatchSample(1, 1000.2, 0.3, 100, 1.0, 0.1, 0)
        begun = RunningBatch(1602.0, None, 0, 4, tasks_running=4)
        sample = ApplicationSample(
            "words",
            (last,) if now_s == 1001.0 else (),
            now_s,
            1.0,
            in_batch=now_s == 1603.0,
            running_batch=begun if now_s == 1603.0 else None,
            arrival=ArrivalSample(now_s, arrived),
        )
        intake = reads.read((sample, replace(sample, name="twin")) if twins else (sample,))
        module = workload if twins else alone
        if twins:
            workload.learn(kept, intake, 0.0)
        else:
            alone.learn(kept, intake, promises(1), 0.0)
        found.append(module.read(kept, intake, now_s).pending.item(0))
    assert 0 < found[-1] < 3000, "not ten minutes of rows"
