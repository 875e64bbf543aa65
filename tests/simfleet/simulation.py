"""A whole fleet under a seed: the real centre, agents, tenants and leases; simulated machines, disk, network, clocks.

After every event: never two runs of an application at once; no row lost or written twice; never more hosts than the
budget has. And when the faults are over, everything that is wanted runs.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

from tests.simfleet.hosts import DRIFT, ROOT, Host, Violation, World
from tests.simfleet.kernel import Crashed, Kernel, Process, Strand
from tests.simfleet.machines import Clock, DurableRegistry, Files, Mount, Wire
from tidegate.domain import EnvironmentUnfit
from tidegate.fleet.centre import Centre
from tidegate.fleet.config import FleetConfig
from tidegate.fleet.folder import FleetFolder
from tidegate.fleet.vocabulary import ApplicationSpec, HostSpec

APPLICATIONS = ("a", "b", "c")
FAULTY_S = 30.0
QUIET_S = 150.0
CONFIG = FleetConfig.model_validate(
    {
        "regions": {"east": {"min_hosts": 1, "max_hosts": 2}, "west": {"min_hosts": 1, "max_hosts": 2}},
        "most_hosts": 3,
        "scheduler": "best-fit",
        "timing": {
            "poll_s": 1.5,
            "lease_s": World.lease_s,
            "lost_after_s": 2.0,
            "start_limit_s": 8.0,
            "move_pause_s": 12.0,
            "spare_s": 10.0,
        },
    }
)
logging.getLogger("tidegate").addHandler(logging.NullHandler())


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one seed."""

    seed: int
    violation: str | None
    at_s: float
    events: int
    faults: tuple[str, ...]
    rows: int


class Provider:
    """Makes simulated hosts. It can fail before it has made one, and after."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._made = 0
        self.trouble = 0.0
        self.powerless = False
        """Can it neither stop a host nor say whether one lives, as commands of the user's may be?"""

    def start(self, host: HostSpec) -> str:
        random = self._world.kernel.random
        fails = random.random() < self.trouble
        if fails and random.random() < 0.5:
            raise EnvironmentUnfit("nothing was started")
        self._made += 1
        made = Host(self._world, host, self._made)
        self._world.hosts[made.handle] = made
        self._world.kernel.say(f"provider: {made.handle} starts")
        if fails:
            raise EnvironmentUnfit("the start command was killed after its time limit")
        return made.handle

    def stop(self, handle: str) -> None:
        if handle not in self._world.hosts:
            return
        if self.powerless or self._world.kernel.random.random() < self.trouble:
            self._world.hosts[handle].given_up = True
            raise EnvironmentUnfit("the stop command failed")
        self._world.hosts[handle].die()

    def abandon(self, host: HostSpec) -> None:
        for made in self._world.hosts.values():
            if made.spec.name == host.name:
                made.die()

    def alive(self, handle: str) -> bool | None:
        if self.powerless:
            return None
        return handle in self._world.hosts and self._world.hosts[handle].alive


class Simulation:
    """One run; `run` says what came of it."""

    def __init__(self, seed: int, faulty_s: float = FAULTY_S, trace: bool = False) -> None:
        self.seed = seed
        self.kernel = Kernel(seed)
        self.kernel.trace = [] if trace else None
        self.kernel.after_each = self._check
        self.world = World(self.kernel)
        self.world.disk.make(ROOT)
        self.provider = Provider(self.world)
        self.registry = DurableRegistry(self.world.disk, Clock(self.kernel, 0.0))
        self.faults: list[str] = []
        self._faulty_s = faulty_s
        self._centre: Process | None = None
        self._centre_mount = Mount(self.kernel, self.world.disk)
        self._cures: list[Callable[[], None]] = []
        self._quiet_since_s: float | None = None

    def run(self) -> Outcome:
        violation = None
        try:
            for name in APPLICATIONS:
                region = self.kernel.random.choice(["east", "west", None])
                self.registry.put_application(ApplicationSpec(name, "sim", region=region, slots=0.5))
            self._begin_centre()
            self._plan_faults()
            self.kernel.run(self._faulty_s)
            self._heal()
            self.kernel.run(self._faulty_s + QUIET_S, self._everything_runs)
            if not self._everything_runs():
                raise Violation(f"{QUIET_S:.0f} s after the last fault: {self._where()}")
        except Violation as error:
            violation = str(error)
        rows = sum(self.world.sink.rows.values())
        return Outcome(self.seed, violation, self.kernel.now_s, self.kernel.events, tuple(self.faults), rows)

    # the centre

    def _begin_centre(self) -> None:
        process = self._centre = Process("centre")
        clock = Clock(self.kernel, DRIFT)
        folder = FleetFolder(ROOT, Files(self._centre_mount, process), clock)
        try:
            centre = Centre(folder, CONFIG, self.provider, self.registry, wire=Wire(self.world.network, process))
        except (OSError, Crashed):
            self.kernel.kill(process)
            self.kernel.after(2.0, self._begin_centre)
            return
        Strand(self.kernel, process, centre.life(), clock.rate)

    def _crash_centre(self) -> None:
        if self._centre is None or not self._centre.alive:
            return
        self.kernel.kill(self._centre)
        self.kernel.after(self.kernel.random.uniform(0.5, 10.0), self._begin_centre)

    # what must hold

    def _check(self) -> None:
        if not self.world.dirty:
            return
        self.world.dirty = False
        running: dict[str, str] = {}
        for host in self.world.hosts.values():
            if self.kernel.now_s < host.suspect_until_s:
                self.world.dirty = True
                continue  # its sink refuses it; that is checked there
            for query in host.queries:
                if query.running:
                    if query.application in running:
                        both = f"{running[query.application]} and on {host.handle} in epoch {query.epoch}"
                        raise Violation(f"{query.application} runs twice: on {both}")
                    running[query.application] = f"{host.handle} in epoch {query.epoch}"
            if host.queries and not host.alive:
                host.queries.clear()
        alive = [host.handle for host in self.world.hosts.values() if host.alive and not host.given_up]
        if len(alive) > CONFIG.most_hosts:
            raise Violation(f"{len(alive)} hosts, and {CONFIG.most_hosts} are the most: {', '.join(alive)}")

    def _everything_runs(self) -> bool:
        """All that is wanted runs once, where it is assigned, and has done so for a while."""
        wanted = {name: app.host for name, app in self.registry.applications().items() if app.wanted}
        found = {
            query.application: host.spec.name
            for host in self.world.hosts.values()
            for query in host.queries
            if query.running and host.python.runs
        }
        if found != wanted:
            self._quiet_since_s = None
            return False
        if self._quiet_since_s is None:
            self._quiet_since_s = self.kernel.now_s
        return self.kernel.now_s - self._quiet_since_s > 3.0

    def _where(self) -> str:
        wanted = {name: app.host for name, app in self.registry.applications().items() if app.wanted}
        found = {
            query.application: host.handle
            for host in self.world.hosts.values()
            for query in host.queries
            if query.running
        }
        hosts = [host.handle for host in self.world.hosts.values() if host.alive]
        return f"assigned {wanted}, running {found}, hosts {hosts}"

    # what befalls it

    def _plan_faults(self) -> None:
        random = self.kernel.random
        self.world.network.trouble = random.choice([0.0, 0.05, 0.3])
        self.world.start_trouble = random.choice([0.0, 0.0, 0.3])
        self.world.kill_trouble = random.choice([0.0, 0.0, 0.3])
        self.world.hang_trouble = random.choice([0.0, 0.0, 0.3])
        self.world.hang = lambda host: self._befall(lambda: self._hang(host))
        self.provider.trouble = random.choice([0.0, 0.0, 0.5])
        self.provider.powerless = random.random() < 0.3
        kinds: list[Callable[[], str]] = [
            self._kill_python,
            self._lose_power,
            self._hang_python,
            self._slow_then_hang,
            self._stop_group,
            self._suspend_machine,
            self._cut_network,
            self._cut_disk,
            self._slow_disk,
            self._fill_disk,
            self._set_clock,
            self._kill_centre,
            self._move,
            self._resubmit,
        ]
        for _ in range(round(random.randint(2, 9) * self._faulty_s / FAULTY_S)):
            kind = random.choice(kinds)
            self.kernel.after(random.uniform(3.0, self._faulty_s - 2.0), lambda kind=kind: self._befall(kind))

    def _befall(self, kind: Callable[[], str]) -> None:
        what = kind()
        self.faults.append(f"{self.kernel.now_s:.1f} {what}")
        self.kernel.say(f"FAULT {what}")
        self.world.dirty = True

    def _some_host(self) -> Host | None:
        alive = [host for host in self.world.hosts.values() if host.alive]
        return self.kernel.random.choice(alive) if alive else None

    def _later(self, cure: Callable[[], None], longest_s: float = 15.0) -> None:
        """Undo a fault after a while, and at the latest when the faults are over."""
        pending = [cure]

        def once() -> None:
            if pending:
                pending.pop()()
                self.world.dirty = True

        self._cures.append(once)
        self.kernel.after(self.kernel.random.uniform(0.2, longest_s), once)

    def _heal(self) -> None:
        self.kernel.say("all faults are over")
        for cure in self._cures:
            cure()
        self.world.network.trouble = self.provider.trouble = 0.0
        self.provider.powerless = False
        self.world.start_trouble = self.world.kill_trouble = self.world.hang_trouble = 0.0

    def _kill_python(self) -> str:
        host = self._some_host()
        if host is None:
            return "nothing to kill"
        self.kernel.kill(host.python)
        return f"python of {host.handle} killed"

    def _lose_power(self) -> str:
        host = self._some_host()
        if host is None:
            return "nothing to switch off"
        host.mount.tear()
        host.die()
        return f"{host.handle} loses power"

    def _hang_python(self) -> str:
        host = self._some_host()
        return "nothing to hang" if host is None else self._hang(host)

    def _hang(self, host: Host) -> str:
        return self._freeze(f"python of {host.handle} hangs", host.python)

    def _slow_then_hang(self) -> str:
        """A disk that answers late, and an agent that hangs while it waits."""
        host = self._some_host()
        if host is None:
            return "nothing to slow down"
        host.mount.slow_s = 3.0
        self._later(lambda: setattr(host.mount, "slow_s", 0.0), 10.0)
        self.kernel.after(self.kernel.random.uniform(2.0, 6.0), lambda: self._befall(lambda: self._hang(host)))
        return f"disk of {host.handle} slow"

    def _stop_group(self) -> str:
        host = self._some_host()
        if host is None:
            return "nothing to stop"
        return self._freeze(f"{host.handle} stopped (SIGSTOP)", host.python, host.jvm)

    def _suspend_machine(self) -> str:
        """The watchdog stands still as well: only the sink can refuse what the machine does when it wakes."""
        host = self._some_host()
        if host is None:
            return "nothing to suspend"
        for process in host.processes:
            self.kernel.freeze(process)

        def wake() -> None:
            host.suspect_until_s = self.kernel.now_s + 0.2
            for process in host.processes:
                self.kernel.thaw(process)

        self._later(wake, 25.0)
        return f"machine of {host.handle} suspended"

    def _freeze(self, what: str, *processes: Process) -> str:
        for process in processes:
            self.kernel.freeze(process)
        self._later(lambda: [self.kernel.thaw(process) for process in processes] and None)
        return what

    def _cut_network(self) -> str:
        host = self._some_host()
        if host is None:
            return "nothing to cut off"
        self.world.network.cut.add(host.python)
        self._later(lambda: self.world.network.cut.discard(host.python))
        return f"network of {host.handle} cut"

    def _mounts(self) -> list[Mount]:
        return [self._centre_mount, *(host.mount for host in self.world.hosts.values() if host.alive)]

    def _cut_disk(self) -> str:
        mount = self.kernel.random.choice(self._mounts())
        mount.cut = True
        self._later(lambda: setattr(mount, "cut", False), 10.0)
        return "disk cut off from one machine"

    def _slow_disk(self) -> str:
        mount = self.kernel.random.choice(self._mounts())
        mount.slow_s = self.kernel.random.choice([0.5, 3.0, 8.0])
        self._later(lambda: setattr(mount, "slow_s", 0.0), 10.0)
        return f"disk slow for one machine, {mount.slow_s:g} s"

    def _fill_disk(self) -> str:
        self.world.disk.full = True
        self._later(lambda: setattr(self.world.disk, "full", False), 8.0)
        return "disk full"

    def _set_clock(self) -> str:
        host = self._some_host()
        if host is None:
            return "no clock to set"
        host.clock.set_by_s += self.kernel.random.choice([-3600.0, 3600.0])
        return f"clock of {host.handle} set"

    def _kill_centre(self) -> str:
        self._crash_centre()
        return "centre killed"

    def _wish(self, what: Callable[[], None]) -> None:
        if not self.world.disk.full:
            what()

    def _move(self) -> str:
        hosts = sorted(self.registry.hosts())
        name = self.kernel.random.choice(APPLICATIONS)
        if not hosts or name not in self.registry.applications():
            return "nothing to move"
        host = self.kernel.random.choice(hosts)
        self._wish(lambda: self.registry.ask_host(name, host))
        return f"move of {name} to {host} asked for"

    def _resubmit(self) -> str:
        name = self.kernel.random.choice(APPLICATIONS)
        spec = ApplicationSpec(name, "sim", {"version": self.kernel.random.randint(1, 9)}, slots=0.5)
        if self.kernel.random.random() < 0.5:
            self._wish(lambda: self.registry.put_application(spec))
            return f"new recipe for {name}"
        self._wish(lambda: self.registry.end_application(name))
        self._later(lambda: self._wish(lambda: self.registry.put_application(spec)), 10.0)
        return f"{name} withdrawn for a while"


def simulate(seed: int, trace: bool = False) -> tuple[Outcome, list[str]]:
    """Run one seed; the trace is empty unless it is asked for."""
    simulation = Simulation(seed, trace=trace)
    outcome = simulation.run()
    return outcome, simulation.kernel.trace or []
