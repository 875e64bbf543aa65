"""One Spark application per class, each in its control group, under a burst of the lowest: the paper's own actuator.

Three ways to share the CPUs, with the same rows: equal shares, fixed weights 6/3/1, and Tidegate, which changes weights
and admission once a second based on the reports of the three applications.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tidegate.adapters.host.hostwatch import HostWatch
from tidegate.adapters.host.shares import ProcessGroups
from tidegate.adapters.spark.gatefile import GateLimit, write_admission
from tidegate.control.clock import WallClock
from tidegate.control.controller import Controller
from tidegate.control.journal import SqliteJournal, read_entries
from tidegate.control.runner import Runner
from tidegate.domain import (
    Action,
    ActionReceipt,
    ApplicationSample,
    BatchSample,
    EnvironmentUnfit,
    ExecutorPool,
    ExecutorSample,
    InvalidInput,
    Mode,
    Observation,
    Outcome,
    Receipt,
    SetAdmission,
    SetShare,
    Targets,
)
from tidegate.domain.resolution import rounded
from tidegate_lab.experiments.qos_classes import QosRun, read_rows
from tidegate_lab.experiments.qos_plan import APPLICATIONS, CLASSES, PLANS, SLOTS, WEIGHTS, policy

RUNS = ("equal", "weights", "tidegate")
_SILENCE_S = 300.0

Told = Callable[[str, float], None]


@dataclass
class Worker:
    """The application of one class, as its parent sees it."""

    qos_class: str
    process: subprocess.Popen[str]
    gates: dict[str, str] = field(default_factory=dict)
    seen: int = 0
    """The last step of its journal that was read."""

    @classmethod
    def start(cls, qos_class: str, out: Path) -> Worker:
        command = [sys.executable, "-m", "tidegate_lab.experiments.qos_worker", qos_class, str(out)]
        with (out / f"{qos_class}.log").open("w") as log:
            process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, bufsize=1
            )
        return cls(qos_class, process)

    def tell(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")

    def answer(self) -> dict[str, Any]:
        """Return its next line of JSON. A worker that does not answer in time is killed."""
        assert self.process.stdout is not None
        watchdog = threading.Timer(_SILENCE_S, self.process.kill)
        watchdog.start()
        try:
            line = next((line for line in self.process.stdout if line.startswith("{")), None)
        finally:
            watchdog.cancel()
        if line is None:
            raise EnvironmentUnfit(f"the application of {self.qos_class} has ended or hangs; see {self.qos_class}.log")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        try:
            self.process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class HostCluster:
    """Several Spark applications on one host behind the `Cluster` port: journals in, weights and admission out."""

    def __init__(self, workers: list[Worker], stores: dict[str, Path], groups: ProcessGroups) -> None:
        self._workers = workers
        self._stores = stores
        self._groups = groups
        self._host = HostWatch(works_here=True)
        self._latest: dict[str, ApplicationSample] = {}
        self._asked: dict[str, int | None] = {}
        self._shares: dict[str, float] = {}
        """Limits as last requested. A source reports the limit in force only when it next plans a batch."""

    def observe(self) -> Observation:
        """Combine the reports of all applications since the last observation into one observation of the host."""
        fresh: dict[str, ApplicationSample] = {}
        for worker in self._workers:
            for observation in self._unread(worker):
                for sample in observation.applications:
                    before = fresh.get(sample.name)
                    batches = (before.batches if before else ()) + tuple(map(in_cpu_time, sample.batches))
                    limit = self._asked.get(sample.name, sample.admission_rows)
                    fresh[sample.name] = replace(sample, batches=batches, admission_rows=limit)
        for name, sample in self._latest.items():
            fresh.setdefault(name, replace(sample, batches=()))
        self._latest = fresh
        host = self._host.sample()
        pool = ExecutorPool((ExecutorSample(host.name, host.name, SLOTS, 0, 0.0),), 1, SLOTS, scalable=False)
        return rounded(Observation(time.time(), tuple(fresh.values()), pool, (host,)))

    def converge(self, targets: Targets) -> Receipt:
        answers = (self._act(action) for action in targets.actions())
        return Receipt(tuple(answer for answer in answers if answer is not None))

    def release(self) -> None:
        """Remove all limits. The control groups are restored when the run ends."""
        for worker in self._workers:
            for path in worker.gates.values():
                Path(path).unlink(missing_ok=True)
        self._asked.clear()

    def _act(self, action: Action) -> ActionReceipt | None:
        """Apply one action; None if the level is already set."""
        if isinstance(action, SetShare):
            if self._shares.get(action.group) == action.share:
                return None
            self._shares[action.group] = action.share
            self._groups.set_share(action.group, action.share)
            return ActionReceipt(action, Outcome.DONE, "through its control group")
        gates = {name: path for worker in self._workers for name, path in worker.gates.items()}
        if isinstance(action, SetAdmission) and action.application in gates:
            if self._asked.get(action.application, 0) == action.rows_per_trigger:
                return None
            write_admission(Path(gates[action.application]), GateLimit(action.rows_per_trigger))
            self._asked[action.application] = action.rows_per_trigger
            return ActionReceipt(action, Outcome.DONE, "through the gate of its source")
        return ActionReceipt(action, Outcome.REFUSED, "applications of a host support only shares and admission")

    def _unread(self, worker: Worker) -> list[Observation]:
        path = self._stores[worker.qos_class]
        if not path.is_file():
            return []
        try:
            found = list(read_entries(path, after=worker.seen))
        except InvalidInput:  # it is being made just now
            return []
        if found:
            worker.seen = found[-1].number
        return [entry.observation for entry in found if entry.observation is not None]


def in_cpu_time(batch: BatchSample) -> BatchSample:
    """The batch with its tasks' processor time for their slot time.

    Three applications together have more slots than the host has CPUs, so slot time is mostly waiting.
    """
    spent = [operator.cpu_s for operator in batch.operators]
    if not spent or None in spent:
        return batch
    return replace(batch, busy_s=sum(one for one in spent if one is not None))


def run_all(plan: str, out: Path, told: Told) -> list[QosRun]:
    """Start the three applications, warm them up, then one run after the other on the same processes."""
    out.mkdir(parents=True, exist_ok=True)
    groups = ProcessGroups()
    cpu = groups.capabilities()[0]
    if not cpu.able:
        raise EnvironmentUnfit(f"no control groups for processors here: {cpu.reason}")
    with ExitStack() as stack:
        workers = []
        for qos_class in CLASSES:
            workers.append(Worker.start(qos_class, out))
            stack.callback(workers[-1].close)
        stack.callback(groups.restore)
        for worker in workers:
            worker.answer()
            groups.adopt(worker.qos_class, [worker.process.pid])
        workers[0].tell("measure")
        course = _Course(workers, groups, out, told, work=workers[0].answer()["work"])
        began_s = time.time()
        _run_once(course, "warm-up", "equal", lead_s=0.0)
        lead_s = max(12.0, 1.2 * (time.time() - began_s - PLANS["warm-up"].end_s))
        return [_run_once(course, plan, name, lead_s) for name in RUNS]


@dataclass(frozen=True, slots=True)
class _Course:
    """What all runs share."""

    workers: list[Worker]
    groups: ProcessGroups
    out: Path
    told: Told
    work: float
    """Of a row on this machine."""


def _run_once(course: _Course, plan_name: str, name: str, lead_s: float) -> QosRun:
    workers, groups, out = course.workers, course.groups, course.out
    plan = PLANS[plan_name]
    total = sum(WEIGHTS.values())
    for qos_class in CLASSES:
        groups.set_share(qos_class, WEIGHTS[qos_class] / total if name == "weights" else 1 / len(CLASSES))
    start_s = time.time() + lead_s
    for worker in workers:
        worker.seen = 0
        worker.tell(f"run {plan_name} {name} {round(start_s * 1000)} {course.work}")
    for worker in workers:
        worker.gates = worker.answer()["gates"]
    if lead_s and time.time() > start_s:
        raise EnvironmentUnfit(f"{name}: the queries took more than {lead_s:.0f} s to start; is the machine busy?")
    stores = {worker.qos_class: out / f"{name}-{worker.qos_class}.db" for worker in workers}
    with ExitStack() as stack:
        if name == "tidegate":
            stack.callback(_control(HostCluster(workers, stores, groups), out / "tidegate.db"))
        while (at_s := time.time() - start_s) < plan.end_s:
            course.told(name, at_s)
            time.sleep(0.5)
    end_s = time.time()
    for worker in workers:
        worker.tell("stop")
    for worker in workers:
        if (failure := worker.answer()["failure"]) is not None:
            raise EnvironmentUnfit(f"{name}: {worker.qos_class}: control ended early: {failure}")
    rows = tuple(
        read
        for qos_class in CLASSES
        for read in read_rows(plan, stores[qos_class], start_s, end_s, _applications(qos_class))
    )
    return QosRun(name, rows, {}, 0.0)


def _control(cluster: HostCluster, store: Path) -> Callable[[], None]:
    """Start the loop in a thread; returns what ends it."""
    for leftover in store.parent.glob(f"{store.name}*"):
        leftover.unlink()
    journal, clock = SqliteJournal(store), WallClock()
    runner = Runner(cluster, Controller(policy(Mode.APPLY, store)), clock, journal, journal)
    failed: list[BaseException] = []

    def run() -> None:
        try:
            runner.run()
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=run, name="tidegate-control", daemon=True)
    thread.start()

    def end() -> None:
        clock.stop()
        thread.join(10)
        journal.close()
        if failed:
            raise EnvironmentUnfit(f"control ended early: {failed[0]}")

    return end


def _applications(qos_class: str) -> tuple[Any, ...]:
    return tuple(application for application in APPLICATIONS if application.qos_class == qos_class)


def to_json(plan: str, runs: list[QosRun]) -> dict[str, Any]:
    """The burst of every run, and how many times better than equal shares each class's p99 is."""
    span_s = PLANS[plan].spans_s["burst"]
    document: dict[str, Any] = {run.name: run.figures(span_s) for run in runs}
    equal = document["equal"]
    document["p99_against_equal"] = {
        name: {
            qos_class: round(equal[qos_class]["p99_s"] / document[name][qos_class]["p99_s"], 2) for qos_class in CLASSES
        }
        for name in RUNS[1:]
    }
    return document
