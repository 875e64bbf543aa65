"""Progress reports as they are found in the wild."""

import base64
import json
from typing import Any

import datasketches
import pytest

from tidegate.history.progress import parse_progress
from tidegate.spark.latency import latency_sample

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
    sample = latency_sample(base64.b64encode(sketch.serialize()).decode(), committed_s=1100.0)
    assert sample is not None
    assert (sample.rows, sample.max_s) == (100, 100.0)
    assert sample.p50_s == pytest.approx(50, abs=2)
    assert sample.p99_s == pytest.approx(99, abs=2)


@pytest.mark.parametrize("sketch", ["", "AAAA", "not base64!"])
def test_bytes_that_are_no_sketch_give_no_latency(sketch: str) -> None:
    assert latency_sample(sketch, 0.0) is None
