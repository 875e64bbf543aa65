"""A micro-batch application in the plant: a gate that lets a batch of rows in, and stages that run one after another.

    waiting ──trigger, rows there──▶ overhead ──▶ stage 1 ──▶ … ──▶ stage n ──▶ committed ──▶ waiting

As Spark's processing-time trigger: triggers lie on multiples of the interval; a batch that overran its trigger is
followed at once by the next; a trigger that finds no new rows makes no batch. The rows of a batch are acknowledged
together, when its last stage is done.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np

from tidegate.domain.observation import BatchSample, LatencySample, OperatorSample
from tidegate.load import Timeline
from tidegate.sim.application import SimApplication
from tidegate.sim.latency import Latencies
from tidegate.sim.plant import CPU, Plant

_TICK_S = 1e-9
_POLL_S = 0.1  # how often a trigger without an interval looks for rows
_CHUNK_ROWS = 100_000  # latencies are computed for so many rows at once
_MOST_SIGMA = 3.0


@dataclass(frozen=True, slots=True)
class Commit:
    """Rows `first` … `end - 1` were acknowledged at `time_s`."""

    first: int
    end: int
    time_s: float


@dataclass(slots=True)
class _Batch:
    batch_id: int
    started_s: float
    first: int
    end: int
    overhead_s: float
    backlog_rows: int
    warming: bool
    stage: int = -1
    stage_started_s: float = 0.0
    stage_busy_s: float = 0.0
    operators: list[OperatorSample] = field(default_factory=list)


class Gate:
    """One application: when its batches start, what they hold, when they are done."""

    def __init__(
        self,
        application: SimApplication,
        plant: Plant,
        first_task: int,
        source: int,
        seed: tuple[int, int],
        noise: float,
    ) -> None:
        self.name = application.name
        self.application = application
        self.source = source
        self.admission_rows = application.admission_rows
        self.interval_s = application.interval_s
        self.parallelism = [operator.parallelism for operator in application.operators]
        self.planned = list(self.parallelism)
        self.wakes_s = plant.now_s
        self.last_progress_s: float | None = None
        self.admitted = 0
        self.commits: list[Commit] = []
        self.latencies = Latencies.empty()
        self.restarts = 0
        self.pushed_rows = 0.0
        self._plant = plant
        self.first_task = first_task
        self._start_s = plant.now_s
        self._timeline = Timeline(application.profile)
        self._random = np.random.default_rng(seed)
        self._noise = noise
        self._batch: _Batch | None = None
        self._cold = True
        self._restart_due = False
        self._paused_until_s = plant.now_s

    @property
    def in_batch(self) -> bool:
        return self._batch is not None

    @property
    def restarting(self) -> bool:
        return self._restart_due or self._plant.now_s < self._paused_until_s

    @property
    def task(self) -> int | None:
        """The plant's task of the stage that runs now."""
        if self._batch is None or self._batch.stage < 0:
            return None
        return self.first_task + self._batch.stage

    @property
    def slots_asked(self) -> int:
        """The tasks of the stage that runs now."""
        return 0 if self._batch is None or self._batch.stage < 0 else self.parallelism[self._batch.stage]

    def rows_arrived(self, now_s: float) -> int:
        return self._timeline.rows_by(now_s - self._start_s)

    def rows_left(self) -> float:
        """Rows that the running stage still has before it."""
        task = self.task
        if task is None:
            return 0.0
        state = self._plant.state
        links = slice(state.links_from[task], state.links_from[task + 1])
        return float(state.ripe_rows[links].sum() + state.flying_rows[links].sum()) + self.pushed_rows

    def late_rows(self, bound_s: float, now_s: float) -> int:
        """Rows that were, or by now are, acknowledged later than `bound_s` after they came; exact, row by row."""
        late = 0
        for commit in self.commits:
            on_time_from = self.rows_arrived(commit.time_s - bound_s)
            late += max(0, min(commit.end, on_time_from) - commit.first)
        done = self.commits[-1].end if self.commits else 0
        return late + max(0, self.rows_arrived(now_s - bound_s) - done)

    # what is asked of it

    def restart(self) -> None:
        """Stop at the next batch boundary and start again; a restart under way takes further changes with it."""
        now_s = self._plant.now_s
        if self._batch is not None:
            self._restart_due = True
        elif now_s < self._paused_until_s:
            self.parallelism = list(self.planned)
        else:
            self._pause(now_s)

    # what happens to it

    def wake(self, now_s: float) -> None:
        """Its next moment has come: a trigger, or the end of a batch's overhead."""
        if self._batch is None:
            self._trigger(now_s)
        elif self._batch.stage < 0:
            self.wakes_s = math.inf
            self.pushed_rows = float(self._batch.end - self._batch.first)
            self._open_stage(0, now_s)

    def served(self, busy_s: float, now_s: float) -> bool:
        """Time passed in the running stage; True when that ended the batch."""
        batch = self._batch
        if batch is None or batch.stage < 0:
            return False
        batch.stage_busy_s += busy_s
        while self.rows_left() <= 0.0:
            self._close_stage(batch, now_s)
            if batch.stage + 1 == len(self.application.operators):
                return True
            self._open_stage(batch.stage + 1, now_s)
        return False

    def commit(self, now_s: float) -> BatchSample:
        """Acknowledge the batch whole."""
        batch = self._batch
        if batch is None:
            raise RuntimeError(f"{self.name}: no batch to commit")
        self._plant.state.active[self.first_task + batch.stage] = False
        self._batch = None
        self.commits.append(Commit(batch.first, batch.end, now_s))
        self.last_progress_s = now_s
        boundary_s = self._next_boundary_s(batch.started_s)
        self.wakes_s = max(now_s, boundary_s)
        if self._restart_due:
            self._pause(now_s)
        return BatchSample(
            batch_id=batch.batch_id,
            started_s=batch.started_s,
            duration_s=now_s - batch.started_s,
            rows=batch.end - batch.first,
            busy_s=sum(operator.busy_s for operator in batch.operators),
            overhead_s=batch.overhead_s,
            backlog_rows=batch.backlog_rows,
            latency=self._latency(batch, now_s),
            operators=tuple(batch.operators),
            warming=batch.warming,
        )

    def rework(self, share: float) -> None:
        """A part of what the running stage has done is lost: the rows still to do carry its cost."""
        task = self.task
        rows_left = self.rows_left()
        if task is None or rows_left <= 0 or self._batch is None:
            return
        again_s = share * self._batch.stage_busy_s
        self._plant.state.cost[task, CPU] += again_s / rows_left

    # inside

    def _trigger(self, now_s: float) -> None:
        arrived = self.rows_arrived(now_s)
        end = arrived if self.admission_rows is None else min(arrived, self.admitted + self.admission_rows)
        if end == self.admitted:
            self.last_progress_s = now_s
            self.wakes_s = self._next_boundary_s(now_s) if self.interval_s > 0 else now_s + _POLL_S
            return
        overhead_s = self.application.overhead_s * self._draw() + (self.application.cold_s if self._cold else 0.0)
        self._batch = _Batch(
            batch_id=len(self.commits),
            started_s=now_s,
            first=self.admitted,
            end=end,
            overhead_s=overhead_s,
            backlog_rows=arrived - end,
            warming=self._cold,
        )
        self._cold = False
        self.admitted = end
        self.wakes_s = now_s + overhead_s
        slower = self._draw()
        for index, operator in enumerate(self.application.operators):
            self._plant.state.cost[self.first_task + index, CPU] = operator.cost_s_per_row * slower

    def _draw(self) -> float:
        """A lognormal factor with mean 1, without the far tails."""
        if self._noise == 0:
            return 1.0
        drawn = float(np.clip(self._random.standard_normal(), -_MOST_SIGMA, _MOST_SIGMA))
        return math.exp(self._noise * drawn - self._noise**2 / 2)

    def _next_boundary_s(self, after_s: float) -> float:
        if self.interval_s <= 0:
            return after_s
        return (math.floor(after_s / self.interval_s + _TICK_S) + 1) * self.interval_s

    def _pause(self, now_s: float) -> None:
        self._restart_due = False
        self._cold = True
        self.parallelism = list(self.planned)
        self.restarts += 1
        self.wakes_s = self._paused_until_s = now_s + self.application.restart_s

    def _open_stage(self, stage: int, now_s: float) -> None:
        batch = self._batch
        if batch is None:
            raise RuntimeError(f"{self.name}: no batch to run")
        if batch.stage >= 0:
            self._plant.state.active[self.first_task + batch.stage] = False
        batch.stage = stage
        batch.stage_started_s = now_s
        batch.stage_busy_s = 0.0
        self._plant.state.active[self.first_task + stage] = True

    def _close_stage(self, batch: _Batch, now_s: float) -> None:
        operator = self.application.operators[batch.stage]
        inputs = self.application.inputs_of(batch.stage)
        rows_in = float(batch.end - batch.first)
        if inputs:
            rows_in = sum(float(batch.operators[index].rows_out or 0) for index in inputs)
        batch.operators.append(
            OperatorSample(
                name=operator.name,
                parallelism=self.parallelism[batch.stage],
                rows_in=round(rows_in),
                busy_s=batch.stage_busy_s,
                cpu_s=batch.stage_busy_s,
                communication_s=0.0,
                execute_latency_s=now_s - batch.stage_started_s,
                rows_out=round(rows_in * operator.selectivity),
            )
        )

    def _latency(self, batch: _Batch, now_s: float) -> LatencySample:
        """Row by row: FIFO, so the batch's rows in order of arrival are its latencies in falling order."""
        rows = batch.end - batch.first
        asked = [batch.end - math.ceil(share * rows) for share in (0.5, 0.9, 0.99, 1)]
        found: dict[int, float] = {}
        for first in range(batch.first, batch.end, _CHUNK_ROWS):
            end = min(batch.end, first + _CHUNK_ROWS)
            ages_s = now_s - self._start_s - self._timeline.arrivals_s(first, end)
            self.latencies = self.latencies.add(ages_s)
            found |= {row: float(ages_s[row - first]) for row in asked if first <= row < end}
        return LatencySample(rows, *(found[row] for row in asked))


def without_stages(batch: BatchSample) -> BatchSample:
    """What is left of a batch's report where stages and latency could not be read."""
    return replace(batch, busy_s=None, overhead_s=None, backlog_rows=None, latency=None, operators=())
