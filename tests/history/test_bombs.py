"""Logs that are made to hurt: refused while they are still small."""

from __future__ import annotations

import gzip
import json
import struct
import tracemalloc
import zlib
from pathlib import Path

import pytest

from tidegate.history.compressed import MOST_LINE, lz4_blocks, read_lines, snappy_blocks
from tidegate.history.eventlog import EventLog
from tidegate.history.notes import Notes

START = json.dumps({"Event": "SparkListenerLogStart", "Spark Version": "4.3.0"}).encode() + b"\n"


@pytest.mark.parametrize("line", [b" " * (1 << 20), b" " * ((1 << 20) - 1) + b"\n"], ids=["one-line", "many-lines"])
def test_a_gzip_bomb_is_refused_before_it_is_inflated(tmp_path: Path, line: bytes) -> None:
    path = tmp_path / "log.gz"
    packer = zlib.compressobj(9, wbits=31)
    start = packer.compress(START) + packer.flush(zlib.Z_FULL_FLUSH)
    packed = packer.compress(line) + packer.flush(zlib.Z_FULL_FLUSH)  # after a full flush it can be repeated
    path.write_bytes(start + 200 * packed)
    assert path.stat().st_size < 300_000
    notes = Notes()
    tracemalloc.start()
    read = sum(len(text) for text in read_lines(path, notes))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert read < 80 << 20
    assert peak < 64 << 20, "and nothing like it was ever in memory"
    assert any("which no event log does" in note for note in notes.sentences())


def test_a_log_that_compresses_well_is_read(tmp_path: Path) -> None:
    path = tmp_path / "log.gz"
    event = json.dumps({"Event": "SparkListenerTaskEnd", "Stage ID": 1, "Task Info": {}, "Task Metrics": {}}) + "\n"
    with gzip.open(path, "wb") as file:
        for _ in range(20_000):
            file.write(event.encode())
    notes = Notes()
    log = EventLog(notes)
    log.read(path)
    assert notes.lines == 20_000
    assert not notes.sentences()


def test_a_line_without_end_is_left_out_and_the_next_is_read(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"x" * (2 * MOST_LINE + 5) + b"\n" + START)
    notes = Notes()
    log = EventLog(notes)
    log.read(path)
    assert (notes.lines, notes.unreadable_lines, notes.spark_version) == (2, 1, "4.3.0")


def test_a_block_that_claims_to_be_huge_is_not_made_room_for(tmp_path: Path) -> None:
    path = tmp_path / "block"
    path.write_bytes(struct.pack("<8sBiii", b"LZ4Block", 0x20, 10, 1 << 28, 0) + b"0123456789")
    with path.open("rb") as raw, pytest.raises(OSError, match="not a block of lz4-java"):
        list(lz4_blocks(raw))
    path.write_bytes(struct.pack(">I", 6) + b"\xff\xff\xff\xff\x0f\x00")
    with path.open("rb") as raw, pytest.raises(OSError, match="not a block of snappy-java"):
        list(snappy_blocks(raw))
