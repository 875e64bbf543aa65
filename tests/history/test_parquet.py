"""Recorded histories: what is written reads back, here and elsewhere, in bounded files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.core.worlds import steady
from tidegate.domain import InvalidInput
from tidegate.history.metrictable import MetricRecord
from tidegate.history.parquetwriter import HistoryWriter
from tidegate.history.read import read_history

DAY_S = 86_400.0


def _record(at: float, **metrics: float) -> MetricRecord:
    return MetricRecord(1_750_000_000.0 + at, int(at), metrics)


def test_observations_read_back_equal(tmp_path: Path) -> None:
    with HistoryWriter(tmp_path, flush_samples=4) as writer:
        for observation in steady(rows=100, steps=10, executors=1):
            writer.observe(observation)
    (table,) = read_history(tmp_path).tables
    assert (table.application, len(table)) == ("app", 10)
    assert table.column("input_rows_per_s")[1:] == pytest.approx([100.0] * 9)
    assert table.column("work.capacity")[1:] == pytest.approx([0.125] * 9)  # 0.5 slot-s of 4 slots a second


def test_anyone_can_read_it(tmp_path: Path) -> None:
    with HistoryWriter(tmp_path) as writer:
        writer.add("a/b c", _record(0, rows=1.0))
        writer.add("a/b c", _record(1, rows=2.0, gc_s=0.5))
    frame = pd.read_parquet(tmp_path)
    assert frame["rows"].tolist() == [1.0, 2.0]
    assert set(frame.columns) >= {"time_s", "batch_id", "application", "day"}
    assert read_history(tmp_path).tables[0].application == "a/b c"


def test_parts_rotate_by_size_and_day_and_disk_is_bounded(tmp_path: Path) -> None:
    with HistoryWriter(tmp_path, flush_samples=5, samples_per_part=10) as writer:
        for at in range(25):
            writer.add("a", _record(at, rows=float(at)))
        writer.add("a", _record(DAY_S, rows=7.0))
    parts = sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.parquet"))
    assert len(parts) == 4
    assert len({part.split("/")[1] for part in parts}) == 2
    assert len(read_history(tmp_path).tables[0]) == 26
    size = sum(path.stat().st_size for path in tmp_path.rglob("*.parquet"))
    with HistoryWriter(tmp_path, flush_samples=5, samples_per_part=10, most_bytes=size // 2) as writer:
        for at in range(100, 130):
            writer.add("a", _record(at, rows=float(at)))
    assert sum(path.stat().st_size for path in tmp_path.rglob("*.parquet")) <= size // 2 + size // 4
    assert read_history(tmp_path).tables[0].column("rows").max() == 129


def test_a_writer_goes_on_where_another_ended(tmp_path: Path) -> None:
    for start in (0, 3):
        with HistoryWriter(tmp_path) as writer:
            for at in range(start, start + 3):
                writer.add("a", _record(at, rows=float(at)))
    assert read_history(tmp_path).tables[0].column("rows").tolist() == [0, 1, 2, 3, 4, 5]


def test_the_newest_samples_alone(tmp_path: Path) -> None:
    with HistoryWriter(tmp_path, flush_samples=1, samples_per_part=10) as writer:
        for at in range(40):
            writer.add("a", _record(at, rows=float(at)))
    assert read_history(tmp_path, newest=15).tables[0].column("rows").tolist() == list(np.arange(20.0, 40.0))


def test_foreign_and_broken_parquet(tmp_path: Path) -> None:
    pd.DataFrame(
        {"timestamp": pd.date_range("2026-01-01", periods=3, freq="s"), "x": [1, 2, 3], "s": ["a"] * 3}
    ).to_parquet(tmp_path / "mine.parquet")
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 no")
    pd.DataFrame({"x": [1]}).to_parquet(tmp_path / "timeless.parquet")
    found = read_history(tmp_path)
    assert [table.names for table in found.tables] == [("x",)]
    assert np.diff(found.tables[0].times_s).tolist() == [1.0, 1.0]
    assert len(found.notes.sentences()) == 2


def test_bad_settings_and_paths(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="flush_samples"):
        HistoryWriter(tmp_path, flush_samples=0)
    with pytest.raises(InvalidInput, match="no such file"):
        read_history(tmp_path / "none")
