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

from tidegate.domain import ApplicationSample, ArrivalSample, BatchSample
from tidegate.evaluate.table import Flags, Floats, Ints, Table

_TIMES, _COUNTS, _FLAGS = 9, 4, 8
"""Numbers of each type in a row of the buffer. Flags take one byte each and fill up eight."""
_ROW = struct.Struct(f"{_TIMES}d{_COUNTS}q{_FLAGS}?")
_WORDS = _ROW.size // 8


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
        times, counts, flags = _columns(_packed(samples, 0), len(samples))
        telling = tuple(flags[7].nonzero()[0].tolist())
        running = flags[2]
        return Intake(
            samples=samples,
            names=self._names,
            rows=rows,
            status=Status(
                interval_s=times[2],
                running=running,
                bounded=flags[3],
                rebalancing=flags[4],
                failed=flags[5],
                gated=flags[6],
                stopped=() if running.all() else tuple((~running).nonzero()[0].tolist()),
            ),
            limits=np.where(counts[3] < 0, inf, counts[3]),
            in_batch=flags[0],
            last_progress_s=times[0],
            arrival_s=times[1],
            arrived=np.where(np.isnan(times[1]), nan, counts[0]),
            under_way=_under_way(samples, telling),
            telling=telling,
            rounds=_rounds(samples, rows, (times, counts, flags), telling),
        )


@dataclass(frozen=True, slots=True)
class _Unmeasured:
    """Stands in for a latency that was not measured."""

    p99_s: float = nan
    max_s: float = nan


_UNMEASURED = _Unmeasured()
_UNCOUNTED = ArrivalSample(nan, 0)
_NO_BATCH = BatchSample(-1, nan, nan, 0, None, None, None)


def _packed(samples: Sequence[ApplicationSample], number: int) -> bytearray:
    """One row per application: its own numbers, and those of the new batch with this number.

    One loop and one call for each application, without building objects, because there are thousands.
    """
    packed, pack_into = bytearray(_ROW.size * len(samples)), _ROW.pack_into
    for at, sample in zip(range(0, len(packed), _ROW.size), samples, strict=True):
        batches = sample.batches
        batch = batches[number] if len(batches) > number else _NO_BATCH
        latency, arrival = batch.latency or _UNMEASURED, sample.arrival or _UNCOUNTED
        progress_s, busy_s, overhead_s = sample.last_progress_s, batch.busy_s, batch.overhead_s
        limit, real_time = sample.admission_rows, sample.held_slots is not None
        pack_into(
            packed,
            at,
            nan if progress_s is None else progress_s,
            arrival.time_s,
            sample.interval_s,
            batch.started_s,
            batch.duration_s,
            nan if busy_s is None else busy_s,
            nan if overhead_s is None else overhead_s,
            latency.p99_s,
            latency.max_s,
            arrival.arrived_rows,
            batch.rows,
            batch.backlog_rows or 0,
            -1 if limit is None else limit,
            sample.in_batch,
            batch.warming,
            sample.running,
            real_time or sample.bounded,  # both are not planned batch by batch
            sample.rebalancing,
            sample.error is not None,
            sample.gated,
            # The few that report more than sizes and times. Only these are searched for it.
            real_time
            or sample.partitions is not None
            or sample.running_batch is not None
            or sample.state_places
            or sample.lags
            or batch.memory is not None
            or batch.dropped_rows
            or len(batches) > 1,
        )
    return packed


_Columns = tuple[Floats, Floats, Flags]
"""Times, counts and flags: one row per field, in the order of `_packed`."""


def _columns(packed: bytearray, rows: int) -> _Columns:
    times = np.frombuffer(packed, np.float64).reshape(rows, _WORDS)[:, :_TIMES]
    counts = np.frombuffer(packed, np.int64).reshape(rows, _WORDS)[:, _TIMES : _TIMES + _COUNTS]
    flags = np.frombuffer(packed, np.bool_).reshape(rows, _ROW.size)[:, -_FLAGS:]
    return times.T.copy(), counts.T.astype(np.float64), flags.T.copy()


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
    there = ~np.isnan(first[0][3])
    if there.all():
        rounds += [_round(rows, samples, 0, first)] if samples else []
    elif there.any():
        places = there.nonzero()[0]
        cells = first[0][:, places], first[1][:, places], first[2][:, places]
        rounds.append(_round(rows[places], [samples[place] for place in places.tolist()], 0, cells))
    more = telling
    while more := tuple([place for place in more if len(samples[place].batches) > len(rounds)]):
        number, theirs = len(rounds), [samples[place] for place in more]
        rounds.append(_round(rows[list(more)], theirs, number, _columns(_packed(theirs, number), len(theirs))))
    return tuple(rounds)


def _round(rows: Ints, applications: Sequence[ApplicationSample], number: int, columns: _Columns) -> Batches:
    (_, _, _, started_s, duration_s, busy_s, overhead_s, p99_s, max_s), (_, size, backlog, _), flags = columns
    return Batches(
        rows, applications, number, started_s, duration_s, size, busy_s, overhead_s, backlog, flags[1], p99_s, max_s
    )  # fmt: skip
