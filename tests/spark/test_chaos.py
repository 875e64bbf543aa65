"""A short chaos run: an executor, the driver and the broker are killed, and every row is counted."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidegate_lab.experiments import chaos, kafka_broker


def test_kills_lose_and_double_nothing(tmp_path: Path) -> None:
    missing = kafka_broker.available()
    if missing:
        pytest.skip(missing)
    pytest.importorskip("confluent_kafka")
    kinds = ("executor-killed", "driver-killed", "broker-restarted")
    found = chaos.run(chaos.Plan(minutes=0.75, seed=1, kinds=kinds), tmp_path / "chaos", lambda *_: None)
    assert {fault["kind"] for fault in found["faults"]} <= set(kinds)
    assert len(found["faults"]) >= 2
    assert all(fault["recovered_s"] is not None for fault in found["faults"]), found["restarts"]
    assert found["rows_in"] > 5000
    assert (found["rows_lost"], found["rows_doubled"], found["overlaps"]) == (0, 0, 0), found
