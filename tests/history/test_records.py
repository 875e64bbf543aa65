"""What a live observation leaves in the history: everything the catalogue says, and what analyses make of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.core.worlds import application, batch, pool
from tests.history.logs import event_log
from tidegate.adapters.host import hostwatch
from tidegate.adapters.host.hostwatch import HostWatch
from tidegate.analysis.capacity import component_type, profile
from tidegate.analysis.recommend import recommend
from tidegate.domain import (
    ArrivalSample,
    DriverTimes,
    HostSample,
    LatencySample,
    MemorySample,
    Observation,
    OperatorSample,
)
from tidegate.history.batchrecords import Flattener, ObservationFlattener, Surroundings
from tidegate.history.eventlog import EventLog
from tidegate.history.metriccatalogue import METRICS, metric_of
from tidegate.history.metrictable import MetricTable
from tidegate.history.notes import Notes

MB = 2**20


def operator(name: str, **changes: Any) -> OperatorSample:
    values: dict[str, Any] = {
        "name": name,
        "parallelism": 4,
        "rows_in": 100,
        "busy_s": 1.0,
        "cpu_s": 0.8,
        "communication_s": 0.1,
        "execute_latency_s": 0.5,
        "rows_out": 100,
        "bytes_in": 900,
        "bytes_out": 800,
        "fetch_wait_s": 0.05,
        "executors": ("0", "1", "0", "1"),
        "failed_tasks": 1,
    }
    return OperatorSample(**{**values, **changes})


WORD_COUNT = (
    operator("read", bytes_in=0),
    operator("split"),
    operator("count", stateful=True, state_bytes=5 * MB, state_commit_s=0.2, failed_tasks=2),
)


def full(number: int) -> Observation:
    """An observation in which everything is known."""
    made = batch(
        number,
        1000.0 + number,
        100,
        operators=WORD_COUNT,
        latency=LatencySample(100, 1.0, 1.5, 2.0, 2.5),
        state_rows=1000,
        driver=DriverTimes(0.02, 0.01, 0.03, 0.0),
        watermark_gap_s=5.0,
        dropped_rows=3,
        memory=MemorySample(gc_s=0.1, spilled_bytes=64 * MB, out_of_memory=1, peak_bytes=32 * MB),
    )
    host = HostSample("here", 8, 0.5, 0.1, 16 * 1024 * MB, 4 * 1024 * MB, cpu_user=0.4, cpu_system=0.1)
    arrival = ArrivalSample(1000.9 + number, 100 * number)
    sample = application((made,), admission_rows=500, arrival=arrival)
    return Observation(1000.9 + number, (sample,), pool(2), (host,))


def recorded(batches: int = 10) -> MetricTable:
    flattener = ObservationFlattener()
    records = [record for number in range(batches) for _, record in flattener.records(full(number))]
    return MetricTable.from_records("app", records)


def test_everything_the_catalogue_promises_is_recorded() -> None:
    columns = {name.rpartition(".")[2] if "." in name else name for name in recorded().names}
    live = {metric.name for metric in METRICS if metric.live}
    assert live - columns == set()
    assert all(metric_of(name) is not None for name in recorded().names), "and everything recorded is explained"
    logged = {metric.name for metric in METRICS if not metric.live}
    assert not logged & columns


def test_memory_failures_and_state_are_recorded() -> None:
    table = recorded(2)
    values = {name: float(table.column(name)[-1]) for name in table.names}
    assert (values["gc_s"], values["spill_bytes"], values["peak_memory_bytes"]) == (0.1, 64 * MB, 32 * MB)
    assert (values["tasks_failed"], values["count.tasks_failed"], values["tasks_out_of_memory"]) == (4, 2, 1)
    assert (values["state_memory_bytes"], values["state_commit_s"]) == (5 * MB, 0.2)
    assert values["shuffle_read_bytes"] == 1800
    assert values["fetch_wait_s"] == pytest.approx(0.15)
    assert values["split.executors"] == 2
    assert (values["host_cpu_user"], values["host_cpu_system"]) == (0.4, 0.1)


def test_what_was_not_measured_is_missing() -> None:
    alone = batch(0, 1000.0, 100, operators=(operator("work", failed_tasks=None, executors=(), bytes_in=None),))
    found = Flattener().metrics(alone, Surroundings())
    unknown = {"gc_s", "spill_bytes", "peak_memory_bytes", "tasks_failed", "work.executors", "state_memory_bytes"}
    assert not unknown & set(found)
    assert not {"host_cpu_user", "shuffle_read_bytes", "planning_s"} & set(found)


def test_an_operator_may_be_several_types_at_once() -> None:
    table = recorded(2)
    assert component_type(table, "read") == "source"
    assert component_type(table, "split") == "stateless"
    assert component_type(table, "count") == "stateful, sink"
    joined = batch(0, 1000.0, 100, operators=(operator("a", bytes_in=0), operator("b", bytes_in=0), operator("join")))
    found = Flattener().metrics(joined, Surroundings())
    assert [found[f"{name}.is_source"] for name in ("a", "b", "join")] == [1, 1, 0]
    single = batch(0, 1000.0, 100, operators=(operator("work", bytes_in=None),))
    assert {Flattener().metrics(single, Surroundings())[f"work.is_{name}"] for name in ("source", "sink")} == {1}


def test_an_event_log_knows_the_types_too() -> None:
    log = EventLog(Notes())
    for line in event_log(8):
        log.take(line)
    (table,) = log.tables()
    types = [component_type(table, name) for name in ("stage0", "stage1")]
    assert types == ["source", "stateful, sink"]


def test_analyses_read_what_was_recorded() -> None:
    table = recorded(40)
    found = profile(table)
    assert {each.operator: each.type for each in found.operators}["count"] == "stateful, sink"
    said = {each.code: each.text for each in recommend(table, found, {})}
    assert said["garbage-collection"] == "garbage collection takes 20% of task time: give executors more memory"
    assert said["spill"] == "a batch spills 64 MB to disk: more memory, or more partitions"
    assert said["failures"] == "160 tasks failed, 40 of them for lack of memory: give executors more memory"


def test_old_observations_are_still_read() -> None:
    """Journals from before these figures were known have none of them."""
    before = replace(full(0).applications[0].batches[0], memory=MemorySample(0.1, 0, 0))
    found = Flattener().metrics(before, Surroundings())
    assert found["gc_s"] == 0.1
    assert "peak_memory_bytes" not in found


@pytest.mark.parametrize("works_here", [True, False])
def test_user_and_system_time_come_from_proc(works_here: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "meminfo").write_text("MemTotal: 100 kB\nMemAvailable: 50 kB\n")
    monkeypatch.setattr(hostwatch, "_machine", lambda: hostwatch._Proc(tmp_path))
    watch = HostWatch(works_here)
    (tmp_path / "stat").write_text("cpu 100 10 50 800 40 0 0 0 0 0\n")
    first = watch.sample()
    assert (first.cpu_busy, first.cpu_user) == (0.0, None), "shares need two looks"
    (tmp_path / "stat").write_text("cpu 140 20 60 830 40 5 5 0 0 0\n")
    second = watch.sample()
    assert second.cpu_busy == pytest.approx(0.7)
    assert (second.cpu_user, second.cpu_system) == ((0.5, 0.2) if works_here else (None, None))


def test_psutil_and_proc_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("psutil")
    kernel, library = hostwatch._Proc().times(), hostwatch._Psutil().times()
    assert kernel is not None
    assert library is not None
    ticks_per_s = kernel.total / library.total
    assert kernel.user / ticks_per_s == pytest.approx(library.user, rel=0.01, abs=1.0)
    assert kernel.system / ticks_per_s == pytest.approx(library.system, rel=0.01, abs=1.0)
