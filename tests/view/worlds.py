"""Journals to look at, with everything that a panel shows, and a control loop to steer."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from tests.core.worlds import pool
from tidegate.control.clock import WallClock
from tidegate.control.controller import Controller
from tidegate.control.journal import SqliteJournal
from tidegate.control.runner import Runner
from tidegate.domain import (
    ActionReceipt,
    ApplicationSample,
    Assessment,
    BatchSample,
    Decision,
    Held,
    Judgement,
    LatencySample,
    Mode,
    Observation,
    OperatorSample,
    Outcome,
    Prediction,
    Proposal,
    Reason,
    Receipt,
    ScaleExecutors,
    Targets,
)
from tidegate.domain.codec import to_tree
from tidegate.domain.observation import DriverTimes, PartitionLag
from tidegate.domain.policy import Policy
from tidegate.evaluate.evaluation import Evaluation
from tidegate.plan.planner import Plan

START_S = 1_800_000_000.0
POLICY = Policy.model_validate(
    {
        "objective": {"latency_s": 4},
        "executors": {"min": 1, "max": 6, "price_per_hour": 0.5},
        "interval_s": 5,
    }
)
NAMES = ("orders", "clicks")
EVERY_S = 5
"""Ten minutes are one block of a journal: few steps make several."""
Step = tuple[Observation, Decision, Receipt | None]


def batch(number: int, started_s: float, rows: int, slots: int) -> BatchSample:
    """Rows cost 8 ms each; a batch takes as long as the slots need for them."""
    busy_s = round(0.008 * rows, 4)
    work_s = busy_s / slots
    operators = (
        OperatorSample("read", 8, rows, busy_s * 0.25, busy_s * 0.2, 0.0, work_s * 0.25, rows, longest_task_s=work_s),
        OperatorSample(
            "count",
            8,
            rows,
            busy_s * 0.75,
            busy_s * 0.5,
            busy_s * 0.1,
            work_s * 0.75,
            rows,
            stateful=True,
            state_rows=1000 + 10 * number,
            state_bytes=200_000 + 2000 * number,
        ),
    )
    duration_s = round(0.4 + work_s, 4)
    return BatchSample(
        batch_id=number,
        started_s=started_s,
        duration_s=duration_s,
        rows=rows,
        busy_s=busy_s,
        overhead_s=0.4,
        backlog_rows=max(0, rows - 900),
        latency=LatencySample(rows, duration_s, duration_s + 0.5, duration_s + 0.9, duration_s + 1.0),
        operators=operators,
        state_rows=1000 + 10 * number,
        driver=DriverTimes(planning_s=0.1, offsets_s=0.05, log_s=0.15, sink_s=0.1),
        watermark_gap_s=12.5,
        lag=(PartitionLag("events-1", 40), PartitionLag("events-0", 7)),
    )


def look(number: int, executors: int, requested: int, names: tuple[str, ...] = NAMES) -> Observation:
    """A batch of both queries; the load swings every 40 steps."""
    time_s = START_S + number * EVERY_S + 0.6
    busy = number % 40 >= 20
    applications = tuple(
        ApplicationSample(
            name,
            (batch(number, time_s - 0.6, (3600 if busy else 1000) if not place else 50, 4 * max(1, executors)),),
            time_s,
            float(EVERY_S),
            gated=True,
        )
        for place, name in enumerate(names)
    )
    return Observation(time_s, applications, pool(executors, requested))


@lru_cache(maxsize=4)
def steps(count: int, names: tuple[str, ...] = NAMES) -> tuple[Step, ...]:
    """Grows when the load does, shrinks when it falls; the pool follows a step later."""
    found, size, before = list[Step](), 2, 2
    for number in range(count):
        observation = look(number, before, size, names)
        before = size
        wanted = {20: 5, 0: 2}.get(number % 40, size) if number else size
        actions = (ScaleExecutors(wanted),) if wanted != size else ()
        held = (Held("cool-down", ScaleExecutors(6), Reason("cool-down", "grew 5 s ago")),) if number % 40 == 21 else ()
        code = "grow" if wanted > size or held else "shrink" if wanted < size else "hold-fits"
        decision = Decision(
            step=number + 1,
            time_s=observation.time_s,
            actions=actions,
            held=held,
            reasons=(Reason(code, f"{names[0]}: {sum(one.rows for one in observation.applications[0].batches)} rows"),),
            assessments=tuple(_belief(sample) for sample in observation.applications),
            predictions=tuple(Prediction(name, observation.time_s + 30, 1.5, 0.01, wanted) for name in names[:1])
            if actions
            else (),
        )
        size = wanted
        receipt = Receipt(tuple(ActionReceipt(action, Outcome.DONE) for action in actions))
        found.append((observation, decision, receipt))
    return tuple(found)


def _belief(sample: ApplicationSample) -> Assessment:
    rows = sample.batches[0].rows
    return Assessment(
        application=sample.name,
        usable=True,
        arrival_rows_per_s=rows / EVERY_S,
        expected_rows_per_s=rows / EVERY_S + 10,
        service_s_per_row=0.008,
        overhead_s=0.4,
        backlog_rows=rows,
        latency_p99_s=1.3,
        needed_slots=rows * 0.008 / EVERY_S + 1,
        objective_s=4.0,
        budget_left=0.75,
        expected_low_rows_per_s=rows / EVERY_S - 20,
        expected_high_rows_per_s=rows / EVERY_S + 40,
    )


def write(path: Path, some: tuple[Step, ...]) -> Path:
    """A finished journal."""
    journal = SqliteJournal(path)
    record(journal, some)
    journal.close()
    return path


def record(journal: SqliteJournal, some: tuple[Step, ...]) -> None:
    journal.save_blob("policy", POLICY.model_dump_json().encode())
    journal.note(START_S, "control-started", "mode apply")
    for step in some:
        journal.record(*step)
        for prediction in step[1].predictions:
            judged = Judgement(step[1].step, prediction, p99_s=1.4, late_share=0.0)
            journal.judge(judged.step, to_tree(judged))


class OneMore:
    """Wants one executor more, always."""

    def plan(self, evaluation: Evaluation) -> Plan:
        reason = Reason("grow", "one more")
        return Plan((Proposal(ScaleExecutors(evaluation.pool.registered + 1), reason),), (reason,))


class Growing:
    """A world that does what it is asked, and remembers it."""

    def __init__(self) -> None:
        self.second = 0
        self.executors = 1
        self.asked: list[int] = []

    def observe(self) -> Observation:
        self.second += 1
        seen = look(30, self.executors, self.executors)
        return Observation(time.time(), seen.applications, seen.pool)

    def converge(self, targets: Targets) -> Receipt:
        if targets.executors is None or targets.executors == self.executors:
            return Receipt()
        self.asked.append(targets.executors)
        self.executors = targets.executors
        return Receipt((ActionReceipt(ScaleExecutors(targets.executors), Outcome.DONE),))

    def release(self) -> None:
        return


@dataclass
class Running:
    """A control loop in a thread."""

    runner: Runner
    journal: SqliteJournal
    world: Growing
    clock: WallClock

    def until(self, condition: object, limit_s: float = 180.0) -> None:
        assert callable(condition)
        end_s = time.monotonic() + limit_s
        while not condition():
            assert time.monotonic() < end_s, "it did not happen in time"
            time.sleep(0.01)


@contextmanager
def running(path: Path, mode: Mode = Mode.APPLY) -> Iterator[Running]:
    """Control of a growing world, twenty steps a second."""
    policy = POLICY.model_copy(update={"mode": mode, "interval_s": 0.05})
    journal, world, clock = SqliteJournal(path), Growing(), WallClock()
    runner = Runner(world, Controller(policy, planner=OneMore()), clock, journal, journal)
    thread = threading.Thread(target=runner.run, daemon=True)
    thread.start()
    try:
        found = Running(runner, journal, world, clock)
        found.until(lambda: runner.steps > 2)
        yield found
    finally:
        clock.stop()
        thread.join(60)
        journal.close()
