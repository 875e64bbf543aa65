"""The centre: the ordinary runner over the fleet, with a slower clock and its own journal.

Every step looks at the whole fleet and acts on the difference. Decisions are in the registry and in the journal, which
`tidegate explain` reads. A centre that was killed continues where it stopped.
"""

from __future__ import annotations

import contextlib
import gc
import logging
import threading
from collections.abc import Iterator

from tidegate.control.journal import MemoryJournal, SqliteJournal
from tidegate.control.knowledge import Knowledge
from tidegate.control.runner import KNOWLEDGE, Runner
from tidegate.domain import Decision, HostState
from tidegate.fleet.calls import fleet_wire
from tidegate.fleet.cluster import FleetCluster
from tidegate.fleet.config import FleetConfig
from tidegate.fleet.controllers import centre_controller
from tidegate.fleet.folder import FleetFolder
from tidegate.fleet.ports import Clock, Life, Pause, Wire, live
from tidegate.fleet.provider import Provider
from tidegate.fleet.registry import Registry

logger = logging.getLogger("tidegate")

_SHORTEST_PAUSE_S = 0.05
_LOG_BYTES = 16 << 20
_TRIM_EVERY_S = 60.0


class Centre:
    """Makes one step after another; `run` makes them at the interval in the fleet's file."""

    def __init__(
        self,
        folder: FleetFolder,
        config: FleetConfig,
        provider: Provider,
        registry: Registry,
        wire: Wire | None = None,
        journal: SqliteJournal | MemoryJournal | None = None,
    ) -> None:
        self._folder = folder
        self._clock = folder.clock
        self._config = config
        self._registry = registry
        self._world = FleetCluster(folder, config, provider, registry, wire or fleet_wire(folder, config))
        self._journal = journal or MemoryJournal()
        saved = self._journal.load_blob(KNOWLEDGE)
        controller, self._tokens = centre_controller(config, Knowledge.from_bytes(saved) if saved is not None else None)
        self.runner = Runner(self._world, controller, FleetClock(folder.clock), self._journal, self._journal)
        for region in config.regions:
            folder.region_lease(region).create()
        self._trimmed_s = self._clock.steady_s()
        self._ended = threading.Event()

    def run(self) -> None:
        """Make steps until told to stop."""
        live(self.life())

    def life(self) -> Life:
        """Make one step after another. A failed step is reported, and the next one tries again."""
        while not self._ended.is_set():
            began_s = self._clock.steady_s()
            try:
                self.step()
            except Exception as error:  # a full disk or a broken provider must not end the centre
                logger.exception("a step of the centre failed")
                with contextlib.suppress(Exception):  # the registry is on the same disk
                    self._registry.note("step-failed", "centre", f"{type(error).__name__}: {error}")
            took_s = self._clock.steady_s() - began_s
            yield Pause(max(_SHORTEST_PAUSE_S, self._config.timing.poll_s - took_s), self._ended)

    def end(self) -> None:
        self._ended.set()

    def close(self) -> None:
        """Save what was learned, for the next centre."""
        self._journal.save_blob(KNOWLEDGE, self.runner.controller.knowledge.to_bytes())
        if isinstance(self._journal, SqliteJournal):
            self._journal.close()

    def step(self) -> None:
        """Observe, decide, and tell the hosts."""
        with _collector_paused():
            self._world.look()
            decision = self.runner.tick()
            self._world.tell()
            self._show(decision)
            self._trim_logs()

    def _show(self, decision: Decision | None) -> None:
        """For `fleet status`: tokens, and the answers to requests."""
        entry = self.runner.last
        fleet = entry.observation.fleet if entry is not None and entry.observation is not None else None
        if decision is None or fleet is None:
            return
        held = {one.wanted: f"held by {one.guard}: {one.reason}" for one in decision.held}
        pending = [
            {
                "from": request.sender,
                "asks": str(request.action),
                "score": round(request.score, 2),
                "answer": "granted" if request.action in decision.actions else held.get(request.action, "waits"),
            }
            for request in fleet.requests[:50]
        ]
        self._put("pending", pending)
        self._put("tokens", self._tokens.left())
        ready = [host for host in fleet.hosts if host.state is HostState.READY]
        text = f"{len(ready)} of {len(fleet.hosts)} hosts ready, {len(fleet.applications)} applications"
        self._put("control", {"centre": f"{text}; {decision.reasons[0]}"})
        for action in decision.actions:
            if any(request.action == action for request in fleet.requests):
                self._registry.note("granted", getattr(action, "application", str(action)), str(action))

    def _put(self, key: str, value: object) -> None:
        if self._registry.fact(key) != value:
            self._registry.put_fact(key, value)

    def _trim_logs(self) -> None:
        if self._clock.steady_s() - self._trimmed_s < _TRIM_EVERY_S:
            return
        self._trimmed_s = self._clock.steady_s()
        with contextlib.suppress(OSError):
            self._folder.forget_hosts(set(self._registry.hosts()))
        for path in self._folder.logs():
            with contextlib.suppress(OSError):
                self._folder.files.trim(path, _LOG_BYTES)


@contextlib.contextmanager
def _collector_paused() -> Iterator[None]:
    """Collect garbage after the step, not during it.

    A step with 20 000 applications makes hundreds of thousands of objects that all live until its end. Every collection
    in between looks at them in vain.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


class FleetClock:
    """The machine's clock behind the runner's interface. It cannot be used for sleeping."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def now_s(self) -> float:
        return self._clock.forward_s()

    def monotonic_s(self) -> float:
        return self._clock.steady_s()

    def sleep_until(self, monotonic_s: float) -> bool:
        raise RuntimeError("the fleet's clock does not sleep; the caller of the runner waits")
