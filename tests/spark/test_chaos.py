"""A short chaos run: an executor, the driver and the broker are killed, and every row is counted."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidegate_lab.experiments import chaos, chaos_play, kafka_broker


def test_kills_lose_and_double_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    missing = kafka_broker.available()
    if missing:
        pytest.skip(missing)
    pytest.importorskip("confluent_kafka")
    # How soon everything is as usual is the machine's affair; that it is in the end, and what was lost, is ours.
    for name, seconds in {"_WARM_BOUND_S": 20.0, "_FIRST_S": 600.0, "_GIVEN_UP_S": 600.0, "_DRAIN_S": 600.0}.items():
        monkeypatch.setattr(chaos_play, name, seconds)
    monkeypatch.setattr(chaos_play, "usual_s", lambda samples, before_s: 20.0)
    kinds = ("executor-killed", "driver-killed", "broker-restarted")
    found = chaos.run(chaos.Plan(minutes=0.75, seed=1, kinds=kinds), tmp_path / "chaos", lambda *_: None)
    assert {fault["kind"] for fault in found["faults"]} <= set(kinds)
    assert found["faults"]
    assert all(fault["recovered_s"] is not None for fault in found["faults"]), found["restarts"]
    assert found["rows_in"] > 5000
    assert (found["rows_lost"], found["rows_doubled"], found["overlaps"]) == (0, 0, 0), found
