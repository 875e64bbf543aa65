"""A micro-batch application: a gate that admits a batch of rows, and stages that run one after another.

    waiting ──trigger, rows available──▶ overhead ──▶ stage 1 ──▶ … ──▶ stage n ──▶ sink ──▶ committed ──▶ waiting

Like Spark's processing-time trigger: triggers are at multiples of the interval; if a batch overran its trigger, the
next one follows at once; a trigger without new rows starts no batch. The rows of a batch are acknowledged together,
when its last stage is done.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from heapq import heappush
from itertools import count

import numpy as np

from tidegate.adapters.sim.application import SimApplication
from tidegate.adapters.sim.driver import SimDriver
from tidegate.adapters.sim.executors import Executors
from tidegate.adapters.sim.lanes import Part
from tidegate.adapters.sim.latencybins import Latencies
from tidegate.adapters.sim.ledger import Commit, Ledger
from tidegate.adapters.sim.partitions import Partitions
from tidegate.adapters.sim.restart import Restart
from tidegate.adapters.sim.slots import ANYWHERE, Slots
from tidegate.adapters.sim.stage import Stage, StageRun, in_turn, keys_seen
from tidegate.domain.observation import BatchSample, DriverTimes, OperatorSample, RebalanceReport, RunningBatch
from tidegate.load import Timeline

_TICK_S = 1e-9
_POLL_S = 0.1  # how often a trigger without an interval looks for rows
_MOST_SIGMA = 3.0
_DRAWS = 256
_PLANNING_SHARE, _OFFSETS_SHARE = 0.5, 0.2  # of a batch's overhead; the rest is its log
_DIGITS = 4  # times are reported to 0.1 ms
_order = count()


@dataclass(slots=True)
class Shared:
    """What the applications of one Spark context share: its executors, their slots, the driver and the time."""

    executors: Executors
    slots: Slots[SimGate]
    driver: SimDriver[SimGate]
    now_s: float
    alarms: list[tuple[float, int, SimGate]] = field(default_factory=list)
    """When each application must be woken. `wakes_s` says which of its alarms is current."""


@dataclass(slots=True)
class _Batch:
    batch_id: int
    started_s: float
    first: int
    end: int
    backlog_rows: int
    warming: bool
    slower: float
    """Cost of a row in this batch relative to the usual cost."""
    sink_s: float
    overhead_s: float = 0.0
    stage: int = -1
    """-1 during the overhead. After the last stage comes the sink."""
    stage_started_s: float = 0.0
    stage_work_s: float = 0.0
    rows_in: float = 0.0
    held_s: float = 0.0
    cpu_s: float = 0.0
    """Slot-seconds and CPU-seconds of the finished parts of the stage."""
    parts: list[Part[SimGate]] = field(default_factory=list)
    operators: list[OperatorSample] = field(default_factory=list)
    rows_out: list[float] = field(default_factory=list)


class SimGate:
    """One application: when its batches start, what they hold, and when they are done."""

    def __init__(
        self,
        application: SimApplication,
        shared: Shared,
        timeline: Timeline,
        number: int,
        seed: int,
        noise: float,
    ) -> None:
        self.name = application.name
        self.application = application
        self.group = ""
        """The class in which its tasks are served."""
        self.admission_rows = application.admission_rows
        self.interval_s = application.interval_s
        self.parallelism = [operator.parallelism for operator in application.operators]
        self.restart = Restart(application, shared.now_s)
        self.wakes_s = shared.now_s
        self.last_progress_s: float | None = None
        self.admitted = 0
        self.ledger = Ledger(timeline, shared.now_s)
        self.finished: list[BatchSample] = []
        """Committed and not yet reported."""
        self.rebalance: RebalanceReport | None = None
        """Report of the last restart, until it is read."""
        self.moves: Mapping[int, str] = {}
        """Where state partitions move when the running batch is done."""
        self._shared = shared
        self._random = np.random.default_rng((seed, number))
        self._noise = noise
        self._drawn: list[float] = []
        self._batch: _Batch | None = None
        self._cold = True
        self._state_rows: dict[str, float] = {}
        self._begin_run()
        self._wake_at(shared.now_s)

    @property
    def in_batch(self) -> bool:
        return self._batch is not None

    @property
    def restarts(self) -> int:
        return self.restart.count

    @property
    def restarting(self) -> bool:
        return self.restart.under_way(self._shared.now_s)

    @property
    def commits(self) -> list[Commit]:
        return self.ledger.commits

    @property
    def latencies(self) -> Latencies:
        return self.ledger.latencies

    def rows_arrived(self, now_s: float) -> int:
        return self.ledger.rows_arrived(now_s)

    def running_batch(self) -> RunningBatch | None:
        """The progress of the running batch. Tasks of a stage are counted as if they ended one by one."""
        batch = self._batch
        if batch is None:
            return None
        done = sum(self.parallelism[: max(0, batch.stage)])
        if batch.parts:
            left = sum(part.left_s for part in batch.parts) / batch.stage_work_s
            done += int(self.parallelism[batch.stage] * max(0.0, 1 - left))
        started_s = round(batch.started_s, _DIGITS)
        return RunningBatch(started_s, batch.end - batch.first, done, sum(self.parallelism) - done)

    # requests

    def ask_restart(self) -> None:
        """Stop at the next batch boundary and start again. A restart in progress also takes further changes."""
        if self._batch is not None:
            self.restart.due = True
        elif self.restarting:
            self._take_plan()
        else:
            self._pause()

    def ask_moves(self, moves: Mapping[int, str]) -> None:
        """Put state partitions on these executors: now if no batch runs, otherwise when it is done."""
        self.moves = moves
        if self._batch is None:
            self._make_moves()

    def serve_in(self, group: str) -> None:
        """From now on, serve its tasks in another class."""
        if group != self.group:
            self.group = group
            for part in self._running_parts():
                self._shared.slots.move(part, self._key(part.place))

    # events

    def wake(self) -> None:
        """Its next event is due: a trigger, or the end of its sink."""
        if self._batch is None:
            self._trigger()
        else:
            self._commit(self._batch)

    def part_done(self, part: Part[SimGate]) -> None:
        """The overhead of the running batch or a part of its stage is done. With the last part, the stage is done."""
        batch = self._batch
        if batch is None:
            raise RuntimeError(f"{self.name}: something is done of no batch")
        if batch.stage < 0:
            self._shared.driver.changed = True
            batch.overhead_s = self._shared.now_s - batch.started_s
            self._open_stage(batch, 0)
            return
        self._shared.slots.changed = True
        batch.held_s += part.held_s
        batch.cpu_s += part.cpu_s
        if len(batch.parts) > 1:
            batch.parts.remove(part)
            return
        self._close_stage(batch)
        if batch.stage + 1 < len(self._stages):
            self._open_stage(batch, batch.stage + 1)
        elif batch.sink_s > 0:
            batch.stage += 1
            self._wake_at(self._shared.now_s + batch.sink_s)
        else:
            self._commit(batch)

    def executor_gone(self, executor: str, lost_share: float) -> None:
        """The executor's state moves to the remaining ones. If it died, the work of its tasks is repeated."""
        there = self._shared.executors.ids
        if self.state is not None:
            self.state.leave(executor, there)
        for part in self._running_parts():
            done_s = part.work_s - part.left_s
            if part.place == executor:
                home = there[0] if there else ANYWHERE
                again_s = (done_s if lost_share else 0.0) + self.application.state_reload_s
                self._shared.slots.move(part, self._key(home), again_s)
            elif part.place == ANYWHERE and lost_share:
                self._shared.slots.move(part, self._key(ANYWHERE), lost_share * done_s)

    # inside

    def _begin_run(self) -> None:
        """Initialise what follows from the parallelism of this run."""
        self._stages = [Stage.of(self.application, index, tasks) for index, tasks in enumerate(self.parallelism)]
        counts = [stage.tasks for stage in self._stages if stage.operator.stateful]
        self.state = Partitions(max(counts)) if counts else None
        if self.state is not None:
            self.state.settle(self._shared.executors.ids)
        self._tasks = sum(self.parallelism)
        self._told_places: dict[int, tuple[str, ...]] = {}
        self._told_version = -1

    def _running_parts(self) -> list[Part[SimGate]]:
        return list(self._batch.parts) if self._batch else []

    def _wake_at(self, time_s: float) -> None:
        self.wakes_s = time_s
        heappush(self._shared.alarms, (time_s, next(_order), self))

    def _trigger(self) -> None:
        now_s, application = self._shared.now_s, self.application
        arrived = self.rows_arrived(now_s)
        end = arrived if self.admission_rows is None else min(arrived, self.admitted + self.admission_rows)
        if end == self.admitted:
            self.last_progress_s = now_s
            self._wake_at(self._next_boundary_s(now_s) if self.interval_s > 0 else now_s + _POLL_S)
            return
        usual, slower = self._draw(), self._draw()
        launch_s = application.driver_cpu_s_per_task * self._tasks
        overhead_s = (application.overhead_s + launch_s) * usual + (application.cold_s if self._cold else 0.0)
        rows = end - self.admitted
        self._batch = _Batch(
            batch_id=len(self.ledger),
            started_s=now_s,
            first=self.admitted,
            end=end,
            backlog_rows=arrived - end,
            warming=self._cold,
            slower=slower,
            sink_s=(application.sink_s + application.sink_s_per_row * rows) * slower,
        )
        self._cold = False
        self.admitted = end
        self.wakes_s = math.inf
        self._shared.driver.begin(self, overhead_s, (application.driver_cpu_s + launch_s) * usual)

    def _open_stage(self, batch: _Batch, index: int) -> None:
        stage, slots = self._stages[index], self._shared.slots
        batch.stage, batch.stage_started_s = index, self._shared.now_s
        batch.held_s = batch.cpu_s = 0.0
        batch.rows_in = float(batch.end - batch.first)
        if stage.inputs:
            batch.rows_in = sum(batch.rows_out[before] for before in stage.inputs)
        if stage.operator.stateful and self.state is not None:
            self.state.settle(self._shared.executors.ids)
            if self.state.where:
                where, reload_s = self.state.by_executor(), self._reload_s(self.state)
                batch.parts = [
                    slots.start(self, (self.group, executor, stage.cpu_share), work_s, ask)
                    for executor, work_s, ask in stage.by_executor(batch.rows_in, batch.slower, where, reload_s)
                ]
                batch.stage_work_s = sum(part.work_s for part in batch.parts)
                return
        work_s, ask = stage.anywhere(batch.rows_in, batch.slower)
        batch.stage_work_s = work_s
        batch.parts = [slots.start(self, (self.group, ANYWHERE, stage.cpu_share), work_s, ask)]

    def _reload_s(self, state: Partitions) -> dict[int, float]:
        """Slot-seconds for every partition that must be loaded now."""
        known_s, first_s = self.application.state_reload_s, self.application.state_first_s
        return {number: known_s + (first_s if new else 0.0) for number, new in state.take_reloads().items()}

    def _close_stage(self, batch: _Batch) -> None:
        stage = self._stages[batch.stage]
        operator, rows = stage.operator, batch.rows_in
        if operator.stateful and operator.state_keys:
            self._state_rows[operator.name] = keys_seen(operator, self._state_rows.get(operator.name, 0.0), rows)
        took_s = self._shared.now_s - batch.stage_started_s
        sample = stage.sample(
            StageRun(rows, batch.slower, batch.held_s, batch.cpu_s, took_s),
            slots=self._shared.executors.slots,
            state_rows=self._state_rows.get(operator.name, 0.0),
            executors=self._places(stage),
        )
        batch.parts = []
        batch.operators.append(sample)
        batch.rows_out.append(rows * operator.selectivity)

    def _places(self, stage: Stage) -> tuple[str, ...]:
        """The executor that ran each task."""
        if stage.operator.stateful and self.state is not None and self.state.where:
            return self.state.where[: stage.tasks]
        executors = self._shared.executors
        if self._told_version != executors.version:
            self._told_places, self._told_version = {}, executors.version
        if stage.tasks not in self._told_places:
            self._told_places[stage.tasks] = in_turn(executors.ids, stage.tasks)
        return self._told_places[stage.tasks]

    def _commit(self, batch: _Batch) -> None:
        """Acknowledge the whole batch."""
        now_s = self._shared.now_s
        self._batch = None
        if batch.warming and self.restart.count:
            moved = round(sum(self._state_rows.values())) if self.restart.repartitions else None
            self.rebalance = RebalanceReport(True, round(now_s - self.restart.from_s, _DIGITS), moved)
        latency = self.ledger.commit(batch.end, now_s)
        self.last_progress_s = now_s
        overhead_s, sink_s = round(batch.overhead_s, _DIGITS), round(batch.sink_s, _DIGITS) if batch.sink_s else 0.0
        planning_s = round(_PLANNING_SHARE * overhead_s, _DIGITS)
        offsets_s = round(_OFFSETS_SHARE * overhead_s, _DIGITS)
        self.finished.append(
            BatchSample(
                batch_id=batch.batch_id,
                started_s=round(batch.started_s, _DIGITS),
                duration_s=round(now_s - batch.started_s, _DIGITS),
                rows=batch.end - batch.first,
                busy_s=round(sum(operator.busy_s for operator in batch.operators), _DIGITS),
                overhead_s=round(overhead_s + sink_s, _DIGITS),
                backlog_rows=batch.backlog_rows,
                latency=latency,
                operators=tuple(batch.operators),
                state_rows=sum(operator.state_rows or 0 for operator in batch.operators) if self.state else None,
                driver=DriverTimes(planning_s, offsets_s, round(overhead_s - planning_s - offsets_s, _DIGITS), sink_s),
                warming=batch.warming,
            )
        )
        self._wake_at(max(now_s, self._next_boundary_s(batch.started_s)))
        self._make_moves()
        if self.restart.due:
            self._pause()
        self._shared.executors.batch_ended(self.name)

    def _make_moves(self) -> None:
        there = self._shared.executors.speeds
        for partition, executor in self.moves.items():
            if self.state is not None and partition < self.state.count and executor in there:
                self.state.move(partition, executor)
        self.moves = {}

    def _draw(self) -> float:
        """A lognormal factor with mean 1, without the far tails."""
        if self._noise == 0:
            return 1.0
        if not self._drawn:
            self._drawn = self._random.standard_normal(_DRAWS).tolist()[::-1]
        drawn = min(_MOST_SIGMA, max(-_MOST_SIGMA, self._drawn.pop()))
        return math.exp(self._noise * drawn - self._noise**2 / 2)

    def _next_boundary_s(self, after_s: float) -> float:
        if self.interval_s <= 0:
            return after_s
        return (math.floor(after_s / self.interval_s + _TICK_S) + 1) * self.interval_s

    def _pause(self) -> None:
        self._cold = True
        self.restart.begin(self._shared.now_s)
        self._take_plan()

    def _take_plan(self) -> None:
        self.restart.extend(self.parallelism, self._shared.now_s)
        self.parallelism = list(self.restart.parallelism)
        self.interval_s = self.restart.interval_s
        self._begin_run()
        self._wake_at(self.restart.until_s)

    def _key(self, place: str) -> tuple[str, str, float]:
        stage = self._batch.stage if self._batch else 0
        return self.group, place, self._stages[stage].cpu_share
