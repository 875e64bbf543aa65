"""One observation as columns: what every application has reported since the last step.

Reading attributes of thousands of objects is most of the cost of a step, because each object is fetched from memory. So
every application is visited once, and all its numbers are packed into one row of a buffer. The columns are taken from
that buffer.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, nan

import numpy as np

from tidegate.domain import ApplicationSample, BatchSample
from tidegate.evaluate.table import Flags, Floats, Ints, Table

_NUMBERS, _FLAGS = 13, 5
"""Numbers and flags in a row of the buffer."""
_FIRST = 5
"""The first number that belongs to the batch. The ones before belong to the application."""
_ROW = struct.Struct(f"{_NUMBERS}d{_FLAGS}?")


@dataclass(frozen=True, slots=True)
class Batches:
    """At most one new batch of each application. An application with several is in several of these, in order."""

    rows: Ints
    """The table row of each batch's application."""
    applications: Sequence[ApplicationSample]
    number: int
    """Which of each application's new batches these are, from 0."""
    started_s: Floats
    duration_s: Floats
    size: Floats
    busy_s: Floats
    """NaN if the stages could not be read; likewise the overhead."""
    overhead_s: Floats
    backlog: Floats
    warming: Flags
    p99_s: Floats
    """NaN if latency was not measured; likewise the maximum."""
    max_s: Floats

    @property
    def committed_s(self) -> Floats:
        return self.started_s + self.duration_s

    def sample(self, at: int) -> BatchSample:
        """The batch at this index of the columns."""
        return self.applications[at].batches[self.number]


@dataclass(frozen=True, slots=True)
class Status:
    """Properties that rarely change."""

    interval_s: Floats
    running: Flags
    bounded: Flags
    rebalancing: Flags
    failed: Flags
    gated: Flags
    """Whether a new admission limit takes effect with the next trigger."""
    stopped: tuple[int, ...]
    """Indices of the applications that do not run."""


@dataclass(frozen=True, slots=True)
class UnderWay:
    """What is known about unfinished batches; NaN if there is none, or if a value is unknown."""

    started_s: Floats
    rows: Floats
    spent_s: Floats
    """Slot-seconds used by the batch so far."""
    expected_s: Floats
    """Total slot-seconds of the batch if the remaining tasks take as long as the finished ones."""
    waiting: Floats
    """Rows not yet planned into a batch, according to the source."""

    @property
    def seen(self) -> Flags:
        return ~np.isnan(self.started_s)


@dataclass(frozen=True, slots=True)
class Intake:
    """All applications of one observation."""

    samples: tuple[ApplicationSample, ...]
    names: tuple[str, ...]
    rows: Ints
    status: Status
    limits: Floats
    """Admitted rows per trigger; infinite without a limit."""
    in_batch: Flags
    last_progress_s: Floats
    arrival_s: Floats
    """When the source last counted its rows; NaN if it does not."""
    arrived: Floats
    telling: tuple[int, ...]
    """Applications that report more than sizes and times: lags, state, memory, dropped rows, a running batch."""
    under_way: UnderWay | None
    """None if no batch is seen to run and no source reports waiting rows."""
    rounds: tuple[Batches, ...]

    def busy_s(self, table_rows: int) -> Floats:
        """Slot-seconds of the new batches of each application."""
        if len(self.rounds) == 1 and self.rounds[0].rows is self.rows:
            return np.fmax(self.rounds[0].busy_s, 0.0)  # a value that could not be read counts as zero
        spent = np.zeros(table_rows)
        for batches in self.rounds:
            spent[batches.rows] += np.fmax(batches.busy_s, 0.0)
        return spent[self.rows]

    def index_in(self, batches: Batches, which: Flags, table_rows: int) -> Ints | None:
        """The index in the round of each application's batch; -1 if it has none of `which`. None if all have one."""
        if batches.rows is self.rows and np.count_nonzero(which) == len(which):
            return None
        at = np.full(table_rows, -1, dtype=np.int64)
        at[batches.rows] = np.where(which, np.arange(len(which)), -1)
        return at[self.rows]


class Reader:
    """Turns samples into columns."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._names: tuple[str, ...] = ()

    def read(self, samples: tuple[ApplicationSample, ...]) -> Intake:
        """Read the samples. New applications get a row in the table."""
        names = tuple([sample.name for sample in samples])
        if names != self._names:  # the same object as long as they stay the same, because others compare it
            self._names = names
        rows = self._table.rows_of(self._names)
        numbers, flags = columns = _columns(_packed(samples, 0), len(samples))
        last_progress_s, arrival_s, arrived, limits, interval_s = numbers[:_FIRST]
        in_batch, _, running, gated, unusual = flags
        bounded, rebalancing, failed, telling = _unusual(samples, unusual.nonzero()[0].tolist())
        return Intake(
            samples=samples,
            names=self._names,
            rows=rows,
            status=Status(
                interval_s=interval_s,
                running=running,
                bounded=bounded,
                rebalancing=rebalancing,
                failed=failed,
                gated=gated,
                stopped=tuple((~running).nonzero()[0].tolist()),
            ),
            limits=limits,
            in_batch=in_batch,
            last_progress_s=last_progress_s,
            arrival_s=arrival_s,
            arrived=arrived,
            under_way=_under_way(samples, telling),
            telling=telling,
            rounds=_rounds(samples, rows, columns, telling),
        )


@dataclass(frozen=True, slots=True)
class _Unknown:
    """Stands in for a latency that was not measured and for arrivals that were not counted."""

    p99_s: float = nan
    max_s: float = nan
    time_s: float = nan
    arrived_rows: float = nan


_UNKNOWN = _Unknown()
_NO_BATCH = BatchSample(-1, nan, nan, 0, None, None, None)


def _packed(samples: Sequence[ApplicationSample], number: int) -> bytearray:
    """One row per application: its own numbers, and those of the new batch with this number.

    One loop and one call for each application, without building objects, because there are thousands.
    """
    packed, pack_into = bytearray(_ROW.size * len(samples)), _ROW.pack_into
    for at, sample in zip(range(0, len(packed), _ROW.size), samples, strict=True):
        batches = sample.batches
        batch = batches[number] if len(batches) > number else _NO_BATCH
        latency, arrival = batch.latency or _UNKNOWN, sample.arrival or _UNKNOWN
        arrived = arrival.arrived_rows
        progress_s, busy_s, overhead_s = sample.last_progress_s, batch.busy_s, batch.overhead_s
        limit = sample.admission_rows
        pack_into(
            packed,
            at,
            nan if progress_s is None else progress_s,
            arrival.time_s,
            nan if arrived is None else arrived,
            inf if limit is None else limit,
            sample.interval_s,
            batch.started_s,
            batch.duration_s,
            batch.rows,
            nan if busy_s is None else busy_s,
            nan if overhead_s is None else overhead_s,
            batch.backlog_rows or 0,
            latency.p99_s,
            latency.max_s,
            sample.in_batch,
            batch.warming,
            sample.running,
            sample.gated,
            # The few that differ from a running query with nothing but sizes and times. Only these are looked at again.
            sample.held_slots is not None
            or sample.bounded
            or sample.rebalancing
            or sample.error is not None
            or sample.partitions is not None
            or sample.running_batch is not None
            or sample.state_places
            or sample.lags
            or batch.memory is not None
            or batch.dropped_rows
            or len(batches) > 1,
        )
    return packed


_Columns = tuple[Floats, Flags]
"""Numbers and flags: one row per field, in the order of `_packed`."""


def _columns(packed: bytearray, count: int) -> _Columns:
    if not count:
        return np.zeros((_NUMBERS, 0)), np.zeros((_FLAGS, 0), dtype=np.bool_)
    numbers: Floats = np.ndarray((_NUMBERS, count), np.float64, packed, strides=(8, _ROW.size))
    flags: Flags = np.ndarray((_FLAGS, count), np.bool_, packed, 8 * _NUMBERS, (1, _ROW.size))
    return numbers.copy(), flags.copy()  # contiguous columns


def _unusual(samples: tuple[ApplicationSample, ...], places: list[int]) -> tuple[Flags, Flags, Flags, tuple[int, ...]]:
    """Which applications are bounded, rebalancing or failed, and which report more than sizes and times."""
    bounded, rebalancing, failed = np.zeros((3, len(samples)), dtype=np.bool_)
    telling = []
    for place in places:
        sample = samples[place]
        real_time, batches = sample.held_slots is not None, sample.batches
        bounded[place] = real_time or sample.bounded  # both are not planned batch by batch
        rebalancing[place], failed[place] = sample.rebalancing, sample.error is not None
        if (
            real_time
            or sample.partitions is not None
            or sample.running_batch is not None
            or sample.state_places
            or sample.lags
            or len(batches) > 1
            or (batches and (batches[0].memory is not None or batches[0].dropped_rows))
        ):
            telling.append(place)
    return bounded, rebalancing, failed, tuple(telling)


def _under_way(samples: tuple[ApplicationSample, ...], telling: tuple[int, ...]) -> UnderWay | None:
    found = [
        place for place in telling if samples[place].running_batch is not None or samples[place].partitions is not None
    ]
    if not found:
        return None
    columns = np.full((5, len(samples)), nan)
    for place in found:
        sample = samples[place]
        batch, arrival = sample.running_batch, sample.arrival
        if arrival is not None and arrival.waiting_rows is not None:
            columns[4, place] = arrival.waiting_rows
        if batch is None:
            continue
        columns[0, place] = batch.started_s
        columns[1, place] = nan if batch.rows is None else batch.rows
        if batch.busy_s is not None and batch.held_s is not None:
            spent_s, running = batch.busy_s + batch.held_s, batch.tasks_running or 0
            usual_s = batch.busy_s / batch.tasks_done if batch.tasks_done else batch.held_s / max(1, running)
            columns[2, place] = spent_s
            columns[3, place] = spent_s + usual_s * max(0, batch.tasks_left - running)
    return UnderWay(*columns)


def _rounds(
    samples: tuple[ApplicationSample, ...], rows: Ints, first: _Columns, telling: tuple[int, ...]
) -> tuple[Batches, ...]:
    """The new batches in order. `first` are the columns of the first ones; few applications have more than one."""
    rounds: list[Batches] = []
    numbers, flags = first
    there = ~np.isnan(numbers[_FIRST])
    if np.count_nonzero(there) == len(samples):
        rounds += [_round(rows, samples, 0, first)] if samples else []
    elif np.count_nonzero(there):
        places = there.nonzero()[0]
        applications = [samples[place] for place in places.tolist()]
        rounds.append(_round(rows[places], applications, 0, (numbers[:, places], flags[:, places])))
    more = telling
    while more := tuple([place for place in more if len(samples[place].batches) > len(rounds)]):
        number, applications = len(rounds), [samples[place] for place in more]
        columns = _columns(_packed(applications, number), len(more))
        rounds.append(_round(rows[list(more)], applications, number, columns))
    return tuple(rounds)


def _round(rows: Ints, applications: Sequence[ApplicationSample], number: int, columns: _Columns) -> Batches:
    started_s, duration_s, size, busy_s, overhead_s, backlog, p99_s, max_s = columns[0][_FIRST:]
    warming = columns[1][1]
    return Batches(
        rows, applications, number, started_s, duration_s, size, busy_s, overhead_s, backlog, warming, p99_s, max_s
    )  # fmt: skip
