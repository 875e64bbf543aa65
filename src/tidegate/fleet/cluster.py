"""The fleet behind the `Cluster` port. It observes the hosts' reports, and acts on the registry and on hosts.

The registry holds the desired state. Agents receive it in every step, so a lost message does no harm, and a centre that
was killed continues where it stopped. Queries are never stopped from here; that is the agents' job.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

from tidegate.domain import (
    Action,
    ActionReceipt,
    AddHost,
    ExecutorPool,
    ExecutorSample,
    FleetApplication,
    FleetHost,
    FleetSample,
    HostState,
    MoveApplication,
    Observation,
    Outcome,
    Receipt,
    RemoveHost,
    Request,
    SetParallelism,
    Targets,
    TidegateError,
)
from tidegate.domain.policy import Policy
from tidegate.evaluate.measurement import MeasurementPlan, plan_measurements
from tidegate.fleet.agent import desire_fields
from tidegate.fleet.bookkeeping import Bookkeeper
from tidegate.fleet.config import FleetConfig
from tidegate.fleet.folder import FleetFolder
from tidegate.fleet.hostkeeper import HostKeeper
from tidegate.fleet.judging import Judge
from tidegate.fleet.look import Glance, Lookout, Occupancy, occupancy
from tidegate.fleet.ports import Wire
from tidegate.fleet.provider import Provider
from tidegate.fleet.registry import ApplicationEntry, Registry
from tidegate.fleet.vocabulary import ApplicationSpec, Assigned, Phase, Tenancy

logger = logging.getLogger("tidegate")


@dataclass(slots=True)
class _Told:
    """The assignment that a host last received, and its number."""

    generation: int
    applications: tuple[ApplicationSpec, ...]
    names: frozenset[str]


class FleetCluster:
    """Every step is one look, one observation, one convergence, and one message to each host."""

    def __init__(
        self, folder: FleetFolder, config: FleetConfig, provider: Provider, registry: Registry, wire: Wire
    ) -> None:
        self._folder = folder
        self._clock = folder.clock
        self._config = config
        self._registry = registry
        self._lookout = Lookout(folder, wire)
        self._wire = wire
        self._judge = Judge(folder, config, provider, registry)
        self._keeper = HostKeeper(folder, config, provider, registry, self._lookout)
        self._book = Bookkeeper(folder, registry, self._judge, self._keeper)
        self._glances: dict[str, Glance] = {}
        self._seen = Occupancy({}, set())
        self._states: dict[str, HostState] = {}
        self._empty_since_s: dict[str, float] = {}
        self._ending = False
        self._generation: int | None = None
        self._told: dict[str, _Told] = {}
        self._grants: dict[str, list[Action]] = {}

    # the step

    def look(self) -> None:
        """Ask all hosts, judge their states, and update the registry: what was found, lost, and requested by users."""
        self._ending = bool(self._registry.fact("down", False))
        self._glances = self._lookout.look()
        self._seen = occupancy(self._glances)
        if not self._ending:
            self._book.adopt(self._glances)
        self._states = self._judge.states(self._glances, self._seen.held)
        self._book.publish(self._states, self._glances)
        if self._generation is None:
            if not self._judge.settled(self._states):
                return  # just started: hear from all hosts before changing anything
            seen = [glance.status.generation for glance in self._glances.values() if glance.status is not None]
            self._generation = self._registry.next_generation(max(seen, default=0) + 1)
        for lost in self._book.recover(self._states, self._seen):
            self._told.pop(lost, None)
        if self._ending:
            self._book.end_all()
        else:
            self._book.as_asked(self._states, self._seen)

    def observe(self) -> Observation:
        """The result of the last look, combined with the registry."""
        now_s = self._clock.forward_s()
        sample = self._sample()
        pool = ExecutorPool(
            tuple(
                ExecutorSample(host.name, host.region, host.slots, len(sample.on.get(host.name, ())), 0.0, host.leaving)
                for host in sample.hosts
                if host.state is HostState.READY
            ),
            requested=sum(not host.leaving for host in sample.hosts),
            slots_per_executor=self._config.host.slots,
        )
        return Observation(now_s, (), pool, fleet=sample)

    def converge(self, targets: Targets) -> Receipt:
        """Write placements into the registry, start and remove hosts, and keep the grants to be sent."""
        receipts: list[ActionReceipt] = []
        hosts = self._registry.hosts()
        for name, region in targets.hosts.items():
            if region is None and name in hosts and not hosts[name].leaving:
                self._keeper.let_go(name, "no longer needed")
                receipts.append(ActionReceipt(RemoveHost(name), Outcome.DONE))
            elif region is not None and name not in hosts:
                receipts.append(self._start(name, region))
        receipts += self._placements(targets)
        self._grants = {}
        applications = self._registry.applications()
        for application, operators in targets.parallelism.items():
            host = applications[application].host if application in applications else None
            for operator, tasks in operators.items():
                action = SetParallelism(application, operator, tasks)
                if host is None:
                    receipts.append(ActionReceipt(action, Outcome.REFUSED, "it runs on no host"))
                else:
                    self._grants.setdefault(host, []).append(action)
                    receipts.append(ActionReceipt(action, Outcome.UNDER_WAY, f"granted to {host}"))
        return Receipt(tuple(receipts))

    def release(self) -> None:
        """Restores nothing: the fleet goes on as it is without a centre."""

    def tell(self) -> None:
        """Tell every host, in every step, what to run and what it is granted; in short form if nothing changed."""
        if self._generation is None:
            return
        self._keeper.see_off(self._states, self._glances)
        by_host: dict[str, list[ApplicationEntry]] = {name: [] for name in self._states}
        for app in self._registry.applications().values():
            if app.wanted and app.host in by_host:
                by_host[app.host].append(app)
        reached = [name for name in by_host if name in self._glances and self._glances[name].status is not None]
        self._number(by_host)
        plan = self._measurements(by_host)
        tellings = [(name, by_host[name], plan.for_host(name) if plan is not None else None) for name in reached]
        for _ in self._wire.each(self._tell_one, tellings):
            pass

    # observing

    def _sample(self) -> FleetSample:
        seen, judge = self._seen.tenants, self._judge
        hosts = self._registry.hosts()
        wanted = [(name, app) for name, app in self._registry.applications().items() if app.wanted]
        applications = [
            _reported(app, *seen[name], judge) if name in seen else _unreported(app, judge) for name, app in wanted
        ]
        inhabited = {app.host for _, app in wanted} | {seen[name][0] for name, _ in wanted if name in seen}
        moment_s = self._clock.steady_s()
        self._empty_since_s = {
            name: self._empty_since_s.get(name, moment_s)
            for name, state in self._states.items()
            if name not in inhabited and state is HostState.READY
        }
        return FleetSample(
            tuple(
                self._host(name, entry.spec.region, entry.spec.slots, entry.leaving, moment_s)
                for name, entry in hosts.items()
                if name in self._states
            ),
            tuple(applications),
            self._requests(),
            self._generation is not None,
            {region: int(self._registry.fact(f"hosts-of-{region}", 0)) for region in self._config.regions},
            tuple(sorted({one for glance in self._glances.values() if (one := _speaks_for(glance)) is not None})),
            self._ending,
        )

    def _host(self, name: str, region: str, slots: int, leaving: bool, moment_s: float) -> FleetHost:
        glance = self._glances.get(name)
        machine = glance.status.sample if glance is not None and glance.status is not None else None
        return FleetHost(
            name,
            region,
            slots,
            self._states[name],
            leaving,
            machine.cpu_busy if machine is not None else None,
            machine.memory_bytes if machine is not None else None,
            machine.memory_free_bytes if machine is not None else None,
            round(moment_s - self._empty_since_s.get(name, moment_s), 1),
        )

    def _requests(self) -> tuple[Request, ...]:
        statuses = [glance.status for glance in self._glances.values() if glance.status is not None]
        return tuple(request for status in statuses for request in status.requests)

    # acting

    def _start(self, name: str, region: str) -> ActionReceipt:
        action = AddHost(name, region)
        try:
            self._keeper.start(name, region)
        except TidegateError as error:
            return ActionReceipt(action, Outcome.FAILED, str(error))
        return ActionReceipt(action, Outcome.DONE, "starting; ready when its agent answers")

    def _placements(self, targets: Targets) -> list[ActionReceipt]:
        applications = self._registry.applications()
        changed = [
            (name, host)
            for name, host in targets.placements.items()
            if name in applications and applications[name].wanted and applications[name].host != host
        ]
        if not changed:
            return []
        open_hosts = self._book.open_hosts(self._states)
        receipts = []
        with self._registry.together():
            for name, host in changed:
                action = MoveApplication(name, host)
                if host not in open_hosts:
                    receipts.append(ActionReceipt(action, Outcome.REFUSED, f"{host} is not ready"))
                    continue
                was = applications[name].host
                self._book.assign(name, host, "placed" if was is None else f"moved from {was}")
                receipts.append(ActionReceipt(action, Outcome.DONE))
        return receipts

    # telling

    def _number(self, by_host: dict[str, list[ApplicationEntry]]) -> None:
        """Give a new number to the hosts whose applications have changed."""
        wanted = {name: tuple(app.spec for app in assigned) for name, assigned in by_host.items()}
        changed = [
            name for name, specs in wanted.items() if name not in self._told or self._told[name].applications != specs
        ]
        if changed:
            self._generation = self._registry.next_generation()
            for name in changed:
                names = frozenset(spec.name for spec in wanted[name])
                self._told[name] = _Told(self._generation, wanted[name], names)

    def _tell_one(self, telling: tuple[str, list[ApplicationEntry], MeasurementPlan | None]) -> None:
        name, assigned, measure = telling
        glance = self._glances[name]
        assert glance.status is not None
        known = self._told[name]
        whole = glance.status.generation != known.generation or not _runs_all(glance.status.tenancies, known)
        applications = [Assigned(app.spec, *self._judge.lease(app.spec.name)) for app in assigned] if whole else None
        granted = tuple(self._grants.get(name, ()))
        try:
            fields = desire_fields(known.generation, applications, granted, measure if whole else None)
            self._lookout.client(glance.card).ask("desire", fields)
        except TidegateError as error:
            logger.info("%s was not told: %s", name, error)

    def _measurements(self, by_host: dict[str, list[ApplicationEntry]]) -> MeasurementPlan | None:
        """The metrics that tables and graphs need; None if there are none."""
        rules = self._config.policy.applications
        asked = {name for name, rule in rules.items() if rule.qos_table or rule.qos_graphs}
        if not asked:
            return None
        policy = Policy(interval_s=self._config.timing.measure_s, applications={name: rules[name] for name in asked})
        placement = {
            app.spec.name: [host] for host, assigned in by_host.items() for app in assigned if app.spec.name in asked
        }
        return plan_measurements(policy, placement)


def _reported(app: ApplicationEntry, host: str, tenancy: Tenancy, judge: Judge) -> FleetApplication:
    spec, assigned, running = app.spec, app.host, tenancy.phase is Phase.RUNNING
    load, latency_s = tenancy.load_slots, tenancy.latency_p99_s
    return FleetApplication(
        spec.name,
        spec.region,
        spec.slots,
        assigned,
        host if running else None,
        app.asked_host is not None and app.asked_host == assigned,
        running or judge.ran(spec.name),
        None if load is None else round(load, 3),
        None if latency_s is None else round(latency_s, 3),
        spec.latency_s,
        tenancy.changes_alone,
    )


def _unreported(app: ApplicationEntry, judge: Judge) -> FleetApplication:
    spec, pinned, ran = app.spec, app.asked_host is not None and app.asked_host == app.host, judge.ran(app.spec.name)
    return FleetApplication(spec.name, spec.region, spec.slots, app.host, None, pinned, ran, objective_s=spec.latency_s)


def _runs_all(tenancies: tuple[Tenancy, ...], told: _Told) -> bool:
    """Does the host run what it was told, and nothing else?"""
    running = Phase.RUNNING
    return {one.spec.name for one in tenancies if one.phase is running} == told.names


def _speaks_for(glance: Glance) -> str | None:
    return glance.status.speaks_for if glance.status is not None else None
