"""The protocol: nobody without the token, nothing too large, nothing changed on the way, everything once."""

from __future__ import annotations

import contextlib
import json
import socket
import struct
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.domain import InvalidInput
from tidegate.fleet import calls
from tidegate.fleet.calls import Client, Server, Unreachable
from tidegate.fleet.protocol import MOST_BYTES, ProtocolError, Refused, greet, make_token, read_token, welcome

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
    with pytest.raises(ProtocolError, match="the most is 4096"):
        welcome(ours, TOKEN)


def test_a_large_message_is_not_sent(server: Server) -> None:
    with pytest.raises(Unreachable, match="the most is"):
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
    first = Client(server.address, TOKEN)
    first.ask("status")
    with pytest.raises(Unreachable):
        Client(server.address, TOKEN).ask("status")
    first.ask("status")


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
