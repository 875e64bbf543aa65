"""Questions and answers over the protocol: a server for agents, a client for whoever asks them.

Every question has an id. A question that comes twice (its answer was lost on the way) is answered from memory and not
acted on again; what agents do is level-triggered besides, so that even a forgotten id does no harm.
"""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
import uuid
from collections import OrderedDict
from collections.abc import Callable

from tidegate.domain import TidegateError
from tidegate.fleet.protocol import Body, Channel, ProtocolError, Refused, greet, welcome

logger = logging.getLogger("tidegate")

Answer = Callable[[str, Body], Body]
"""`(kind, fields) → fields`; what it raises is told to the asker."""

_MOST_CONNECTIONS = 32
_GREETING_WAIT_S = 5.0
_IDLE_WAIT_S = 120.0
_REMEMBERED = 512


class Unreachable(TidegateError):
    """Nobody answers there, now."""


class Server:
    """Listens, and answers every authenticated connection in a thread of its own."""

    def __init__(self, answer: Answer, token: bytes, bind: str = "127.0.0.1", port: int = 0) -> None:
        self._token = token
        self._socket = socket.create_server((bind, port), backlog=16)
        self.address: tuple[str, int] = self._socket.getsockname()[:2]
        self._connections: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._answers = _Answers(answer)
        threading.Thread(target=self._accept, name="tidegate-agent", daemon=True).start()

    def close(self) -> None:
        """Stop listening and end every connection."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        with self._lock:
            wires = list(self._connections)
        for wire in wires:
            with contextlib.suppress(OSError):
                wire.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        while True:
            try:
                wire, _ = self._socket.accept()
            except OSError:
                return  # closed
            with self._lock:
                full = len(self._connections) >= _MOST_CONNECTIONS
                if not full:
                    self._connections.add(wire)
            if full:
                wire.close()
                continue
            threading.Thread(target=self._serve, args=(wire,), name="tidegate-agent-call", daemon=True).start()

    def _serve(self, wire: socket.socket) -> None:
        try:
            wire.settimeout(_GREETING_WAIT_S)
            channel = welcome(wire, self._token)
            wire.settimeout(_IDLE_WAIT_S)
            while True:
                channel.send(self._answers.to(channel.receive()))
        except Refused as error:
            logger.warning("a connection was refused: %s", error)
        except (ProtocolError, OSError):
            pass  # hung up, or talks nonsense: either way this connection is over
        finally:
            with self._lock:
                self._connections.discard(wire)
            wire.close()


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

    def __init__(self, address: tuple[str, int], token: bytes, timeout_s: float = 3.0) -> None:
        self.address = address
        self._token = token
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
            wire = socket.create_connection(self.address, timeout=self._timeout_s)
            self._channel = greet(wire, self._token)
        self._channel.send(question)
        answer = self._channel.receive()
        if answer.get("id") != question["id"]:
            raise ProtocolError("an answer to another question")
        if "error" in answer:
            raise _Declined(str(answer["error"]))
        return dict(answer.get("fields") or {})

    def _drop(self) -> None:
        if self._channel is not None:
            self._channel.close()
            self._channel = None


class _Declined(ProtocolError):
    """The agent understood, and says no."""


def _told(error: Exception, address: tuple[str, int]) -> TidegateError:
    if isinstance(error, Refused | _Declined):
        return error
    reason = str(error) or type(error).__name__
    return Unreachable(f"no answer from {address[0]}:{address[1]}: {reason}")
