"""A network connection that can be cut: forwards one port to another."""

from __future__ import annotations

import contextlib
import socket
import threading


class Wire:
    """Listens on a port and forwards everything to `target`, in both directions."""

    def __init__(self, target: tuple[str, int]) -> None:
        self._target = target
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address: tuple[str, int] = self._listener.getsockname()[:2]
        self._listen()

    def cut(self) -> None:
        """Break every connection and refuse new ones."""
        self._listener.close()
        with self._lock:
            ends, self._open = self._open, set()
        for end in ends:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def mend(self) -> None:
        """Listen again, on the same port."""
        self._listener = socket.create_server(self.address)
        self._listen()

    def _listen(self) -> None:
        self._listener.settimeout(0.2)  # a blocking accept would outlive the close of its socket
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                near, _ = listener.accept()
            except TimeoutError:
                continue
            except OSError:
                return
            try:
                far = socket.create_connection(self._target, timeout=5)
            except OSError:
                near.close()
                continue
            near.settimeout(None)
            far.settimeout(None)
            with self._lock:
                self._open |= {near, far}
            for ends in ((near, far), (far, near)):
                threading.Thread(target=self._pass_on, args=ends, daemon=True).start()

    def _pass_on(self, one: socket.socket, other: socket.socket) -> None:
        try:
            while data := one.recv(65536):
                other.sendall(data)
        except OSError:
            pass
        for end in (one, other):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        with self._lock:
            self._open.discard(one)
        one.close()
