"""Event logs: what is read from whole ones, and that nothing ever crashes on broken ones."""

from __future__ import annotations

import bz2
import gzip
import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.history.logs import event_log, progress
from tidegate.history.eventlog import EventLog, rolled_files
from tidegate.history.metriccatalogue import metric_of
from tidegate.history.notes import Notes
from tidegate.history.read import read_history

LINES = event_log()
DATA = Path(__file__).resolve().parents[3] / "shared" / "data" / "spark_event_logs"


def _write(path: Path, lines: list[str]) -> Path:
    path.write_text("\n".join(lines) + "\n")
    return path


def test_batches_carry_progress_and_stages(tmp_path: Path) -> None:
    found = read_history(_write(tmp_path / "log", LINES))
    (table,) = found.tables
    assert (table.application, len(table)) == ("words", 6)
    assert table.column("rows").tolist() == [100, 101, 102, 103, 104, 105]
    assert table.column("backlog_rows").tolist() == [0, 2, 4, 6, 8, 10]
    assert table.column("busy_s") == pytest.approx([0.36] * 6)
    assert table.column("stage1.rows_in") == pytest.approx([110.0] * 6)
    assert table.column("slots").tolist() == [4.0] * 6
    assert table.column("warming").tolist() == [1, 0, 0, 0, 0, 0]
    assert found.notes.spark_version == "4.0.1"
    assert found.notes.unknown_events == {"SparkListenerOfTheFuture": 1}
    assert [name for name in table.names if metric_of(name) is None] == []


def test_the_order_of_lines_does_not_matter(tmp_path: Path) -> None:
    shuffled = LINES.copy()
    random.Random(4).shuffle(shuffled)
    (straight,) = read_history(_write(tmp_path / "a", LINES)).tables
    (mixed,) = read_history(_write(tmp_path / "b", shuffled)).tables
    assert straight.names == mixed.names
    assert np.allclose(straight.values, mixed.values, equal_nan=True)


def test_progress_lines_alone(tmp_path: Path) -> None:
    lines = [json.dumps(progress(batch)) for batch in range(5)]
    lines.append(json.dumps(progress(5, durationMs={"latestOffset": 3, "triggerExecution": 4})))  # idle
    lines.append(json.dumps(progress(6, numInputRows="Infinity", sources=[], stateOperators=None)))
    (table,) = read_history(_write(tmp_path / "progress.jsonl", lines)).tables
    assert len(table) == 6
    assert table.column("processing_s")[0] == pytest.approx(0.4)
    assert "output_rows" not in table.names  # −1 is not known


def lz4_java(data: bytes, block: int = 700) -> bytes:
    """What LZ4BlockOutputStream writes."""
    written = b""
    for at in range(0, len(data), block):
        part = data[at : at + block]
        packed = pa.Codec("lz4_raw").compress(part, asbytes=True)
        token, body = (0x25, packed) if len(packed) < len(part) else (0x15, part)
        header = b"LZ4Block" + bytes([token]) + len(body).to_bytes(4, "little") + len(part).to_bytes(4, "little")
        written += header + b"\0" * 4 + body
    return written + b"LZ4Block" + bytes([0x15]) + b"\0" * 12


def snappy_java(data: bytes, block: int = 700) -> bytes:
    """What SnappyOutputStream writes."""
    written = b"\x82SNAPPY\0" + (1).to_bytes(4, "big") + (1).to_bytes(4, "big")
    for at in range(0, len(data), block):
        packed = pa.Codec("snappy").compress(data[at : at + block], asbytes=True)
        written += len(packed).to_bytes(4, "big") + packed
    return written


PACKERS: dict[str, Any] = {
    "zstd": lambda data: pa.Codec("zstd").compress(data, asbytes=True),
    "lz4": lz4_java,
    "snappy": snappy_java,
    "gz": gzip.compress,
    "bz2": bz2.compress,
}


@pytest.mark.parametrize("codec", PACKERS)
@pytest.mark.parametrize("state", ["done", "inprogress", "cut"])
def test_compressed_logs(tmp_path: Path, codec: str, state: str) -> None:
    data = PACKERS[codec]("\n".join(LINES).encode())
    path = tmp_path / f"app-1.{codec}{'.inprogress' if state == 'inprogress' else ''}"
    path.write_bytes(data[: 2 * len(data) // 3] if state == "cut" else data)
    found = read_history(path)
    if state == "cut":
        assert sum(len(table) for table in found.tables) < 6
        assert found.notes.sentences()
    else:
        assert [len(table) for table in found.tables] == [6]


def test_lzf_is_refused_with_a_note(tmp_path: Path) -> None:
    (tmp_path / "app-1.lzf").write_bytes(b"ZV")
    assert "lzf is not supported" in read_history(tmp_path / "app-1.lzf").notes.sentences()[0]


def test_rolling_logs_in_order_and_compacted(tmp_path: Path) -> None:
    folder = tmp_path / "eventlog_v2_app-1"
    folder.mkdir()
    (folder / "appstatus_app-1.inprogress").touch()
    for number in (1, 2, 10):
        _write(folder / f"events_{number}_app-1", LINES[number * 2 : number * 2 + 2])
    _write(folder / "events_2_app-1.compact", LINES[:10])
    assert [path.name for path in rolled_files(folder)] == ["events_2_app-1.compact", "events_10_app-1"]
    assert read_history(tmp_path).notes.lines == 12


def _values() -> st.SearchStrategy[Any]:
    leaves = st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(),
        st.text(max_size=8),
        st.sampled_from(["NaN", "Infinity", "-1"]),
    )
    return st.recursive(
        leaves,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
        max_leaves=5,
    )


def _paths(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [at] if at else []
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        found += _paths(inner, (*at, key))
    return found


@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(st.randoms(use_true_random=False), st.lists(_values(), min_size=3, max_size=3))
def test_fuzz_any_value_anywhere(rng: random.Random, values: list[Any]) -> None:
    """Fields replaced by anything: tables come out, finite or missing, and nothing is raised."""
    log = EventLog(Notes())
    for line in LINES:
        event = json.loads(line)
        *way, last = rng.choice(_paths(event))
        holder = event
        for key in way:
            holder = holder[key]
        holder[last] = rng.choice(values)
        log.take(json.dumps(event))
    for table in log.tables():
        assert not np.isinf(table.values).any()


@settings(max_examples=40)
@given(st.randoms(use_true_random=False), st.integers(0, 3))
def test_fuzz_truncated_reordered_and_corrupted_bytes(rng: random.Random, kind: int) -> None:
    lines = LINES.copy()
    rng.shuffle(lines)
    log = EventLog(Notes())
    for line in lines:
        if kind == 0:
            line = line[: rng.randrange(len(line))]
        elif kind == 1:
            at = rng.randrange(len(line))
            line = line[:at] + chr(rng.randrange(32, 0x2FFF)) + line[at + 1 :]
        elif kind == 2:
            line = line + line[: rng.randrange(len(line))]
        log.take(line)
    notes = log.notes
    assert sum(len(table) for table in log.tables()) <= 6
    assert notes.unreadable_lines + notes.malformed_events <= notes.lines


def test_nonsense_is_counted() -> None:
    log = EventLog(Notes())
    for line in ("[" * 100_000, "{}", "null", "7", '{"Event": 3}', "\x00", '{"Event":"SparkListenerTaskEnd"}'):
        log.take(line)
    assert log.tables() == []
    assert (log.notes.unreadable_lines, log.notes.malformed_events) == (4, 1)


@pytest.mark.skipif(not DATA.is_dir(), reason="the shared event logs are not here")
@pytest.mark.parametrize("broken", [False, True])
def test_logs_in_the_wild(tmp_path: Path, broken: bool) -> None:
    rng = random.Random(1)
    for path in sorted(path for path in DATA.iterdir() if path.name != "LICENSE"):
        target = path
        if broken:
            lines = path.read_text(errors="replace").splitlines()
            rng.shuffle(lines)
            target = _write(tmp_path / path.name, [line[: rng.randrange(len(line))] for line in lines if line])
        found = read_history(target)
        if not broken and path.name == "local-1596020211915":
            assert [len(table) for table in found.tables] == [8]
            assert found.tables[0].column("rows").sum() > 0
