"""The protocol of centre and agents: length-prefixed JSON over TCP, versioned, bounded, signed with a shared token.

Both sides prove that they know the token by answering the other's fresh nonce with an HMAC. The token itself is never
sent. The two nonces yield a key for the connection. Every frame is signed with this key together with its direction and
number, so no frame can be changed, repeated, dropped or reflected. Frames are encrypted only if the fleet has
certificates (`tls`). By default, agents listen on the loopback interface only.

The other side is untrusted until it has authenticated, and may misbehave after that. Sizes are therefore bounded, and
every frame has a deadline as a whole, which single bytes do not extend. Whatever is wrong with a frame raises a
`ProtocolError` or an `OSError`, which ends this connection and nothing else.

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
import time
from pathlib import Path
from typing import Any

from tidegate.domain import InvalidInput, TidegateError

VERSION = 1
MOST_BYTES = 1 << 20
_GREETING_BYTES = 4096  # limit for unauthenticated peers
_TOKEN_BYTES = 32
GREETING_S = 5.0
"""Time limit for the whole greeting."""
FRAME_S = 10.0
"""Time limit for one frame, from its first byte to its last."""
_HEADER = struct.Struct(">I")

Body = dict[str, Any]


class ProtocolError(TidegateError):
    """The other side violates the protocol; the connection cannot be used any more."""


class Refused(ProtocolError):
    """The other side does not know the token, or speaks another version."""


class Channel:
    """An authenticated connection; `send` and `receive` whole bodies."""

    def __init__(self, wire: socket.socket, key: bytes, outgoing: str, incoming: str, frame_s: float = FRAME_S) -> None:
        self._wire = wire
        self._frame_s = frame_s
        self._key = key
        self._outgoing, self._incoming = outgoing, incoming
        self._sent = self._received = 0

    def send(self, body: Body) -> None:
        text = json.dumps(body, allow_nan=False)
        mac = self._mac(self._outgoing, self._sent, text)
        self._sent += 1
        _send_frame(self._wire, {"body": text, "mac": mac}, time.monotonic() + self._frame_s)

    def receive(self, idle_s: float = 0.0) -> Body:
        """The next body. The other side may be silent for `idle_s` before it starts."""
        frame = _receive_frame(self._wire, MOST_BYTES, time.monotonic() + idle_s + self._frame_s, self._frame_s)
        text, mac = frame.get("body"), frame.get("mac")
        if not isinstance(text, str) or not isinstance(mac, str):
            raise ProtocolError("a frame has no body or no signature")
        if not _same(mac, self._mac(self._incoming, self._received, text)):
            raise ProtocolError("a frame has a wrong signature")
        self._received += 1
        return _object(text)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._wire.close()

    def _mac(self, direction: str, number: int, text: str) -> str:
        return _sign(self._key, direction, str(number), text)


def greet(wire: socket.socket, token: bytes, limit_s: float = GREETING_S, frame_s: float = FRAME_S) -> Channel:
    """The client's half of the greeting."""
    mine, deadline_s = secrets.token_hex(16), time.monotonic() + limit_s
    _send_frame(wire, {"version": VERSION, "nonce": mine}, deadline_s)
    answer = _receive_frame(wire, _GREETING_BYTES, deadline_s)
    _check_version(answer)
    theirs = _nonce(answer)
    if not _same(answer.get("proof"), _sign(token, "server", mine, theirs)):
        raise Refused("the agent does not know the fleet's token")
    _send_frame(wire, {"proof": _sign(token, "client", mine, theirs)}, deadline_s)
    return Channel(wire, _session_key(token, mine, theirs), "client", "server", frame_s)


def welcome(wire: socket.socket, token: bytes, limit_s: float = GREETING_S) -> Channel:
    """The server's half of the greeting."""
    deadline_s = time.monotonic() + limit_s
    hello = _receive_frame(wire, _GREETING_BYTES, deadline_s)
    _check_version(hello)
    theirs, mine = _nonce(hello), secrets.token_hex(16)
    _send_frame(wire, {"version": VERSION, "nonce": mine, "proof": _sign(token, "server", theirs, mine)}, deadline_s)
    answer = _receive_frame(wire, _GREETING_BYTES, deadline_s)
    if not _same(answer.get("proof"), _sign(token, "client", theirs, mine)):
        raise Refused("the caller does not know the fleet's token")
    return Channel(wire, _session_key(token, theirs, mine), "server", "client")


def make_token(path: Path) -> bytes:
    """The fleet's token, created if it does not exist. Only its owner can read it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return read_token(path)
    with os.fdopen(handle, "w") as file:
        file.write(secrets.token_hex(_TOKEN_BYTES))
    return read_token(path)


def read_token(path: Path) -> bytes:
    """Read the token. A token that others could have read is refused."""
    try:
        if path.stat().st_mode & 0o077:
            raise InvalidInput(f"{path}: others can read the fleet's token; chmod 600 it, or make a new one")
        token = bytes.fromhex(path.read_text().strip())
    except OSError as error:
        raise InvalidInput(f"{path}: the fleet's token cannot be read ({error.strerror})") from None
    except ValueError:
        raise InvalidInput(f"{path}: not a fleet's token") from None
    if len(token) < _TOKEN_BYTES:
        raise InvalidInput(f"{path}: the token is too short; delete it, and `tidegate fleet up` makes a new one")
    return token


def _sign(key: bytes, *parts: str) -> str:
    # Sign every part with its length, so that different lists of parts never look the same.
    text = "".join(f"{len(part)}:{part}" for part in parts)
    return hmac.new(key, text.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()


def _same(given: Any, expected: str) -> bool:
    """Compare in constant time, as bytes: a text that is not ASCII could not be compared, and may be received."""
    text = given if isinstance(given, str) else ""
    return hmac.compare_digest(text.encode("utf-8", "surrogatepass"), expected.encode())


def _session_key(token: bytes, client: str, server: str) -> bytes:
    return bytes.fromhex(_sign(token, "session", client, server))


def _check_version(frame: Body) -> None:
    if frame.get("version") != VERSION:
        raise Refused(f"the other side speaks version {frame.get('version')!r} of the protocol, this side {VERSION}")


def _nonce(frame: Body) -> str:
    nonce = frame.get("nonce")
    if not isinstance(nonce, str) or len(nonce) < 32:
        raise ProtocolError("the greeting has no nonce")
    return nonce


def _send_frame(wire: socket.socket, frame: Body, deadline_s: float) -> None:
    data = json.dumps(frame).encode()
    if len(data) > MOST_BYTES:
        raise ProtocolError(f"the message has {len(data)} bytes, more than the limit of {MOST_BYTES}")
    wire.settimeout(_left_s(deadline_s))
    wire.sendall(_HEADER.pack(len(data)) + data)


def _receive_frame(wire: socket.socket, most_bytes: int, deadline_s: float, body_s: float | None = None) -> Body:
    (size,) = _HEADER.unpack(_exactly(wire, _HEADER.size, deadline_s))
    if body_s is not None:
        deadline_s = min(deadline_s, time.monotonic() + body_s)
    if size > most_bytes:
        raise ProtocolError(f"the other side announces {size} bytes, more than the limit of {most_bytes}")
    try:
        return _object(_exactly(wire, size, deadline_s).decode())
    except UnicodeDecodeError:
        raise ProtocolError("the message is not text") from None


def _object(text: str) -> Body:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        raise ProtocolError("the message is not JSON, or is nested too deeply") from None
    if not isinstance(value, dict):
        raise ProtocolError("the message is not a JSON object")
    return value


def _left_s(deadline_s: float) -> float:
    left_s = deadline_s - time.monotonic()
    if left_s <= 0:
        raise TimeoutError("the other side did not answer in time")
    return left_s


def _exactly(wire: socket.socket, size: int, deadline_s: float) -> bytes:
    parts = bytearray()
    while len(parts) < size:
        wire.settimeout(_left_s(deadline_s))
        part = wire.recv(size - len(parts))
        if not part:
            raise ProtocolError("the connection ended in the middle of a message")
        parts += part
    return bytes(parts)
