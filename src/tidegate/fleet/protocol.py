"""How centre and agents talk: length-prefixed JSON over TCP, versioned, bounded, and signed with a shared token.

Both sides prove that they know the token by answering the other's fresh nonce with an HMAC; the token itself never
travels. The two nonces make a key for the connection, under which every frame is signed together with its direction
and number, so that no frame can be changed, repeated, left out or sent back. Frames are not encrypted: agents listen on
the loopback interface unless told otherwise, and a tunnel is the way across networks that others read.

    client → {"version": 1, "nonce": c}
    server → {"version": 1, "nonce": s, "proof": H(token, "server" c s)}
    client → {"proof": H(token, "client" c s)}
    both   → {"body": text, "mac": H(H(token, "session" c s), direction number text)}
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import os
import secrets
import socket
import struct
from pathlib import Path
from typing import Any

from tidegate.domain import InvalidInput, TidegateError

VERSION = 1
MOST_BYTES = 1 << 20
_GREETING_BYTES = 4096  # what somebody unknown may send
_TOKEN_BYTES = 32
_HEADER = struct.Struct(">I")

Body = dict[str, Any]


class ProtocolError(TidegateError):
    """The other side does not speak as agreed; the connection is of no further use."""


class Refused(ProtocolError):
    """The other side does not know the token, or speaks another version."""


class Channel:
    """An authenticated connection; `send` and `receive` whole bodies."""

    def __init__(self, wire: socket.socket, key: bytes, outgoing: str, incoming: str) -> None:
        self._wire = wire
        self._key = key
        self._outgoing, self._incoming = outgoing, incoming
        self._sent = self._received = 0

    def send(self, body: Body) -> None:
        text = json.dumps(body, allow_nan=False)
        mac = self._mac(self._outgoing, self._sent, text)
        self._sent += 1
        _send_frame(self._wire, {"body": text, "mac": mac})

    def receive(self) -> Body:
        frame = _receive_frame(self._wire, MOST_BYTES)
        text, mac = frame.get("body"), frame.get("mac")
        if not isinstance(text, str) or not isinstance(mac, str):
            raise ProtocolError("a frame without body or signature")
        if not hmac.compare_digest(mac, self._mac(self._incoming, self._received, text)):
            raise ProtocolError("a frame with a wrong signature")
        self._received += 1
        return _object(text)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._wire.close()

    def _mac(self, direction: str, number: int, text: str) -> str:
        return _sign(self._key, direction, str(number), text)


def greet(wire: socket.socket, token: bytes) -> Channel:
    """The client's half of the greeting."""
    mine = secrets.token_hex(16)
    _send_frame(wire, {"version": VERSION, "nonce": mine})
    answer = _receive_frame(wire, _GREETING_BYTES)
    _check_version(answer)
    theirs = _nonce(answer)
    if not hmac.compare_digest(str(answer.get("proof")), _sign(token, "server", mine, theirs)):
        raise Refused("the agent does not know the fleet's token")
    _send_frame(wire, {"proof": _sign(token, "client", mine, theirs)})
    return Channel(wire, _session_key(token, mine, theirs), "client", "server")


def welcome(wire: socket.socket, token: bytes) -> Channel:
    """The server's half of the greeting."""
    hello = _receive_frame(wire, _GREETING_BYTES)
    _check_version(hello)
    theirs, mine = _nonce(hello), secrets.token_hex(16)
    _send_frame(wire, {"version": VERSION, "nonce": mine, "proof": _sign(token, "server", theirs, mine)})
    answer = _receive_frame(wire, _GREETING_BYTES)
    if not hmac.compare_digest(str(answer.get("proof")), _sign(token, "client", theirs, mine)):
        raise Refused("the caller does not know the fleet's token")
    return Channel(wire, _session_key(token, theirs, mine), "server", "client")


def make_token(path: Path) -> bytes:
    """The fleet's token: read where it is there, otherwise made; for its owner's eyes only."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return read_token(path)
    with os.fdopen(handle, "w") as file:
        file.write(secrets.token_hex(_TOKEN_BYTES))
    return read_token(path)


def read_token(path: Path) -> bytes:
    """Read the token; refuse one that others could have read."""
    try:
        if path.stat().st_mode & 0o077:
            raise InvalidInput(f"{path}: others can read the fleet's token; chmod 600 it, or make a new one")
        token = bytes.fromhex(path.read_text().strip())
    except OSError as error:
        raise InvalidInput(f"{path}: the fleet's token cannot be read ({error.strerror})") from None
    except ValueError:
        raise InvalidInput(f"{path}: not a fleet's token") from None
    if len(token) < _TOKEN_BYTES:
        raise InvalidInput(f"{path}: the token is too short; remove it, and `tidegate fleet up` makes a new one")
    return token


def _sign(key: bytes, *parts: str) -> str:
    # Every part with its length, so that no two lists of parts are signed alike.
    text = "".join(f"{len(part)}:{part}" for part in parts)
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()


def _session_key(token: bytes, client: str, server: str) -> bytes:
    return bytes.fromhex(_sign(token, "session", client, server))


def _check_version(frame: Body) -> None:
    if frame.get("version") != VERSION:
        raise Refused(f"the other side speaks version {frame.get('version')!r} of the protocol, this one {VERSION}")


def _nonce(frame: Body) -> str:
    nonce = frame.get("nonce")
    if not isinstance(nonce, str) or len(nonce) < 32:
        raise ProtocolError("a greeting without a nonce")
    return nonce


def _send_frame(wire: socket.socket, frame: Body) -> None:
    data = json.dumps(frame).encode()
    if len(data) > MOST_BYTES:
        raise ProtocolError(f"a message of {len(data)} bytes; the most is {MOST_BYTES}")
    wire.sendall(_HEADER.pack(len(data)) + data)


def _receive_frame(wire: socket.socket, most_bytes: int) -> Body:
    (size,) = _HEADER.unpack(_exactly(wire, _HEADER.size))
    if size > most_bytes:
        raise ProtocolError(f"a message of {size} bytes is announced; the most is {most_bytes}")
    try:
        return _object(_exactly(wire, size).decode())
    except UnicodeDecodeError:
        raise ProtocolError("a message that is not text") from None


def _object(text: str) -> Body:
    try:
        value = json.loads(text)
    except ValueError:
        raise ProtocolError("a message that is not JSON") from None
    if not isinstance(value, dict):
        raise ProtocolError("a message that is not an object")
    return value


def _exactly(wire: socket.socket, size: int) -> bytes:
    parts = bytearray()
    while len(parts) < size:
        part = wire.recv(size - len(parts))
        if not part:
            raise ProtocolError("the connection ended in the middle of a message")
        parts += part
    return bytes(parts)
