"""The server in its own thread. It reads the journal like any other reader, so the control thread never waits."""

from __future__ import annotations

import logging
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from tidegate.domain import EnvironmentUnfit, InvalidInput
from tidegate.domain.rules import ConsoleRule
from tidegate.view.access import Access, is_loopback, read_token
from tidegate.view.alerts import follow
from tidegate.view.library import Library

if TYPE_CHECKING:
    from tidegate.view.api import Steer
    from tidegate.view.otlp import Exporter
    from tidegate.view.panels import FleetNow

logger = logging.getLogger("tidegate")

_START_WAIT_S = 10.0
_END_WAIT_S = 5.0


class Console:
    """A running server. It ends with `close` or with the process."""

    def __init__(
        self,
        journals: Iterable[Path],
        rule: ConsoleRule,
        steer: Steer | None = None,
        fleet: Callable[[], FleetNow] | None = None,
    ) -> None:
        try:
            import uvicorn

            from tidegate.view.api import application
        except ImportError as error:
            raise EnvironmentUnfit(f"the console needs {error.name}: pip install 'tidegate[console]'") from None
        access = Access(rule.host, read_token(rule.token_file))
        self.library = Library(journals, fleet)
        if (rule.certificate is None) != (rule.key is None):
            raise InvalidInput("console: certificate and key belong together; give both or neither")
        self.library.open()
        if steer is not None:
            self.library.steerable = next(iter(self.library.books))
            self.library.paused = lambda: steer.steering.paused
        exporter: Exporter | None = None
        try:
            listening = _listen(rule.host, rule.port)
            try:
                config = uvicorn.Config(
                    application(self.library, access, steer, rule.page),
                    log_level="warning",
                    access_log=False,
                    lifespan="off",
                    server_header=False,
                    ssl_certfile=rule.certificate,
                    ssl_keyfile=rule.key,
                    timeout_graceful_shutdown=1,
                )
                config.load()
            except (OSError, ssl.SSLError) as error:
                listening.close()
                raise InvalidInput(f"console: certificate or key cannot be used ({error})") from None
            if rule.otlp_endpoint is not None:
                from tidegate.view.otlp import Exporter

                exporter = Exporter(self.library, rule.otlp_endpoint)
        except BaseException:
            self.library.close()
            raise
        self._server = uvicorn.Server(config)
        port = listening.getsockname()[1]
        scheme = "http" if rule.certificate is None else "https"
        name = rule.host if is_loopback(rule.host) else socket.gethostname()
        self.url = f"{scheme}://{f'[{name}]' if ':' in name else name}:{port}/"
        if not access.loopback:
            logger.warning(
                "the console can be reached from other machines at %s; the token allows reading and steering", self.url
            )
        self._thread = threading.Thread(
            target=self._server.run, kwargs={"sockets": [listening]}, name="tidegate-console", daemon=True
        )
        self._thread.start()
        until_s = time.monotonic() + _START_WAIT_S
        while not self._server.started and self._thread.is_alive() and time.monotonic() < until_s:
            time.sleep(0.01)
        if not self._server.started:
            raise EnvironmentUnfit(f"the console did not start at {self.url}; see the log")
        self._ended = threading.Event()
        self._exporter = exporter
        if rule.alert_webhook or rule.alert_command:
            arguments = (self.library, rule.alert_webhook, rule.alert_command, self._ended)
            threading.Thread(target=follow, args=arguments, name="tidegate-alerts", daemon=True).start()

    @property
    def running(self) -> bool:
        return self._thread.is_alive()

    def wait(self) -> None:
        """Wait until it ends."""
        while self._thread.is_alive():
            self._thread.join(0.5)

    def close(self) -> None:
        self._ended.set()
        self._server.should_exit = True
        self._thread.join(_END_WAIT_S)
        if self._exporter is not None:
            self._exporter.close()
        self.library.close()


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host.strip("[]"), port))
    except OSError as error:
        listening.close()
        raise InvalidInput(
            f"the console cannot listen on {host} port {port} ({error.strerror}); give another port"
        ) from None
    return listening
