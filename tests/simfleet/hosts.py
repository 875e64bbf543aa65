"""Simulated hosts around the fleet's real agents: a driver, a watchdog, and queries that write to a sink."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

from tests.simfleet.kernel import Crashed, Kernel, Process, Strand, Strands
from tests.simfleet.machines import Clock, Files, Mount, Network, SharedDisk, Wire
from tidegate.domain.epochs import StaleEpoch
from tidegate.evaluate.measurement import MeasurementPlan
from tidegate.fleet.agent import Agent
from tidegate.fleet.folder import FleetFolder
from tidegate.fleet.ports import Life, Pause, Ports
from tidegate.fleet.tenant import Figures, RunOrder
from tidegate.fleet.vocabulary import ApplicationSpec, HostSpec

ROOT = Path("/fleet")
DRIFT = 0.02
_NEVER = threading.Event()


class Violation(AssertionError):
    """An invariant does not hold."""


class Sink:
    """Where rows go: transactional, and it refuses epochs below the highest that it has seen."""

    def __init__(self) -> None:
        self.rows: dict[str, int] = {}
        self.epochs: dict[str, int] = {}

    def open(self, application: str, epoch: int) -> int:
        """A run begins: from now on earlier ones are refused. Returns where to go on."""
        self._check(application, epoch)
        self.epochs[application] = epoch
        return self.rows.setdefault(application, 0)

    def commit(self, application: str, epoch: int, first: int) -> None:
        self._check(application, epoch)
        if first != self.rows[application]:
            raise Violation(f"{application}: row {first} written where {self.rows[application]} was due")
        self.rows[application] += 1

    def _check(self, application: str, epoch: int) -> None:
        if epoch < self.epochs.get(application, 0):
            raise StaleEpoch(f"{application}: epoch {epoch} comes after {self.epochs[application]}")


class Query:
    """A run of an application in the driver's JVM, which goes on while Python hangs."""

    def __init__(self, host: Host, application: str, order: RunOrder) -> None:
        self.host, self.application, self.epoch = host, application, order.epoch
        self.ended = False
        self._failure: str | None = None
        host.queries.append(self)
        host.world.dirty = True
        host.kernel.say(f"{host.spec.name}: {application} starts in epoch {order.epoch}")
        Strand(host.kernel, host.jvm, self._batches())
        host.world.moment(host)

    @property
    def running(self) -> bool:
        return not self.ended and self.host.jvm.runs

    def failure(self) -> str | None:
        return self._failure

    def stop(self) -> None:
        self.end()

    def kill(self) -> None:
        if self.host.world.stubborn(self.host):
            raise RuntimeError("the query does not stop")
        self.end()

    def end(self) -> None:
        self.ended = True

    def _batches(self) -> Life:
        host, kernel = self.host, self.host.kernel
        folder = FleetFolder(ROOT, Files(host.mount, host.jvm), host.clock)
        try:
            row = host.world.sink.open(self.application, self.epoch)
            while not self.ended:
                folder.check_epoch(self.application, self.epoch)  # as the source does before every batch
                yield Pause(kernel.random.uniform(0.3, 1.5), _NEVER)
                if self.ended:
                    return
                host.world.sink.commit(self.application, self.epoch, row)
                row += 1
        except (StaleEpoch, OSError) as error:
            self._failure, self.ended = f"{type(error).__name__}: {error}", True


class Runner:
    """The `QueryRunner` of a host."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def start(self, spec: ApplicationSpec, order: RunOrder) -> Query:
        fate = self._host.world.start_fate()
        if fate == "fails":
            raise RuntimeError("the recipe is broken")
        query = Query(self._host, spec.name, order)
        if fate == "fails-after":
            raise TimeoutError("no answer from the driver, which has started it")
        return query

    def clear(self, application: str) -> None:
        for query in self._host.queries:
            if query.application == application:
                query.kill()

    def figures(self, application: str) -> Figures:
        return Figures(load_slots=0.5)

    def measure(self, plan: MeasurementPlan) -> None:
        pass


class Watchdog:
    """The process beside a host that kills it when its time has come, or when it is gone without a word."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._deadline_s: float | None = None
        self._gone = False
        Strand(host.kernel, host.dog, self._watch())

    def allow_until(self, deadline_s: float | None) -> None:
        if not self._host.dog.alive:
            raise OSError("the watchdog is gone")
        self._deadline_s = deadline_s
        if deadline_s is not None:
            delay_s = self._host.clock.when_s(deadline_s) - self._host.kernel.now_s
            self._host.kernel.after(delay_s, lambda: self._due(deadline_s), self._host.dog)

    def let_go(self) -> None:
        self._gone = True

    def _due(self, deadline_s: float) -> None:
        if self._deadline_s == deadline_s and not self._gone:
            self._host.kernel.say(f"{self._host.spec.name}: killed by its watchdog")
            self._host.die()

    def _watch(self) -> Life:
        """The pipe tells at once when Python is gone."""
        while not self._gone:
            if not self._host.python.alive:
                self._host.die()
                return
            yield Pause(0.1, _NEVER)


class Host:
    """A machine of its own: Python with the agent, a JVM with the queries, a watchdog."""

    def __init__(self, world: World, spec: HostSpec, number: int) -> None:
        self.world, self.kernel, self.spec = world, world.kernel, spec
        self.handle = f"{spec.name}#{number}"
        self.python, self.jvm, self.dog = (Process(f"{self.handle}/{part}") for part in ("python", "jvm", "dog"))
        self.clock, self.mount = Clock(self.kernel, DRIFT), Mount(self.kernel, world.disk)
        self.queries: list[Query] = []
        self.suspect_until_s = 0.0
        """Just awake from a suspension of the whole machine: its watchdog has not looked yet."""
        self.given_up = False
        """Its provider could not stop it; only its watchdog can."""
        self.agent: Agent | None = None
        self.kernel.after(self.kernel.random.uniform(0.3, 2.5), self._boot, self.python)

    @property
    def alive(self) -> bool:
        return self.python.alive or self.jvm.alive

    @property
    def processes(self) -> tuple[Process, Process, Process]:
        return self.python, self.jvm, self.dog

    def die(self) -> None:
        for process in self.processes:
            self.kernel.kill(process)
        if self.agent is not None:
            self.world.network.listeners.pop(self.agent.card.address, None)

    def _boot(self) -> None:
        wire = Wire(self.world.network, self.python)
        ports = Ports(
            wire,
            Watchdog(self),
            Strands(self.kernel, self.python, self.clock.rate),
            lambda: self.handle.partition("#")[2],
        )
        folder = FleetFolder(ROOT, Files(self.mount, self.python), self.clock)
        try:
            self.agent = Agent(self.spec, folder, Runner(self), ports, lease_s=self.world.lease_s)
        except (OSError, Crashed) as error:
            self.kernel.say(f"{self.handle} does not come up: {error}")
            self.die()
            return
        Strand(self.kernel, self.python, self._serve(self.agent))

    def _serve(self, agent: Agent) -> Life:
        while not agent.ending:
            yield Pause(0.5, _NEVER)
        yield from agent.closing()
        self.kernel.say(f"{self.handle} has ended")
        self.die()


class World:
    """What hosts share, and what befalls them."""

    lease_s = 4.0

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.disk, self.network, self.sink = SharedDisk(), Network(kernel), Sink()
        self.hosts: dict[str, Host] = {}
        self.dirty = False
        self.start_trouble = 0.0
        self.kill_trouble = 0.0
        self.hang_trouble = 0.0
        self.hang: Callable[[Host], None] = lambda host: None

    def moment(self, host: Host) -> None:
        """A query has just been started: a good moment for its agent to hang."""
        if self.kernel.random.random() < self.hang_trouble:
            self.kernel.after(self.kernel.random.uniform(0.0, 0.3), lambda: self.hang(host))

    def start_fate(self) -> str:
        if self.kernel.random.random() >= self.start_trouble:
            return "starts"
        return self.kernel.random.choice(["fails", "fails-after"])

    def stubborn(self, host: Host) -> bool:
        return self.kernel.random.random() < self.kill_trouble
