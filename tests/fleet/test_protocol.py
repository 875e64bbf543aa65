"""The protocol: nobody without the token, nothing too large, nothing changed on the way, everything once."""

from __future__ import annotations

import contextlib
import json
import socket
import struct
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.domain import InvalidInput
from tidegate.domain.codec import to_json
from tidegate.fleet import calls
from tidegate.fleet.calls import Client, Server, TcpWire, Unreachable
from tidegate.fleet.folder import FleetFolder
from tidegate.fleet.look import Lookout
from tidegate.fleet.protocol import MOST_BYTES, ProtocolError, Refused, greet, make_token, read_token, welcome
from tidegate.fleet.vocabulary import AgentStatus, HostCard, HostSpec

TOKEN, OTHER = b"t" * 32, b"o" * 32


@pytest.fixture
def heard() -> list[tuple[str, dict[str, Any]]]:
    return []


@pytest.fixture
def server(heard: list[tuple[str, dict[str, Any]]]) -> Iterator[Server]:
    def answer(kind: str, fields: dict[str, Any]) -> dict[str, Any]:
        heard.append((kind, fields))
        if kind == "fail":
            raise InvalidInput("not like this")
        return {"number": len(heard), **fields}

    served = Server(answer, TOKEN)
    yield served
    served.close()


def test_questions_are_answered(server: Server) -> None:
    client = Client(server.address, TOKEN)
    assert client.ask("status", {"a": [1, "ü"]}) == {"number": 1, "a": [1, "ü"]}
    assert client.ask("status") == {"number": 2}
    with pytest.raises(ProtocolError, match="not like this"):
        client.ask("fail")
    assert client.ask("status")["number"] == 4, "a refused question leaves the connection as it was"


def test_a_caller_without_the_token_is_refused(server: Server, heard: list[Any]) -> None:
    with pytest.raises(Refused, match="does not know the fleet's token"):
        Client(server.address, OTHER).ask("status")
    assert heard == []


def test_an_agent_without_the_token_is_refused_before_it_hears_anything() -> None:
    impostor = Server(lambda kind, fields: {}, OTHER)
    with pytest.raises(Refused, match="agent does not know"):
        Client(impostor.address, TOKEN).ask("status")
    impostor.close()


def test_a_caller_who_skips_the_proof_is_not_heard(server: Server, heard: list[Any]) -> None:
    with socket.create_connection(server.address) as wire:
        for frame in ({"version": 1, "nonce": "0" * 32}, {"proof": "0" * 64}, {"body": "{}", "mac": ""}):
            data = json.dumps(frame).encode()
            wire.sendall(struct.pack(">I", len(data)) + data)
        wire.settimeout(5)
        with contextlib.suppress(ConnectionResetError):  # it hangs up with our last words unread
            while wire.recv(4096):
                pass
    assert heard == []


def test_another_version_is_refused(monkeypatch: pytest.MonkeyPatch, server: Server) -> None:
    ours, theirs = socket.socketpair()
    data = json.dumps({"version": 2, "nonce": "0" * 32}).encode()
    theirs.sendall(struct.pack(">I", len(data)) + data)
    with pytest.raises(Refused, match="speaks version 2"):
        welcome(ours, TOKEN)


def test_a_stranger_may_not_announce_a_large_message() -> None:
    ours, theirs = socket.socketpair()
    theirs.sendall(struct.pack(">I", MOST_BYTES))
    with pytest.raises(ProtocolError, match="the limit of 4096"):
        welcome(ours, TOKEN)


def test_a_large_message_is_not_sent(server: Server) -> None:
    with pytest.raises(Unreachable, match="the limit of"):
        Client(server.address, TOKEN).ask("status", {"text": "x" * MOST_BYTES})


@settings(max_examples=15)
@given(st.binary(max_size=200))
def test_noise_never_gets_through_a_greeting(noise: bytes) -> None:
    ours, theirs = socket.socketpair()
    theirs.sendall(noise)
    theirs.close()
    with pytest.raises((ProtocolError, OSError)):
        welcome(ours, TOKEN)
    ours.close()


@pytest.mark.parametrize("tamper", ["body", "repeat", "reflect"])
def test_a_frame_that_was_tampered_with_is_noticed(tamper: str) -> None:
    client_wire, server_wire = socket.socketpair()
    made: list[Any] = []
    thread = threading.Thread(target=lambda: made.append(welcome(server_wire, TOKEN)))
    thread.start()
    client = greet(client_wire, TOKEN)
    thread.join()
    client.send({"n": 1})
    (size,) = struct.unpack(">I", server_wire.recv(4))
    frame = server_wire.recv(size)
    if tamper == "body":
        changed = frame.replace(b"1}", b"2}")
        client_wire.sendall(struct.pack(">I", len(changed)) + changed)
        receiver = made[0]
    elif tamper == "repeat":
        for _ in range(2):
            client_wire.sendall(struct.pack(">I", size) + frame)
        receiver = made[0]
        assert receiver.receive() == {"n": 1}
    else:
        server_wire.sendall(struct.pack(">I", size) + frame)
        receiver = client
    with pytest.raises(ProtocolError, match="signature"):
        receiver.receive()


def test_a_question_that_comes_twice_is_acted_on_once(server: Server, heard: list[Any]) -> None:
    channel = greet(socket.create_connection(server.address), TOKEN)
    answers = []
    for _ in range(2):
        channel.send({"id": "q1", "kind": "status", "fields": {}})
        answers.append(channel.receive())
    assert answers[0] == answers[1]
    assert len(heard) == 1


def test_a_broken_connection_is_made_anew_with_the_same_question(server: Server, heard: list[Any]) -> None:
    client = Client(server.address, TOKEN)
    client.ask("status")
    for wire in list(server._connections):
        wire.shutdown(socket.SHUT_RDWR)
    assert client.ask("status") == {"number": 2}


def test_nobody_there() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = free.getsockname()
    with pytest.raises(Unreachable, match=r"no answer from 127\.0\.0\.1"):
        Client(address, TOKEN).ask("status")


def test_connections_are_bounded(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "_MOST_CONNECTIONS", 1)
    first, second = Client(server.address, TOKEN), Client(server.address, TOKEN)
    first.ask("status")
    second.ask("status")
    deadline_s = time.monotonic() + 10
    while len(server._connections) > 1:
        assert time.monotonic() < deadline_s, "whoever has asked nothing for longest is hung up on"
    assert first.ask("status")["number"] == 3, "and connects anew when it has something to ask"


def test_strangers_who_say_nothing_keep_nobody_out(server: Server) -> None:
    silent = [socket.create_connection(server.address) for _ in range(80)]
    assert Client(server.address, TOKEN).ask("status") == {"number": 1}
    for wire in silent:
        wire.close()


def test_a_greeting_has_a_deadline_that_a_byte_now_and_then_does_not_extend() -> None:
    ours, theirs = socket.socketpair()
    ended = threading.Event()

    def drip() -> None:
        while not ended.wait(0.02):
            with contextlib.suppress(OSError):
                theirs.send(b"\x00")

    threading.Thread(target=drip, daemon=True).start()
    try:
        with pytest.raises((TimeoutError, ProtocolError)):
            welcome(ours, TOKEN, limit_s=0.3)
    finally:
        ended.set()


@pytest.mark.parametrize(
    "frame",
    [
        {"version": 1, "nonce": "0" * 32, "proof": "é" * 64},
        {"version": 1, "nonce": "\ud800" * 40, "proof": "\ud800"},
        {"version": 1, "nonce": "0" * 32, "proof": {"a": 1}},
    ],
    ids=["not-ascii", "surrogates", "no-text"],
)
def test_whatever_an_impostor_proves_itself_with_it_is_refused_and_nothing_else_happens(frame: dict[str, Any]) -> None:
    data = json.dumps(frame).encode()
    ours, theirs = socket.socketpair()
    theirs.sendall(struct.pack(">I", len(data)) + data)
    with pytest.raises(Refused, match="does not know"):
        greet(ours, TOKEN)
    ours, theirs = socket.socketpair()
    theirs.sendall(2 * (struct.pack(">I", len(data)) + data))
    with pytest.raises(Refused, match="does not know"):
        welcome(ours, TOKEN)


def test_deep_nesting_is_no_message() -> None:
    ours, theirs = socket.socketpair()
    theirs.sendall(struct.pack(">I", 4000) + b"[" * 4000)
    with pytest.raises(ProtocolError, match="nested too deeply"):
        welcome(ours, TOKEN)


def test_one_impostor_among_the_hosts_does_not_end_the_look_at_the_others(tmp_path: Path) -> None:
    """It listens where a host did, and proves itself with a text that cannot be compared."""
    folder = FleetFolder(tmp_path)
    status = AgentStatus(HostCard(HostSpec("good", "east", 1), "1", ("", 0), 1, 0.0), 0, ())
    honest = Server(lambda kind, fields: {"status": to_json(status)}, TOKEN)
    rogue = socket.create_server(("127.0.0.1", 0))

    def deceive() -> None:
        wire, _ = rogue.accept()
        data = json.dumps({"version": 1, "nonce": "0" * 32, "proof": "é"}).encode()
        wire.sendall(struct.pack(">I", len(data)) + data)

    threading.Thread(target=deceive, daemon=True).start()
    folder.write_card(replace(status.card, address=honest.address))
    evil = replace(status.card, spec=HostSpec("evil", "east", 1), address=rogue.getsockname())
    folder.write_card(evil)
    seen = Lookout(folder, TcpWire(TOKEN)).look()
    assert seen["good"].status == status
    assert seen["evil"].refused
    honest.close()
    rogue.close()


def test_the_token_is_made_once_and_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "fleet" / "token"
    token = make_token(path)
    assert make_token(path) == token
    assert path.stat().st_mode & 0o777 == 0o600
    path.chmod(0o644)
    with pytest.raises(InvalidInput, match="others can read"):
        read_token(path)
    path.chmod(0o600)
    path.write_text("zz")
    with pytest.raises(InvalidInput, match="not a fleet's token"):
        read_token(path)
    with pytest.raises(InvalidInput, match="cannot be read"):
        read_token(tmp_path / "none")
