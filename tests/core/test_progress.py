"""Progress reports as they are found in the wild."""

import base64
import json
import math
from typing import Any

import datasketches
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.adapters.spark.latency import EDGES_S, counted_latency, sketched_latency
from tidegate.history.progress import parse_progress

REPORT: dict[str, Any] = {
    "id": "q",
    "runId": "r",
    "name": "wc",
    "timestamp": "2026-01-01T00:00:10.500Z",
    "batchId": 3,
    "durationMs": {"addBatch": 700, "triggerExecution": 900},
    "sources": [
        {
            "startOffset": {"row": 10, "start_ms": 0},
            "endOffset": {"row": 30, "start_ms": 0},
            "latestOffset": {"row": 45, "start_ms": 0},
            "numInputRows": 40,
        }
    ],
    "sink": {"numOutputRows": -1},
    "numInputRows": 40,
    "observedMetrics": {
        "tidegate.out.count": {"rows": 7},
        "tidegate.in.split": {"rows": 19},
        "tidegate.in.lines": {"rows": 20},
        "tidegate.order.lines,split,count": {"rows": 7},
    },
}


def report(**changes: Any) -> str:
    return json.dumps({**REPORT, **changes})


def test_offsets_count_rows_where_the_report_miscounts() -> None:
    progress = parse_progress(report())
    assert (progress.rows, progress.backlog_rows, progress.duration_s) == (20, 15, 0.9)
    assert [(found.name, found.rows_in, found.rows_out) for found in progress.operators] == [
        ("lines", 20, None),
        ("split", 19, None),
        ("count", None, 7),
    ]


def test_offsets_inside_strings_are_read() -> None:
    source = {key: json.dumps(value) if "Offset" in key else value for key, value in REPORT["sources"][0].items()}
    assert parse_progress(report(sources=[source])).rows == 20


def test_several_sources_add_up_and_one_silent_source_hides_the_backlog() -> None:
    kafka = {"startOffset": {"t": {"0": 5}}, "endOffset": {"t": {"0": 9}}, "latestOffset": {"t": {"0": 10}}}
    files = {"startOffset": {"logOffset": 1}, "endOffset": {"logOffset": 2}, "latestOffset": None}
    both = parse_progress(report(sources=[REPORT["sources"][0], kafka]))
    assert (both.rows, both.backlog_rows) == (24, 16)
    silent = parse_progress(report(sources=[kafka, files]))
    assert (silent.rows, silent.backlog_rows) == (40, None)


@pytest.mark.parametrize(
    "offsets",
    [
        {"startOffset": None, "endOffset": None, "latestOffset": None},
        {"startOffset": [1], "endOffset": [2]},
        {"startOffset": 3, "endOffset": 9, "latestOffset": "Infinity"},
        {"startOffset": "{", "endOffset": "{"},
        {"startOffset": {"t": {"0": "x"}}, "endOffset": {"t": {"0": "y"}}},
    ],
)
def test_strange_offsets_are_unknown_not_wrong(offsets: dict[str, Any]) -> None:
    progress = parse_progress(report(sources=[offsets], inputRowsPerSecond="Infinity"))
    assert (progress.rows, progress.backlog_rows) == (40, None)


def test_an_idle_report_is_no_batch() -> None:
    idle = parse_progress(report(durationMs={"latestOffset": 2, "triggerExecution": 3}, numInputRows=0, sources=[]))
    assert not idle.committed


@pytest.mark.parametrize("text", ["{}", "[]", '{"id": "q"}', "null", report(timestamp=None), report(durationMs=[1])])
def test_what_is_no_report_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError, match=r"not a progress report|Invalid"):
        parse_progress(text)


def test_latency_quantiles_come_from_the_oldest_rows() -> None:
    sketch = datasketches.kll_doubles_sketch(200)
    for second in range(100):
        sketch.update(1000.0 + second)
    sample = sketched_latency(base64.b64encode(sketch.serialize()).decode(), committed_s=1100.0)
    assert sample is not None
    assert (sample.rows, sample.max_s) == (100, 100.0)
    assert sample.p50_s == pytest.approx(50, abs=2)
    assert sample.p99_s == pytest.approx(99, abs=2)


@pytest.mark.parametrize("sketch", ["", "AAAA", "not base64!"])
def test_bytes_that_are_no_sketch_give_no_latency(sketch: str) -> None:
    assert sketched_latency(sketch, 0.0) is None


def counts_of(events_s: list[float], planned_s: float) -> list[float]:
    ages = [planned_s - event for event in events_s]
    older = [sum(age > edge for age in ages) for edge in EDGES_S]
    return [len(events_s), min(events_s), max(events_s), planned_s, *older]


@given(st.lists(st.floats(0.0, 1000.0), min_size=1, max_size=60), st.floats(0.0, 60.0))
def test_counted_latency_is_within_a_bin_of_the_truth(ages: list[float], batch_s: float) -> None:
    planned_s = 10_000.0
    sample = counted_latency(counts_of([planned_s - age for age in ages], planned_s), planned_s + batch_s)
    assert sample is not None
    assert sample.max_s == pytest.approx(max(ages) + batch_s, abs=1e-6)
    true = sorted(ages)[max(0, math.ceil(0.9 * len(ages)) - 1)]
    later = sorted(ages)[min(len(ages) - 1, math.ceil(0.9 * len(ages)))]
    assert (true - 0.05) / 1.34 <= sample.p90_s - batch_s + 1e-6
    assert sample.p90_s - batch_s <= max(later * 1.34, 0.05) + 1e-6


@pytest.mark.parametrize("counts", [[], [1.0], [0.0] * 40, [5.0, 9.0, 1.0, 10.0] + [0.0] * 36])
def test_counts_that_are_none_give_no_latency(counts: list[float]) -> None:
    assert counted_latency(counts, 0.0) is None


def test_counts_are_read_from_a_report() -> None:
    row = {f"field{place}": value for place, value in enumerate(counts_of([95.0, 99.0], 100.0))}
    progress = parse_progress(json.dumps({**REPORT, "observedMetrics": {"tidegate.latency": row}}))
    sample = counted_latency(progress.latency_counts, 101.0)
    assert sample is not None
    assert (sample.rows, sample.max_s) == (2, 6.0)
    assert progress.latency_sketch is None
