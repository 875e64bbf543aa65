"""How the QoS experiments count rows, and how they steer several applications on one host; no Spark is started."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tidegate.adapters.spark.gatefile import read_admission
from tidegate.control.journal import Entry, SqliteJournal
from tidegate.domain import (
    ApplicationSample,
    BatchSample,
    ExecutorPool,
    Observation,
    OperatorSample,
    Outcome,
    ScaleExecutors,
    SetAdmission,
    SetShare,
    Targets,
)
from tidegate.load import Timeline
from tidegate_lab.experiments.qos_classes import ApplicationRows, QosRun, to_json
from tidegate_lab.experiments.qos_plan import APPLICATIONS, CLASSES, PLANS, QosPlan, even
from tidegate_lab.experiments.qos_processes import HostCluster, Worker, in_cpu_time
from tidegate_lab.experiments.qos_run_figures import figures
from tidegate_lab.experiments.rowlatency import row_latencies

POOL = ExecutorPool((), 0, 1)


def seen(time_s: float, name: str, *batches: BatchSample) -> Observation:
    return Observation(time_s, (ApplicationSample(name, batches, time_s, 5.0),), POOL)


def batch(number: int, rows: int, started_s: float, duration_s: float) -> BatchSample:
    return BatchSample(number, started_s, duration_s, rows, None, None, None)


def test_rows_are_late_by_their_batch_and_unfinished_ones_by_their_age() -> None:
    entries = [
        Entry(105.0, seen(105.0, "a", batch(0, 2, 102.0, 1.0)), None, None),
        Entry(106.0, seen(106.0, "b", batch(0, 3, 101.0, 1.0)), None, None),
        Entry(120.0, seen(120.0, "a", batch(1, 1, 104.0, 2.0), batch(2, 1, 104.0, 50.0)), None, None),
    ]
    latencies_s, committed = row_latencies(entries, "a", np.array([1.0, 2.0, 3.0, 4.0]), start_s=100.0, end_s=110.0)
    assert latencies_s.tolist() == [2.0, 1.0, 3.0, 6.0]
    assert committed == 3, "a batch that commits after the end is not done at the end"


def played(plan: QosPlan, name: str, delay_s: dict[str, float]) -> QosRun:
    """A run in which every row of a class takes the same time."""
    rows = []
    for application in APPLICATIONS:
        arrivals_s = Timeline(plan.load(application.qos_class)).arrivals_s(0, plan.rows(application.qos_class))
        latencies_s = np.full(len(arrivals_s), delay_s[application.qos_class])
        rows.append(ApplicationRows(application.qos_class, arrivals_s, latencies_s, len(arrivals_s)))
    return QosRun(name, tuple(rows), {}, 0.0)


@pytest.mark.slow
def test_figures_of_a_phase(tmp_path: Path) -> None:
    plan = PLANS["quick"]
    runs = [
        played(plan, name, dict(zip(CLASSES, delays, strict=True)))
        for name, delays in (("fifo", (13, 5, 1)), ("fair", (6, 5, 4)), ("tidegate", (1, 2, 3)))
    ]
    document = to_json(plan, runs)
    burst = document["fifo"]
    assert (burst["q1"]["p99_s"], burst["q1"]["violation_rate"]) == (13.0, 1.0)
    assert (burst["q2"]["p50_s"], burst["q2"]["violation_rate"]) == (5.0, 0.0)
    assert sum(burst[name]["throughput_share"] for name in CLASSES) == pytest.approx(1.0, abs=1e-3)
    expected = 3 * sum(plan.phases[1].rows_per_s.values())
    assert document["tidegate"]["throughput_rows_per_s"] == pytest.approx(expected, rel=0.1)
    assert set(document["phases"]) == {"before", "after"}
    assert all(path.is_file() for path in figures(plan, runs, tmp_path))


def test_phases_follow_one_another() -> None:
    plan = QosPlan((even("a", 10, 5), even("b", 10, 20)))
    assert plan.spans_s == {"a": (0.0, 10.0), "b": (10.0, 20.0)}
    assert plan.rows("q1") == 250


def test_slot_time_gives_way_to_processor_time_where_that_is_known() -> None:
    operators = tuple(
        OperatorSample(name, 1, 10, busy_s=3.0, cpu_s=0.5, communication_s=None, execute_latency_s=3.0) for name in "ab"
    )
    slow = replace(batch(0, 10, 0.0, 6.0), busy_s=6.0, operators=operators)
    assert in_cpu_time(slow).busy_s == 1.0
    unknown = replace(slow, operators=(operators[0], replace(operators[1], cpu_s=None)))
    assert in_cpu_time(unknown).busy_s == 6.0


class Shares:
    def __init__(self) -> None:
        self.given: dict[str, float] = {}

    def set_share(self, group: str, share: float) -> None:
        self.given[group] = share


def test_a_host_joins_what_its_applications_say_and_steers_them_all(tmp_path: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", ""], text=True)
    process.wait()
    workers = [Worker(name, process, gates={f"{name}-md5": str(tmp_path / f"{name}.json")}) for name in ("q1", "q3")]
    stores = {name: tmp_path / f"{name}.db" for name in ("q1", "q3")}
    journals = {name: SqliteJournal(path) for name, path in stores.items()}
    shares = Shares()
    host = HostCluster(workers, stores, shares)  # type: ignore[arg-type]
    assert host.observe().applications == ()
    journals["q1"].record(seen(1.0, "q1-md5", batch(0, 5, 0.0, 1.0)), None, None)
    journals["q1"].record(seen(2.0, "q1-md5", batch(1, 6, 1.0, 1.0)), None, None)
    journals["q3"].record(seen(2.0, "q3-md5"), None, None)
    first, second = host.observe(), host.observe()
    assert {sample.name: [one.rows for one in sample.batches] for sample in first.applications} == {
        "q1-md5": [5, 6],
        "q3-md5": [],
    }
    assert [sample.batches for sample in second.applications] == [(), ()], "each batch appears once"
    receipt = host.converge(Targets().after([SetShare("q1", 0.7), SetAdmission("q3-md5", 40), ScaleExecutors(3)]))
    assert [one.outcome for one in receipt.actions] == [Outcome.REFUSED, Outcome.DONE, Outcome.DONE]
    assert shares.given == {"q1": 0.7}
    admission = read_admission(tmp_path / "q3.json")
    assert admission is not None
    assert admission.rows_per_trigger == 40
