"""Requests and responses over the protocol: a server for agents, and a client that calls them.

Every request has an id. If a request arrives twice because its response was lost, the stored response is sent again
and the request is not repeated. Agents are level-triggered, so repeating a forgotten id does no harm.
"""

from __future__ import annotations

import contextlib
import logging
import socket
import ssl
import threading
import uuid
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from tidegate.domain import TidegateError
from tidegate.fleet.config import FleetConfig
from tidegate.fleet.folder import FleetFolder
from tidegate.fleet.ports import Answer, at_once
from tidegate.fleet.protocol import GREETING_S, Body, Channel, ProtocolError, Refused, greet, read_token, welcome
from tidegate.fleet.tls import Certificates, certificates

logger = logging.getLogger("tidegate")

A = TypeVar("A")
B = TypeVar("B")

_MOST_CONNECTIONS = 32
_MOST_STRANGERS = 32
_IDLE_WAIT_S = 120.0
_REMEMBERED = 512


class Unreachable(TidegateError):
    """The host does not answer at the moment."""


class Server:
    """Listens, and serves every authenticated connection in its own thread.

    Connections that have not authenticated yet have their own limit. When it is exceeded, the oldest of them is closed.
    """

    def __init__(
        self,
        answer: Answer,
        token: bytes,
        bind: str = "127.0.0.1",
        port: int = 0,
        tls: Certificates | None = None,
    ) -> None:
        self._token = token
        self._tls = tls
        self._socket = socket.create_server((bind, port), backlog=64)
        self._address: tuple[str, int] = self._socket.getsockname()[:2]
        self._strangers: OrderedDict[socket.socket, None] = OrderedDict()
        self._connections: OrderedDict[socket.socket, None] = OrderedDict()
        """Authenticated connections, least recently used first."""
        self._lock = threading.Lock()
        self._answers = _Answers(answer)
        threading.Thread(target=self._accept, name="tidegate-agent", daemon=True).start()

    @property
    def address(self) -> tuple[str, int]:
        return self._address

    def close(self) -> None:
        """Stop listening and end every connection."""
        _hang_up(self._socket)
        self._socket.close()
        with self._lock:
            wires = [*self._strangers, *self._connections]
        for wire in wires:
            _hang_up(wire)

    def _accept(self) -> None:
        while True:
            try:
                wire, _ = self._socket.accept()
            except OSError:
                if self._socket.fileno() < 0:
                    return  # closed
                continue  # out of file descriptors for the moment, or the caller has hung up already
            with self._lock:
                self._strangers[wire] = None
                surplus = next(iter(self._strangers)) if len(self._strangers) > _MOST_STRANGERS else None
            if surplus is not None:
                _hang_up(surplus)
            threading.Thread(target=self._serve, args=(wire,), name="tidegate-agent-call", daemon=True).start()

    def _serve(self, wire: socket.socket) -> None:
        line = wire
        try:
            wire.settimeout(GREETING_S)
            if self._tls is not None:
                line = self._tls.server.wrap_socket(wire, server_side=True)
            channel = welcome(line, self._token)
            self._let_in(wire)
            while True:
                channel.send(self._answers.to(channel.receive(_IDLE_WAIT_S)))
                with self._lock:
                    self._connections.move_to_end(wire)
        except Refused as error:
            logger.warning("a connection was refused: %s", error)
        except (ProtocolError, OSError):
            pass  # closed, or not our protocol: either way this connection is over
        except Exception as error:  # a peer must not be able to end more than its own connection
            logger.warning("a connection was closed after an error: %s: %s", type(error).__name__, error)
        finally:
            with self._lock:
                self._strangers.pop(wire, None)
                self._connections.pop(wire, None)
            line.close()
            wire.close()

    def _let_in(self, wire: socket.socket) -> None:
        """Add an authenticated connection. If there are too many, the least recently used one is closed."""
        with self._lock:
            self._strangers.pop(wire, None)
            self._connections[wire] = None
            surplus = next(iter(self._connections)) if len(self._connections) > _MOST_CONNECTIONS else None
        if surplus is not None:
            _hang_up(surplus)


class _Answers:
    """Answers every id once. A repeated request waits for the first response."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self._known: OrderedDict[str, tuple[threading.Event, list[Body]]] = OrderedDict()
        self._lock = threading.Lock()

    def to(self, question: Body) -> Body:
        name, kind, fields = question.get("id"), question.get("kind"), question.get("fields")
        if not isinstance(name, str) or not isinstance(kind, str) or not isinstance(fields, dict):
            raise ProtocolError("a question needs id, kind and fields")
        with self._lock:
            first = name not in self._known
            if first:
                self._known[name] = (threading.Event(), [])
                while len(self._known) > _REMEMBERED:
                    self._known.popitem(last=False)
            ready, answers = self._known[name]
        if first:
            try:
                answers.append({"id": name, "fields": self._answer(kind, fields)})
            except Exception as error:  # the caller gets the error; the agent goes on
                answers.append({"id": name, "error": f"{type(error).__name__}: {error}"})
            ready.set()
        ready.wait()
        return answers[0]


class Client:
    """Calls one agent. Connects on first use, keeps the connection, and reconnects once if it breaks."""

    def __init__(
        self, address: tuple[str, int], token: bytes, timeout_s: float = 3.0, tls: Certificates | None = None
    ) -> None:
        self.address = address
        self._token = token
        self._tls = tls
        self._timeout_s = timeout_s
        self._channel: Channel | None = None
        self._lock = threading.Lock()

    def ask(self, kind: str, fields: Body | None = None) -> Body:
        """The fields of the response. Raises `Unreachable`, `Refused`, or `ProtocolError` with the agent's message."""
        question = {"id": uuid.uuid4().hex, "kind": kind, "fields": fields or {}}
        with self._lock:
            fresh = self._channel is None
            try:
                return self._exchange(question)
            except (OSError, ProtocolError) as error:
                self._drop()
                if fresh or isinstance(error, Refused | _Declined):
                    raise _told(error, self.address) from None
            try:
                return self._exchange(question)  # the same id, so the request is carried out only once
            except (OSError, ProtocolError) as error:
                self._drop()
                raise _told(error, self.address) from None

    def close(self) -> None:
        with self._lock:
            self._drop()

    def _exchange(self, question: Body) -> Body:
        if self._channel is None:
            self._channel = self._connect()
        self._channel.send(question)
        answer = self._channel.receive()
        if answer.get("id") != question["id"]:
            raise ProtocolError("the response belongs to another request")
        if "error" in answer:
            raise _Declined(str(answer["error"]))
        return dict(answer.get("fields") or {})

    def _connect(self) -> Channel:
        wire = socket.create_connection(self.address, timeout=self._timeout_s)
        try:
            if self._tls is not None:
                wire = self._tls.client.wrap_socket(wire)
            return greet(wire, self._token, self._timeout_s, self._timeout_s)
        except BaseException:
            wire.close()
            raise

    def _drop(self) -> None:
        if self._channel is not None:
            self._channel.close()
            self._channel = None


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where an agent listens, and where others reach it."""

    bind: str = "127.0.0.1"
    port: int = 0
    """0 picks a free one."""
    advertise: tuple[str, int] | None = None
    """The address that others use, if it differs: behind a proxy, or in a container."""


class TcpWire:
    """The real wire: a listener on a port and peers by address, with the fleet's token and certificates."""

    def __init__(
        self,
        token: bytes,
        tls: Certificates | None = None,
        *,
        endpoint: Endpoint | None = None,
        timeout_s: float = 2.0,
    ) -> None:
        self._token = token
        self._tls = tls
        self._endpoint = endpoint or Endpoint()
        self._timeout_s = timeout_s

    def listen(self, answer: Answer) -> Server:
        return Server(answer, self._token, self._endpoint.bind, self._endpoint.port, self._tls)

    def peer(self, address: tuple[str, int]) -> Client:
        return Client(address, self._token, self._timeout_s, self._tls)

    def each(self, function: Callable[[A], B], items: Sequence[A]) -> list[B]:
        return at_once(function, items)


def fleet_wire(folder: FleetFolder, config: FleetConfig, endpoint: Endpoint | None = None) -> TcpWire:
    """The wire that the fleet's folder and configuration describe."""
    tls = None if config.tls is None else certificates(config.tls)
    return TcpWire(read_token(folder.token), tls, endpoint=endpoint)


class _Declined(ProtocolError):
    """The agent understood the request and refused it."""


def _told(error: Exception, address: tuple[str, int]) -> TidegateError:
    if isinstance(error, Refused | _Declined):
        return error
    if isinstance(error, ssl.SSLCertVerificationError):
        return Refused(f"the certificate of {address[0]}:{address[1]} is not from this fleet: {error.verify_message}")
    reason = str(error) or type(error).__name__
    return Unreachable(f"no answer from {address[0]}:{address[1]}: {reason}")


def _hang_up(wire: socket.socket) -> None:
    with contextlib.suppress(OSError):
        wire.shutdown(socket.SHUT_RDWR)
