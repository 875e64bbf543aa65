"""A micro-batch application in the plant: a gate that lets a batch of rows in, and stages that run one after another.

    waiting ──trigger, rows there──▶ overhead ──▶ stage 1 ──▶ … ──▶ stage n ──▶ sink ──▶ committed ──▶ waiting

As Spark's processing-time trigger: triggers lie on multiples of the interval; a batch that overran its trigger is
followed at once by the next; a trigger that finds no new rows makes no batch. The rows of a batch are acknowledged
together, when its last stage is done.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from tidegate.domain.observation import BatchSample, DriverTimes, LatencySample, OperatorSample, RebalanceReport
from tidegate.load import Timeline
from tidegate.sim.application import SimApplication
from tidegate.sim.latency import Latencies
from tidegate.sim.plant import CPU, Plant
from tidegate.sim.stage import Stage, in_turn, keys_seen, sample_stage

_TICK_S = 1e-9
_POLL_S = 0.1  # how often a trigger without an interval looks for rows
_CHUNK_ROWS = 100_000  # latencies are computed for so many rows at once
_MOST_SIGMA = 3.0
_PLANNING_SHARE, _OFFSETS_SHARE = 0.5, 0.2  # of a batch's overhead; the rest is its log


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
    slower: float
    """This batch's cost of a row, against the usual."""
    sink_s: float
    stage: int = -1
    """-1 in its overhead; after the last stage comes the sink."""
    stage_started_s: float = 0.0
    stage_work_s: float = 0.0
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
        self._stateful = tuple(index for index, operator in enumerate(application.operators) if operator.stateful)
        self._state_rows: dict[str, float] = {}
        self._paused_from_s = plant.now_s
        self._repartitions = False
        self.rebalance: RebalanceReport | None = None
        """The restart that ended last, until somebody takes the report."""

    @property
    def in_batch(self) -> bool:
        return self._batch is not None

    @property
    def restarting(self) -> bool:
        return self._restart_due or self._plant.now_s < self._paused_until_s

    @property
    def task(self) -> int | None:
        """The plant's task of the stage that runs now."""
        if self._batch is None or not 0 <= self._batch.stage < len(self.application.operators):
            return None
        return self.first_task + self._batch.stage

    @property
    def slots_asked(self) -> float:
        """The slots that the running stage can keep at work: no more than its tasks, and fewer where one task lasts.

        A stage of n even tasks keeps n slots busy; one whose fullest partition holds a share h is done when that task
        is, so that it keeps 1/h of them busy on the average.
        """
        if self.task is None or self._batch is None:
            return 0.0
        operator, tasks = self.application.operators[self._batch.stage], self.parallelism[self._batch.stage]
        at_work = min(float(tasks), 1 / operator.largest_share(tasks)) if operator.hot_share else float(tasks)
        return min(at_work, operator.works_at_once or at_work)

    @property
    def pause_s(self) -> float:
        """What the restart that is due or under way takes, from the last commit before it to the next trigger."""
        repartitions = self._changes_state or (self._repartitions and self._plant.now_s < self._paused_until_s)
        return self.application.restart_s + (self.application.repartition_s if repartitions else 0.0)

    @property
    def _changes_state(self) -> bool:
        return any(self.parallelism[index] != self.planned[index] for index in self._stateful)

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

    def set_parallelism(self, operator: str, parallelism: int) -> bool:
        """Plan another parallelism for the next start; stateful operators change together. False: nothing to change."""
        names = [known.name for known in self.application.operators]
        index = names.index(operator)
        together = self._stateful if index in self._stateful else (index,)
        free = [place for place in together if not self.application.operators[place].fixed]
        changed = any(self.planned[place] != parallelism for place in free)
        for place in free:
            self.planned[place] = parallelism
        return changed

    def restart(self) -> None:
        """Stop at the next batch boundary and start again; a restart under way takes further changes with it."""
        now_s = self._plant.now_s
        if self._batch is not None:
            self._restart_due = True
        elif now_s < self._paused_until_s:
            self._take_plan()
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

    def served(self, work_s: float, slots: int, now_s: float) -> bool:
        """The running stage got on by `work_s` slot-seconds; True when that ended the batch."""
        batch = self._batch
        if batch is None or self.task is None:
            return False
        batch.stage_work_s += work_s
        # Tasks that wait for their turn hold their slots all the same.
        waits = self.application.operators[batch.stage].works_at_once is not None
        held = max(1.0, min(self.parallelism[batch.stage], slots) / self.slots_asked) if waits else 1.0
        batch.stage_busy_s += work_s * held
        while self.rows_left() <= 0.0:
            self._close_stage(batch, now_s)
            if batch.stage + 1 == len(self.application.operators):
                return self._reach_sink(batch, now_s)
            self._open_stage(batch.stage + 1, now_s)
        return False

    def sink_done(self, now_s: float) -> bool:
        """Has the sink taken the batch by now? Then it can be committed."""
        batch = self._batch
        return batch is not None and batch.stage == len(self.application.operators) and self.wakes_s <= now_s + _TICK_S

    def commit(self, now_s: float, executors: Sequence[str]) -> BatchSample:
        """Acknowledge the batch whole; its tasks ran on these executors in turn."""
        batch = self._batch
        if batch is None:
            raise RuntimeError(f"{self.name}: no batch to commit")
        self._plant.state.active[self.first_task + len(self.application.operators) - 1] = False
        self._batch = None
        if batch.warming and self.restarts:
            state_rows = round(sum(self._state_rows.values())) if self._repartitions else None
            self.rebalance = RebalanceReport(done=True, pause_s=now_s - self._paused_from_s, state_rows=state_rows)
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
            overhead_s=batch.overhead_s + batch.sink_s,
            backlog_rows=batch.backlog_rows,
            latency=self._latency(batch, now_s),
            operators=tuple(
                replace(stage, executors=in_turn(executors, stage.parallelism)) for stage in batch.operators
            ),
            state_rows=sum(operator.state_rows or 0 for operator in batch.operators) if self._stateful else None,
            driver=DriverTimes(
                planning_s=_PLANNING_SHARE * batch.overhead_s,
                offsets_s=_OFFSETS_SHARE * batch.overhead_s,
                log_s=(1 - _PLANNING_SHARE - _OFFSETS_SHARE) * batch.overhead_s,
                sink_s=batch.sink_s,
            ),
            warming=batch.warming,
        )

    def rework(self, share: float) -> None:
        """A part of what the running stage has done is lost: the rows still to do carry its cost."""
        task = self.task
        rows_left = self.rows_left()
        if task is None or rows_left <= 0 or self._batch is None:
            return
        again_s = share * self._batch.stage_work_s
        self._plant.state.cost[task, CPU] += again_s / rows_left

    # inside

    def _trigger(self, now_s: float) -> None:
        arrived = self.rows_arrived(now_s)
        end = arrived if self.admission_rows is None else min(arrived, self.admitted + self.admission_rows)
        if end == self.admitted:
            self.last_progress_s = now_s
            self.wakes_s = self._next_boundary_s(now_s) if self.interval_s > 0 else now_s + _POLL_S
            return
        application = self.application
        overhead_s = application.overhead_s * self._draw() + (application.cold_s if self._cold else 0.0)
        slower = self._draw()
        self._batch = _Batch(
            batch_id=len(self.commits),
            started_s=now_s,
            first=self.admitted,
            end=end,
            overhead_s=overhead_s,
            backlog_rows=arrived - end,
            warming=self._cold,
            slower=slower,
            sink_s=(application.sink_s + application.sink_s_per_row * (end - self.admitted)) * slower,
        )
        self._cold = False
        self.admitted = end
        self.wakes_s = now_s + overhead_s

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
        self.restarts += 1
        self._paused_from_s, self._repartitions = now_s, False
        self._take_plan()

    def _take_plan(self) -> None:
        pause_s, self._repartitions = self.pause_s, self._repartitions or self._changes_state
        self.parallelism = list(self.planned)
        self.wakes_s = self._paused_until_s = self._paused_from_s + pause_s

    def _open_stage(self, stage: int, now_s: float) -> None:
        batch = self._batch
        if batch is None:
            raise RuntimeError(f"{self.name}: no batch to run")
        if batch.stage >= 0:
            self._plant.state.active[self.first_task + batch.stage] = False
        batch.stage = stage
        batch.stage_started_s = now_s
        batch.stage_work_s = batch.stage_busy_s = 0.0
        self._plant.state.active[self.first_task + stage] = True
        operator = self.application.operators[stage]
        row_s = (operator.cost_s_per_row + operator.communication_s_per_row) * batch.slower
        if operator.task_overhead_s and (rows := self.rows_left()) > 0:
            row_s += operator.task_overhead_s * self.parallelism[stage] / rows
        self._plant.state.cost[self.first_task + stage, CPU] = row_s

    def _reach_sink(self, batch: _Batch, now_s: float) -> bool:
        """After the last stage; True where no sink keeps the batch from being committed at once."""
        if batch.sink_s <= 0:
            return True
        self._plant.state.active[self.first_task + batch.stage] = False
        batch.stage += 1
        self.wakes_s = now_s + batch.sink_s
        return False

    def _close_stage(self, batch: _Batch, now_s: float) -> None:
        operator, tasks = self.application.operators[batch.stage], self.parallelism[batch.stage]
        inputs = self.application.inputs_of(batch.stage)
        rows_in = float(batch.end - batch.first)
        if inputs:
            rows_in = sum(float(batch.operators[index].rows_out or 0) for index in inputs)
        if operator.stateful and operator.state_keys:
            self._state_rows[operator.name] = keys_seen(operator, self._state_rows.get(operator.name, 0.0), rows_in)
        stage = Stage(
            rows_in,
            rows_in * operator.communication_s_per_row * batch.slower,
            batch.stage_work_s,
            batch.stage_busy_s,
            wall_s=now_s - batch.stage_started_s,
            bytes_onward=self.application.bytes_onward(batch.stage),
            state_rows=self._state_rows.get(operator.name, 0.0),
        )
        batch.operators.append(sample_stage(operator, tasks, stage))

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
    return replace(batch, busy_s=None, overhead_s=None, backlog_rows=None, latency=None, operators=(), driver=None)
