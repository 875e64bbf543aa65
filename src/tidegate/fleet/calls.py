"""Questions and answers over the protocol: a server for agents, a client for whoever asks them.

Every question has an id. A question that comes twice (its answer was lost on the way) is answered from memory and not
acted on again; what agents do is level-triggered besides, so that even a forgotten id does no harm.
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
    """Nobody answers there, now."""


class Server:
    """Listens, and answers every authenticated connection in a thread of its own.

    Strangers, those who have not proved themselves yet, take no room from the others: when there are too many, the one
    that has been silent for longest is hung up on.
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
        """Those who know the token; whoever has asked last comes last."""
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
                continue  # out of files for a moment, or the caller has gone already
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
            pass  # hung up, or talks nonsense: either way this connection is over
        except Exception as error:  # nothing that a peer says may end more than its own connection
            logger.warning("a connection was ended: %s: %s", type(error).__name__, error)
        finally:
            with self._lock:
                self._strangers.pop(wire, None)
                self._connections.pop(wire, None)
            line.close()
            wire.close()

    def _let_in(self, wire: socket.socket) -> None:
        """One more who knows the token; where there are too many, the one that has asked nothing for longest goes."""
        with self._lock:
            self._strangers.pop(wire, None)
            self._connections[wire] = None
            surplus = next(iter(self._connections)) if len(self._connections) > _MOST_CONNECTIONS else None
        if surplus is not None:
            _hang_up(surplus)


class _Answers:
    """Answers every id once; who asks again while the first answer is being made waits for it."""

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
            except Exception as error:  # the asker is told; the agent lives on
                answers.append({"id": name, "error": f"{type(error).__name__}: {error}"})
            ready.set()
        ready.wait()
        return answers[0]


class Client:
    """Asks one agent. It connects when first asked, keeps the connection, and connects anew once where that broke."""

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
        """The answer's fields. Raises `Unreachable`, `Refused`, or `ProtocolError` with what the agent says."""
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
                return self._exchange(question)  # the same id: done once, however often it arrives
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
            raise ProtocolError("an answer to another question")
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


class TcpWire:
    """The real wire: a listener on a port, peers by address, all with the fleet's token and certificates."""

    def __init__(
        self,
        token: bytes,
        tls: Certificates | None = None,
        *,
        bind: str = "127.0.0.1",
        port: int = 0,
        timeout_s: float = 2.0,
    ) -> None:
        self._token = token
        self._tls = tls
        self._bind, self._port = bind, port
        self._timeout_s = timeout_s

    def listen(self, answer: Answer) -> Server:
        return Server(answer, self._token, self._bind, self._port, self._tls)

    def peer(self, address: tuple[str, int]) -> Client:
        return Client(address, self._token, self._timeout_s, self._tls)

    def each(self, function: Callable[[A], B], items: Sequence[A]) -> list[B]:
        return at_once(function, items)


def fleet_wire(folder: FleetFolder, config: FleetConfig, bind: str = "127.0.0.1", port: int = 0) -> TcpWire:
    """As the fleet's folder and file say."""
    tls = None if config.tls is None else certificates(config.tls)
    return TcpWire(read_token(folder.token), tls, bind=bind, port=port)


class _Declined(ProtocolError):
    """The agent understood, and says no."""


def _told(error: Exception, address: tuple[str, int]) -> TidegateError:
    if isinstance(error, Refused | _Declined):
        return error
    if isinstance(error, ssl.SSLCertVerificationError):
        return Refused(f"the certificate of {address[0]}:{address[1]} is not of this fleet: {error.verify_message}")
    reason = str(error) or type(error).__name__
    return Unreachable(f"no answer from {address[0]}:{address[1]}: {reason}")


def _hang_up(wire: socket.socket) -> None:
    with contextlib.suppress(OSError):
        wire.shutdown(socket.SHUT_RDWR)
