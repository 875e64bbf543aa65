"""The region's controller, which runs on one of its hosts. A lease decides which host speaks for the region."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress

from tidegate.control.journal import SqliteJournal
from tidegate.control.knowledge import Knowledge
from tidegate.control.runner import KNOWLEDGE, Runner
from tidegate.domain import (
    ExecutorPool,
    ExecutorSample,
    FleetApplication,
    FleetHost,
    FleetSample,
    HostState,
    Mode,
    Observation,
    Receipt,
    Request,
    Standing,
    Targets,
)
from tidegate.fleet.centre import FleetClock
from tidegate.fleet.config import FleetConfig
from tidegate.fleet.controllers import region_controller
from tidegate.fleet.folder import FleetFolder
from tidegate.fleet.lease import Fenced, HeldLease, LeaseTerms, LeaseWatch
from tidegate.fleet.look import Glance, Lookout
from tidegate.fleet.plan.asking import requests_of
from tidegate.fleet.ports import Wire
from tidegate.fleet.vocabulary import HostCard, Phase, Tenancy


class RegionCluster:
    """The hosts of one region, as their agents report them. Read-only: changes are requested from the centre."""

    def __init__(
        self, region: str, config: FleetConfig, folder: FleetFolder, wire: Wire, standing: Callable[[], Standing]
    ) -> None:
        self._region = region
        self._config = config
        self._folder = folder
        self._lookout = Lookout(folder, wire)
        self._standing = standing

    def observe(self) -> Observation:
        glances = self._lookout.look(self._region)
        members = self._folder.members(self._region)
        hosts = tuple(FleetHost(spec.name, spec.region, spec.slots, _state(glances.get(spec.name))) for spec in members)
        applications = region_applications(glances)
        pool = ExecutorPool(
            tuple(ExecutorSample(host.name, host.region, host.slots, 0, 0.0) for host in hosts if host.open),
            requested=len(hosts),
            slots_per_executor=self._config.host.slots,
        )
        fleet = FleetSample(hosts, applications)
        return Observation(self._folder.clock.forward_s(), (), pool, fleet=fleet, standing=self._standing())

    def converge(self, targets: Targets) -> Receipt:
        return Receipt()

    def release(self) -> None:
        """Nothing was changed, so there is nothing to restore."""


class RegionSpeaker:
    """Speaks for the region while this host holds the region's lease."""

    def __init__(
        self, card: HostCard, config: FleetConfig, folder: FleetFolder, wire: Wire, standing: Callable[[], Standing]
    ) -> None:
        self._card = card
        self._config = config
        self.region = card.spec.region
        self._files = folder.region_lease(self.region)
        self._folder = folder
        self._cluster = RegionCluster(self.region, config, folder, wire, standing)
        self._watch = LeaseWatch(folder.clock, config.timing.lease_s)
        self._lease: HeldLease | None = None
        self._journal: SqliteJournal | None = None
        self._runner: Runner | None = None

    @property
    def speaks(self) -> bool:
        """Is the lease still ours? It may have expired while this host was busy."""
        lease = self._lease
        return lease is not None and lease.remaining_s > 0

    def requests(self) -> tuple[Request, ...]:
        runner = self._runner
        if not self.speaks or runner is None or runner.mode is not Mode.APPLY or runner.last is None:
            return ()
        return requests_of(runner.last.decision, self.region)

    def summary(self) -> dict[str, str]:
        runner = self._runner
        if not self.speaks or runner is None or runner.last is None or runner.last.decision is None:
            return {}
        return {f"region {self.region}": str(runner.last.decision.reasons[0])}

    def keep(self) -> None:
        """Renew the lease, or try to take it over."""
        try:
            if self._lease is not None:
                self._lease.renew()
                return
        except Fenced:
            self._end()
        record = self._files.read()
        self._watch.look(record)
        if self._watch.free:
            self._lease = self._files.take(LeaseTerms(self._card.owner, self._config.timing.lease_s), record)

    def resign(self) -> None:
        lease = self._lease
        self._end()
        if lease is not None:
            with suppress(Fenced, OSError):  # the lease expires by itself
                lease.release()

    def step(self) -> None:
        """One step of the region's controller, if this host speaks for the region."""
        if not self.speaks:
            return
        if self._runner is None:
            self._runner = self._begin()
        self._runner.tick()

    def _begin(self) -> Runner:
        self._journal = journal = SqliteJournal(self._folder.region_journal(self.region))
        saved = journal.load_blob(KNOWLEDGE)
        knowledge = Knowledge.from_bytes(saved) if saved is not None else None
        controller = region_controller(self.region, self._config, knowledge)
        journal.note(self._folder.clock.forward_s(), "region-spoken-for", f"by {self._card.spec.name}")
        return Runner(self._cluster, controller, FleetClock(self._folder.clock), journal, journal)

    def _end(self) -> None:
        runner, journal = self._runner, self._journal
        self._lease = self._runner = self._journal = None
        if runner is not None and journal is not None:
            journal.save_blob(KNOWLEDGE, runner.controller.knowledge.to_bytes())
            journal.close()


def _state(glance: Glance | None) -> HostState:
    if glance is None:
        return HostState.STARTING
    return HostState.READY if glance.status is not None else HostState.AWAY


def region_applications(glances: Mapping[str, Glance]) -> tuple[FleetApplication, ...]:
    """Every application once: on the host where it waits to start, if it is moving, otherwise where it is."""
    here: dict[str, tuple[str, Tenancy]] = {}
    awaited: dict[str, str] = {}
    for host, glance in glances.items():
        for tenancy in glance.status.tenancies if glance.status is not None else ():
            name = tenancy.spec.name
            if tenancy.phase is Phase.WAITING:
                awaited[name] = host
                here.setdefault(name, (host, tenancy))
            elif tenancy.phase is not Phase.FAILED:
                here[name] = (host, tenancy)
    return tuple(_application(host, tenancy, awaited.get(name, host)) for name, (host, tenancy) in here.items())


def _application(host: str, tenancy: Tenancy, assigned: str) -> FleetApplication:
    spec = tenancy.spec
    return FleetApplication(
        spec.name,
        spec.region,
        spec.slots,
        assigned,
        host if tenancy.phase is Phase.RUNNING else None,
        load_slots=None if tenancy.load_slots is None else round(tenancy.load_slots, 3),
        latency_p99_s=None if tenancy.latency_p99_s is None else round(tenancy.latency_p99_s, 3),
        objective_s=spec.latency_s,
    )
