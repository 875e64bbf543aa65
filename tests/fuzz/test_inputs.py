"""Whatever comes in from outside is read, or refused in a line: no crash, no hang, whoever wrote it."""

from __future__ import annotations

import json
import socket
import sqlite3
import struct
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.history.logs import event_log, progress
from tests.journal.worlds import steps
from tidegate.adapters.sim.scenariofile import parse_scenario
from tidegate.control.journal import SqliteJournal, read_entries, read_notes
from tidegate.control.yamlmodel import parse_model
from tidegate.domain import InvalidInput
from tidegate.domain.policy import Policy
from tidegate.fleet.agent import Agent
from tidegate.fleet.calls import Client, Server
from tidegate.fleet.protocol import Channel, ProtocolError, greet
from tidegate.fleet.vocabulary import AgentStatus
from tidegate.history.eventlog import EventLog
from tidegate.history.notes import Notes
from tidegate.history.progress import parse_progress
from tidegate.load.trace import TraceFile, read_trace

TOKEN = b"t" * 32
FEW = settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
WORDS = ["mode", "objective", "latency_s", "executors", "min", "max", "applications", "classes", "*", "apply", "1e999"]
SIGNS = [":", " ", "\n", "- ", "{", "}", "[", "]", "&a", "*a", "!!python/object:os.system", "|", "'"]
YAML = st.text(max_size=80) | st.lists(st.sampled_from([*WORDS, *SIGNS]), max_size=30).map("".join)


def told(call: Callable[[], Any], kinds: type[Exception] = InvalidInput) -> str:
    """What a user would read; empty where nothing was wrong. Anything but these kinds of error fails the test."""
    try:
        call()
    except kinds as error:
        return str(error)
    return ""


@FEW
@given(YAML)
@example("a: &a [*a]")
@example("mode: !!python/object/apply:os.system ['true']")
@example("[" * 400)
@example("x: " + "9" * 5000)
def test_policies_and_scenarios(text: str) -> None:
    for parse in (lambda given: parse_model(given, Policy, "policy"), parse_scenario):
        assert "Traceback" not in told(lambda parse=parse: parse(text))  # type: ignore[misc]


def damaged(text: str, changes: list[tuple[int, str]]) -> str:
    for place, new in changes:
        at = place % (len(text) + 1)
        text = text[:at] + new + text[at + len(new) :]
    return text


CHANGES = st.lists(st.tuples(st.integers(0, 10**6), st.text(min_size=1, max_size=3)), max_size=6)


@FEW
@given(st.integers(0, 3), CHANGES)
def test_progress_reports(batch: int, changes: list[tuple[int, str]]) -> None:
    told(lambda: parse_progress(damaged(json.dumps(progress(batch)), changes)), ValueError)


VERSIONS: dict[str, dict[str, Any]] = {
    "3.5": {"inputRowsPerSecond": 1.5, "processedRowsPerSecond": 2.5},
    "4.0": {"observedMetrics": {}, "stateOperators": [{"operatorName": "stateStoreSave", "numRowsTotal": 4}]},
    "4.1": {"sources": [{"description": "KafkaV2[Subscribe[t]]", "endOffset": '{"t":{"0":7}}', "numInputRows": 7}]},
    "4.2": {"durationMs": {"triggerExecution": 20, "addBatch": 10, "commitOffsets": 2}},
    "4.3": {
        "sink": {"description": "x", "metrics": {"a": "1"}},
        "eventTime": {"watermark": "2025-01-01T00:00:00Z"},
    },
}


@FEW
@given(st.sampled_from(sorted(VERSIONS)), st.sampled_from(sorted(progress(1))), JSON)
def test_progress_reports_of_five_versions_with_any_field_replaced(version: str, field: str, value: Any) -> None:
    report = {**progress(1), **VERSIONS[version]}
    assert parse_progress(json.dumps(report)).batch_id == 1
    told(lambda: parse_progress(json.dumps({**report, field: value})), ValueError)


@FEW
@given(st.integers(0, 10**6), CHANGES, st.binary(max_size=20))
def test_event_logs(line: int, changes: list[tuple[int, str]], noise: bytes) -> None:
    lines = event_log()
    log = EventLog(Notes())
    for number, text in enumerate(lines):
        log.take(damaged(text, changes) if number == line % len(lines) else text)
    log.take(noise.decode("utf-8", errors="replace"))
    log.take("[" * 100_000)
    log.tables()


CELLS = st.text(max_size=6) | st.sampled_from(["1", "-1", "nan", "1e999", '"'])


@FEW
@given(st.lists(st.lists(CELLS, max_size=3), max_size=6))
def test_traces(tmp_path_factory: pytest.TempPathFactory, rows: list[list[str]]) -> None:
    path = tmp_path_factory.mktemp("trace") / "t.csv"
    path.write_bytes("\n".join(["time,load", *(",".join(row) for row in rows)]).encode("utf-8", "surrogatepass"))
    assert "\n" not in told(lambda: read_trace.__wrapped__(TraceFile(str(path), "load", None, 0, None), 60.0, "error"))


@FEW
@given(st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), min_size=1, max_size=40), st.floats(0, 1))
def test_journal_bytes(whole_journal: bytes, changes: list[tuple[int, int]], kept: float) -> None:
    body = bytearray(whole_journal[: max(1, round(kept * len(whole_journal)))] if kept < 0.5 else whole_journal)
    for place, value in changes:
        body[place % len(body)] = value
    path = FOLDER[0] / "damaged.db"
    for old in FOLDER[0].glob("damaged.db*"):
        old.unlink()
    path.write_bytes(bytes(body))
    assert "\n" not in told(lambda: list(read_entries(path)))
    assert "\n" not in told(lambda: list(read_notes(path)))


FOLDER: list[Path] = []


@pytest.fixture(scope="module")
def whole_journal(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    FOLDER[:] = [tmp_path_factory.mktemp("journal")]
    journal = SqliteJournal(FOLDER[0] / "whole.db")
    for observation, decision, receipt in steps(30):
        journal.record(observation, decision, receipt)
    journal.note(1.0, "started", "now")
    journal.close()
    return journal.path.read_bytes()


@pytest.fixture(scope="module")
def peers() -> Any:
    """A server that hands every question to an agent's own reading of it."""
    agent = object.__new__(Agent)
    agent.managers = None
    agent._ended = threading.Event()
    agent._lock = threading.Lock()
    agent._generation, agent._wanted, agent._tenants = -1, {}, {}
    server = Server(agent._answer, TOKEN)
    yield server
    server.close()


@FEW
@given(st.sampled_from(["desire", "end", "x"]) | st.text(max_size=5), JSON)
def test_frames_with_valid_signatures(peers: Server, kind: str, fields: Any) -> None:
    channel: Channel = greet(socket.create_connection(peers.address), TOKEN)
    body = {"id": "1", "kind": kind, "fields": fields if isinstance(fields, dict) else {"generation": fields}}
    text = json.dumps(body)
    try:
        _send_signed(channel, text)
        answer = channel.receive()
        assert "error" in answer or "fields" in answer
    except (ProtocolError, OSError):
        pass  # hung up on
    finally:
        channel.close()
    asked = Client(peers.address, TOKEN)
    with pytest.raises(ProtocolError, match="unknown question"):
        asked.ask("still-there?")
    asked.close()


@FEW
@given(st.text(max_size=60) | JSON.map(json.dumps))
@example("[" * 50_000)
@example('{"id": "\\ud800", "kind": "x", "fields": {}}')
def test_bodies_with_valid_signatures(peers: Server, text: str) -> None:
    channel: Channel = greet(socket.create_connection(peers.address), TOKEN)
    try:
        _send_signed(channel, text)
        channel.receive()
    except (ProtocolError, OSError):
        pass
    finally:
        channel.close()


def _send_signed(channel: Channel, text: str) -> None:
    data = json.dumps({"body": text, "mac": channel._mac("client", 0, text)}).encode()
    channel._wire.sendall(struct.pack(">I", len(data)) + data)


@FEW
@given(st.text(max_size=40) | JSON.map(json.dumps))
def test_what_an_agent_says_of_itself(text: str) -> None:
    from tidegate.domain.codec import from_json

    with pytest.raises(ValueError):  # noqa: PT011  one line of it is shown, whatever it is
        from_json(AgentStatus, text.encode("utf-8", "replace"))


def test_a_damaged_body_says_that_the_journal_is_damaged(whole_journal: bytes) -> None:
    path = FOLDER[0] / "body.db"
    path.write_bytes(whole_journal)
    with sqlite3.connect(path) as database:
        database.execute("UPDATE tail SET body = x'00112233'")
    assert "damaged (" in told(lambda: list(read_entries(path)))
