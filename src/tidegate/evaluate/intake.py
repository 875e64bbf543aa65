"""One observation as columns: what every application has reported since the last step.

Reading attributes of thousands of objects is most of the cost of a step. So each object is read once, in one expression
that packs all its numbers, and values that rarely change are compared with the previous step instead of being converted
again.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, nan

import numpy as np

from tidegate.domain import ApplicationSample, BatchSample
from tidegate.evaluate.table import Flags, Floats, Ints, Table

_NEWS, _BATCH = 4, 9
"""Numbers read per application, and per batch."""
_pack_news = struct.Struct(f"{_NEWS}d").pack
_pack_batch = struct.Struct(f"{_BATCH}d").pack
_pack_both = struct.Struct(f"{_NEWS + _BATCH}d").pack


@dataclass(frozen=True, slots=True)
class Batches:
    """At most one new batch of each application. An application with several is in several of these, in order."""

    rows: Ints
    """The table row of each batch's application."""
    samples: Sequence[BatchSample]
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
    """Turns samples into columns. Keeps those of the previous step, which mostly stay the same."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._said: list[_Said] = []
        self._names: tuple[str, ...] = ()
        self._status = _status([])
        self._limited: list[int | None] = []
        self._limits: Floats = np.zeros(0)

    def read(self, samples: tuple[ApplicationSample, ...]) -> Intake:
        """Read the samples. New applications get a row in the table."""
        if _differ(samples, self._said):
            self._said = [_said(sample) for sample in samples]
            self._status = _status(self._said)
            names = tuple([sample.name for sample in samples])
            self._names = self._names if names == self._names else names
        rows = self._table.rows_of(self._names)
        cells = _one_batch_each(samples)
        if cells is None:
            news, rounds = _news(samples), _rounds(samples, rows)
        else:
            news, rounds = cells[:_NEWS], (_round(rows, [sample.batches[0] for sample in samples], cells[_NEWS:]),)
        in_batch, last_progress_s, arrival_s, arrived = news
        telling = _telling(samples)
        return Intake(
            samples=samples,
            names=self._names,
            rows=rows,
            status=self._status,
            limits=self._read_limits(samples),
            in_batch=in_batch > 0,
            last_progress_s=last_progress_s,
            arrival_s=arrival_s,
            arrived=arrived,
            under_way=_under_way(samples, telling),
            telling=telling,
            rounds=rounds,
        )

    def _read_limits(self, samples: tuple[ApplicationSample, ...]) -> Floats:
        """Only a few limits change per step, so they are written over the previous ones."""
        limited = [sample.admission_rows for sample in samples]
        if limited == self._limited:
            return self._limits
        if len(limited) == len(self._limited):
            before = self._limited
            changed = [place for place, limit in enumerate(limited) if limit != before[place]]
            self._limits = self._limits.copy()  # the previous evaluation may still be in use
            for place in changed:
                limit = limited[place]
                self._limits[place] = inf if limit is None else limit
        else:
            self._limits = np.array([inf if limit is None else limit for limit in limited], dtype=np.float64)
        self._limited = limited
        return self._limits


_Said = tuple[str, float, bool, bool, bool, str | None, bool]
"""Name, interval, running, bounded, rebalancing, error, gated."""


def _said(sample: ApplicationSample) -> _Said:
    return (
        sample.name,
        sample.interval_s,
        sample.running,
        _only_watched(sample),
        sample.rebalancing,
        sample.error,
        sample.gated,
    )


def _only_watched(sample: ApplicationSample) -> bool:
    """Applications that end by themselves or run in real time are not planned batch by batch."""
    return sample.bounded or sample.held_slots is not None


def _differ(samples: tuple[ApplicationSample, ...], said: list[_Said]) -> bool:
    """Has anything changed? Compares in place, without building objects, because it rarely has."""
    if len(samples) != len(said):
        return True
    for sample, (name, interval_s, running, bounded, rebalancing, error, gated) in zip(samples, said, strict=True):
        if (
            sample.name != name
            or sample.interval_s != interval_s
            or sample.running is not running
            or (sample.bounded or sample.held_slots is not None) is not bounded  # inlined: there are thousands
            or sample.rebalancing is not rebalancing
            or sample.error != error
            or sample.gated is not gated
        ):
            return True
    return False


def _status(said: list[_Said]) -> Status:
    columns = list(zip(*said, strict=True)) or [()] * 7
    return Status(
        interval_s=np.array(columns[1], dtype=np.float64),
        running=np.array(columns[2], dtype=np.bool_),
        bounded=np.array(columns[3], dtype=np.bool_),
        rebalancing=np.array(columns[4], dtype=np.bool_),
        failed=np.array([error is not None for error in columns[5]], dtype=np.bool_),
        gated=np.array(columns[6], dtype=np.bool_),
        stopped=tuple([place for place, running in enumerate(columns[2]) if not running]),
    )


def _one_batch_each(samples: tuple[ApplicationSample, ...]) -> Floats | None:
    """News and batches in one pass if every application has one new batch and reports everything; otherwise None."""
    try:
        cells = b"".join(
            [
                _pack_both(
                    sample.in_batch, sample.last_progress_s, seen.time_s, seen.arrived_rows,  # type: ignore[union-attr]
                    batch.started_s, batch.duration_s, batch.rows, batch.busy_s, batch.overhead_s, batch.backlog_rows,
                    batch.warming, latency.p99_s, latency.max_s,  # type: ignore[union-attr]
                )
                for sample in samples
                for (batch,) in (sample.batches,)
                for seen in (sample.arrival,)
                for latency in (batch.latency,)
            ]
        )  # fmt: skip
    except (AttributeError, ValueError, struct.error):
        return None
    return _turned(np.frombuffer(cells), _NEWS + _BATCH) if samples else None


def _telling(samples: tuple[ApplicationSample, ...]) -> tuple[int, ...]:
    """Indices of the few applications that report more than sizes and times. Only these are searched for it."""
    return tuple(
        [
            place
            for place, sample in enumerate(samples)
            if sample.partitions is not None
            or sample.running_batch is not None
            or sample.state_places
            or sample.lags
            or sample.held_slots is not None
            or len(sample.batches) > 1
            or (sample.batches and (sample.batches[0].memory is not None or sample.batches[0].dropped_rows))
        ]
    )


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


def _rounds(samples: tuple[ApplicationSample, ...], rows: Ints) -> tuple[Batches, ...]:
    told = [sample.batches for sample in samples]
    rounds: list[Batches] = []
    for number in range(max(map(len, told), default=0)):
        places = [place for place, batches in enumerate(told) if len(batches) > number]
        batches = [told[place][number] for place in places]
        rounds.append(_round(rows if len(places) == len(rows) else rows[places], batches, _batches(batches)))
    return tuple(rounds)


def _round(rows: Ints, samples: list[BatchSample], cells: Floats) -> Batches:
    started_s, duration_s, size, busy_s, overhead_s, backlog, warming, p99_s, max_s = cells
    return Batches(
        rows, samples, started_s, duration_s, size, busy_s, overhead_s, backlog, warming > 0, p99_s, max_s
    )  # fmt: skip


def _news(samples: tuple[ApplicationSample, ...]) -> Floats:
    """Whether a batch runs, the last report, and the timed count of arrivals. One row per field; NaN if unknown."""
    try:
        cells = b"".join(
            [
                _pack_news(sample.in_batch, sample.last_progress_s, seen.time_s, seen.arrived_rows)  # type: ignore[union-attr]
                for sample in samples
                for seen in (sample.arrival,)
            ]
        )
        return _turned(np.frombuffer(cells), _NEWS)
    except (AttributeError, struct.error):  # some values are missing, so each is read separately
        rows = [
            (
                sample.in_batch,
                sample.last_progress_s,
                *((nan, nan) if sample.arrival is None else (sample.arrival.time_s, sample.arrival.arrived_rows)),
            )
            for sample in samples
        ]
        return _turned(np.array(rows, dtype=np.float64), _NEWS)


def _batches(batches: list[BatchSample]) -> Floats:
    """The numbers of each batch: one row per field, NaN for unknown."""
    try:
        cells = b"".join(
            [
                _pack_batch(
                    batch.started_s, batch.duration_s, batch.rows, batch.busy_s, batch.overhead_s, batch.backlog_rows,
                    batch.warming, seen.p99_s, seen.max_s,  # type: ignore[union-attr]
                )
                for batch in batches
                for seen in (batch.latency,)
            ]
        )  # fmt: skip
        return _turned(np.frombuffer(cells), _BATCH)
    except (AttributeError, struct.error):
        rows = [
            (
                batch.started_s,
                batch.duration_s,
                batch.rows,
                batch.busy_s,
                batch.overhead_s,
                batch.backlog_rows or 0,
                batch.warming,
                *((nan, nan) if batch.latency is None else (batch.latency.p99_s, batch.latency.max_s)),
            )
            for batch in batches
        ]
        return _turned(np.array(rows, dtype=np.float64), _BATCH)


def _turned(cells: Floats, width: int) -> Floats:
    return np.ascontiguousarray(cells.reshape(-1, width).T)
