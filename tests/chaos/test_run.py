"""The chaos run with its world replaced: what is put together, judged and written."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tidegate.domain import EnvironmentUnfit, InvalidInput
from tidegate_lab.experiments import chaos
from tidegate_lab.experiments.chaos_driver import COUNT, UNIQUE, Orders
from tidegate_lab.experiments.chaos_feed import ROWS_PER_S, messages
from tidegate_lab.experiments.chaos_sink import Sink


class Broker:
    address = "nowhere:1"

    def __init__(self, *_: object) -> None:
        pass

    def __enter__(self) -> Broker:
        return self

    def __exit__(self, *_: object) -> None:
        pass


class Feed:
    """Rows as the real one makes them, taken by a broker that is not there."""

    def __init__(self, *_: object) -> None:
        self._began_s = time.monotonic()
        self._counts: Counter[str] = Counter()
        self._over = False
        self.rows = self.ids = 0
        FEEDS.append(self)

    def start(self) -> None:
        """Rows are made when somebody looks."""

    def make(self) -> None:
        while not self._over and self.ids < ROWS_PER_S * (time.monotonic() - self._began_s):
            for key, _ in messages(self.ids):
                self._counts[key] += 1
                self.rows += 1
            self.ids += 1

    def finish(self) -> None:
        self._over = True

    def expected(self) -> dict[str, int]:
        return dict(self._counts)


FEEDS: list[Feed] = []


class Driver:
    """Writes what the feed has made, a batch every twentieth of a second, without Spark."""

    lossy = False

    def __init__(self, orders: Orders) -> None:
        self._orders = orders
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.steps = 0
        self.began_s = {1: time.time()}
        self.failures: list[str] = []

    def __enter__(self) -> Driver:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def ensure(self) -> None:
        pass

    def stop(self) -> None:
        Path(self._orders.journal).write_text("the journal")
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        sinks, done, batch = {name: Sink(self._orders.sink(name)) for name in (COUNT, UNIQUE)}, 0, 0
        while not self._over.wait(0.05):
            feed = FEEDS[-1]
            feed.make()
            self.steps += 1
            ids = [row for row in range(done, feed.ids) if not (self.lossy and row == 7)]
            counts = [(key, rows) for key, rows in feed.expected().items() if not (self.lossy and key == "busy-3")]
            sinks[COUNT].put_counts(batch, 1, counts, lambda: None)
            sinks[UNIQUE].put_ids(batch, 1, ids, lambda: None)
            done, batch = feed.ids, batch + 1


@pytest.fixture(autouse=True)
def _world(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    replaced: dict[str, Any] = {"Broker": Broker, "Feed": Feed, "DriverProcess": Driver}
    replaced |= {"available": lambda: None, "require_java": lambda: None, "connector_jars": list}
    replaced |= {"create_topic": lambda *_: None, "FAULTS": {"nothing": lambda scene: None}}
    for name, value in replaced.items():
        monkeypatch.setattr(chaos, name, value)
    for name in ("Network", "SmallDisk"):
        monkeypatch.setattr(getattr(chaos, name), "__enter__", _refused)
    monkeypatch.setattr("tidegate_lab.experiments.chaos_watch.CALM_S", 0.5)
    monkeypatch.setattr("tidegate_lab.experiments.chaos_play._DRAIN_S", 1.0)
    yield
    FEEDS.clear()


def _refused(_: object) -> None:
    raise EnvironmentUnfit("not permitted here")


def test_the_document_says_what_was_struck_counted_and_left_out(tmp_path: Path) -> None:
    found = chaos.run(chaos.Plan(minutes=0.01, seed=1, kinds=("nothing", "network-cut")), tmp_path, lambda *_: None)
    assert {fault["kind"] for fault in found["faults"]} == {"nothing"}
    assert found["faults"][0]["recovered_s"] == 0.0
    assert found["rows_in"] == found["jobs"][COUNT]["rows_in"] + found["jobs"][UNIQUE]["rows_in"] > 0
    assert (found["rows_lost"], found["rows_doubled"], found["overlaps"]) == (0, 0, 0)
    assert found["left_out"]["network-cut"] == "not permitted here"
    assert "6 minutes" in found["left_out"]["host-killed"]
    assert json.loads((tmp_path / "chaos.json").read_text()) == found
    with pytest.raises(InvalidInput, match="contains an earlier run"):
        chaos.run(chaos.Plan(minutes=0.01, seed=1), tmp_path, lambda *_: None)


@pytest.mark.slow
def test_a_job_that_loses_rows_is_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Driver, "lossy", True)
    found = chaos.run(chaos.Plan(minutes=0.01, seed=1, kinds=("nothing",)), tmp_path, lambda *_: None)
    assert found["jobs"][UNIQUE]["rows_lost"] == 1
    assert found["jobs"][COUNT]["rows_lost"] > 0
