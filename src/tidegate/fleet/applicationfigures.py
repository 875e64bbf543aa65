"""What a host knows about its applications: sums over a short window of batches, kept on the host."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from tidegate.domain import ApplicationSample, BatchSample
from tidegate.domain.qostables import measured_name
from tidegate.evaluate.measurement import Before, Readings, read_batch
from tidegate.fleet.tenant import Figures

_WINDOW_S = 20.0
_WINDOW_TRIGGERS = 3.0
"""A window covers at least this many triggers. With fewer, a measured rate is mostly chance."""
_STALE_WINDOWS = 4.0
_LEAST_SPAN_S = 5.0


@dataclass(frozen=True, slots=True)
class OperatorFigures:
    """One operator over the window."""

    replicas: int
    rows_per_s: float
    utilisation: float
    busy_s_per_row: float | None
    newest_rows_per_s: float
    """Arrivals of the last few seconds."""


@dataclass(slots=True)
class ApplicationFigures:
    """The recent batches of one run of an application."""

    interval_s: float = 0.0
    batches: deque[BatchSample] = field(default_factory=deque)
    rows_done: int = 0
    arrived: deque[tuple[float, int]] = field(default_factory=deque)
    asked: tuple[tuple[str | None, str], ...] = ()
    """What the measurement plan needs, by operator and metric."""
    before: Before | None = None
    readings: deque[tuple[float, Readings]] = field(default_factory=deque)

    def take(self, sample: ApplicationSample, now_s: float) -> None:
        """Add one observation."""
        self.interval_s = sample.interval_s
        for batch in sample.batches:
            self.rows_done += batch.rows
            if batch.rows:
                self.batches.append(batch)
            if self.asked:
                self.readings.append((batch.committed_s, read_batch(batch, self.before, self.asked)))
            self.before = Before(batch.started_s, batch.committed_s, batch.backlog_rows or 0)
        if sample.arrival is not None and sample.arrival.arrived_rows is not None:
            self.arrived.append((sample.arrival.time_s, sample.arrival.arrived_rows))
        # Keep one batch more than the window, because a slow one may have started before it.
        while len(self.batches) > 1 and self.batches[1].committed_s < now_s - self.window_s:
            self.batches.popleft()
        while len(self.arrived) > 2 and self.arrived[1][0] < now_s - self.window_s:
            self.arrived.popleft()
        while self.readings and self.readings[0][0] < now_s - self.window_s:
            self.readings.popleft()

    @property
    def window_s(self) -> float:
        return max(_WINDOW_S, _WINDOW_TRIGGERS * self.interval_s)

    def summary(self, now_s: float) -> Figures:
        """The summary that is sent to the centre."""
        recent = self._recent(now_s)
        # The first batch includes the cost of cold processes, so it says little about the load.
        warm = [batch for batch in recent if not batch.warming]
        span_s = self._span_s(warm)
        busy = [(batch.busy_s, batch.rows) for batch in warm if batch.busy_s is not None]
        latencies = [batch.latency.p99_s for batch in recent if batch.latency is not None]
        operators = self.batches[-1].operators if self.batches else ()
        return Figures(
            load_slots=self._load_slots(busy, span_s) if busy and span_s else None,
            latency_p99_s=max(latencies, default=None),
            rows_done=self.rows_done,
            parallelism={operator.name: operator.parallelism for operator in operators},
            measured=self._measured(),
        )

    def operator(self, name: str, now_s: float) -> OperatorFigures | None:
        """The figures of one operator; None until it has processed rows with its present number of tasks."""
        recent = [batch for batch in self._recent(now_s) if not batch.warming]
        samples = [(batch, op) for batch in recent for op in batch.operators if op.name == name]
        span_s = self._span_s(recent)
        if not samples or not span_s:
            return None
        replicas = samples[-1][1].parallelism
        if any(op.parallelism != replicas for op in self.batches[-1].operators if op.name == name):
            return None  # only the first batch since a restart is known
        same = [(batch, op) for batch, op in samples if op.parallelism == replicas]
        span_s = self._span_s([batch for batch, _ in same]) or span_s
        busy_s = sum(op.busy_s for _, op in same)
        rows = sum(op.rows_in or 0 for _, op in same)
        return OperatorFigures(
            replicas,
            self._arrival_rows_per_s(rows, span_s),
            min(1.0, busy_s / (replicas * span_s)),
            busy_s / rows if rows else None,
            self._newest_rows_per_s(),
        )

    def _load_slots(self, busy: list[tuple[float, int]], span_s: float) -> float:
        """Slots for the rows that arrive. Those processed may be fewer, on a full host, or more, after a pause."""
        busy_s, rows = sum(one for one, _ in busy), sum(rows for _, rows in busy)
        if not rows:
            return busy_s / span_s
        return busy_s / rows * self._arrival_rows_per_s(rows, span_s)

    def _measured(self) -> dict[str, float]:
        """Means over the window of the metrics in the measurement plan."""
        found = {}
        for operator, metric in self.asked:
            taken = [readings.get((operator, metric)) for _, readings in list(self.readings)]
            values = [value for value in taken if value is not None]
            if values:
                found[measured_name(operator, metric)] = round(sum(values) / len(values), 6)
        return found

    def _arrival_rows_per_s(self, rows: int, span_s: float) -> float:
        """From the source itself if it reports arrivals: rows in the backlog have arrived too."""
        if len(self.arrived) >= 2 and self.arrived[-1][0] > self.arrived[0][0]:
            (from_s, before), (to_s, after) = self.arrived[0], self.arrived[-1]
            if after >= before:
                return (after - before) / (to_s - from_s)
        return rows / span_s

    def _newest_rows_per_s(self) -> float:
        """Over one trigger interval, at least five seconds; 0 if the source does not count arrivals."""
        if not self.arrived:
            return 0.0
        to_s, after = self.arrived[-1]
        span_s = max(self.interval_s, _LEAST_SPAN_S)
        from_s, before = next(((t, n) for t, n in reversed(self.arrived) if t <= to_s - span_s), (to_s, after))
        return max(after - before, 0) / (to_s - from_s) if from_s < to_s else 0.0

    def _recent(self, now_s: float) -> list[BatchSample]:
        """The batches in the window. If batches are longer than the window, the newest one, for a while."""
        recent = [batch for batch in list(self.batches) if batch.committed_s >= now_s - self.window_s]
        newest = self.batches[-1] if self.batches else None
        if not recent and newest is not None and newest.committed_s >= now_s - _STALE_WINDOWS * self.window_s:
            return [newest]
        return recent

    def _span_s(self, batches: list[BatchSample]) -> float | None:
        """From the start of the first batch to the start of the trigger after the last."""
        if not batches:
            return None
        end_s = max(batches[-1].committed_s, batches[-1].started_s + self.interval_s)
        return max(end_s - batches[0].started_s, 1e-3)
