"""The agent of a host: runs the assigned applications, renews their leases, and answers the centre.

The agent needs the centre only for changes. Without the centre it keeps running its last assignment.
"""

from __future__ import annotations

import logging
import os
import threading
from dataclasses import replace
from typing import Protocol

from pydantic import TypeAdapter

from tidegate.domain import Action, HostSample, InvalidInput, Request
from tidegate.domain.codec import from_json, to_json
from tidegate.evaluate.measurement import MeasurementPlan
from tidegate.fleet.folder import FleetFolder
from tidegate.fleet.identity import identify
from tidegate.fleet.lease import LeaseTerms
from tidegate.fleet.ports import Life, Pause, Ports, live
from tidegate.fleet.protocol import Body
from tidegate.fleet.tenant import QueryRunner, Tenant
from tidegate.fleet.vocabulary import AgentStatus, Assigned, HostCard, HostSpec

logger = logging.getLogger("tidegate")

_ACTIONS: TypeAdapter[tuple[Action, ...]] = TypeAdapter(tuple[Action, ...])
_STOP_WAIT_S = 70.0
_CLOSE_LOOK_S = 0.05
_CARD_S = 3.0


class Control(Protocol):
    """The controllers that run on this host: its own, and the region's if this host runs the region's manager."""

    def requests(self) -> tuple[Request, ...]:
        """Their current requests: changes that they want and may not make alone."""
        ...

    def hear(self, granted: tuple[Action, ...]) -> None:
        """Receive everything that the centre currently grants."""
        ...

    @property
    def speaks_for(self) -> str | None:
        """The region whose manager runs here."""
        ...

    def summary(self) -> dict[str, str]: ...

    def sample(self) -> HostSample | None:
        """The latest sample of the machine."""
        ...


class Agent:
    """Serves one host until it is told to stop."""

    def __init__(
        self,
        spec: HostSpec,
        folder: FleetFolder,
        runner: QueryRunner,
        ports: Ports,
        *,
        lease_s: float = 8.0,
        advertise: tuple[str, int] | None = None,
    ) -> None:
        self._folder = folder
        self._clock = folder.clock
        self._runner = runner
        self._ports = ports
        self._lease_s = lease_s
        self.control: Control | None = None
        """Set once control has started; until then the host has none."""
        self._generation = -1
        self._wanted: dict[str, Assigned] = {}
        self._tenants: dict[str, Tenant] = {}
        self._lock = threading.Lock()
        self._telling = threading.Lock()
        self._ended = threading.Event()
        self._never = threading.Event()
        self._listener = ports.wire.listen(self._answer)
        address = advertise or self._listener.address
        self.card = HostCard(
            spec, ports.new_id(), address, os.getpid(), self._clock.wall_s(), str(identify(os.getpid()))
        )
        ports.strands.begin(self._keep(), "tidegate-leases")
        folder.write_card(self.card)
        ports.strands.begin(self._show_card(), "tidegate-card")

    def wait(self, limit_s: float | None = None) -> bool:
        """Wait until someone asks this host to stop."""
        return self._ended.wait(limit_s)

    def end(self) -> None:
        """Ask the host to stop; `close` stops it."""
        self._ended.set()

    def close(self) -> None:
        """Stop every application at a batch boundary, release the leases, and stop listening."""
        live(self.closing())

    def closing(self) -> Life:
        with self._lock:
            self._ended.set()
            self._wanted.clear()
            tenants = list(self._tenants.values())
        for tenant in tenants:
            tenant.dismiss()
        deadline_s = self._clock.steady_s() + _STOP_WAIT_S
        while any(tenant.alive for tenant in tenants) and self._clock.steady_s() < deadline_s:
            yield Pause(_CLOSE_LOOK_S, self._never)
        try:
            self._folder.remove_card(self.card)
        except OSError as error:  # the centre will notice
            logger.warning("the card of this host could not be removed: %s", error)
        self._listener.close()
        if not any(tenant.alive for tenant in tenants):
            self._ports.watchdog.let_go()  # otherwise the watchdog ends what still runs

    @property
    def ending(self) -> bool:
        """Was it asked to stop?"""
        return self._ended.is_set()

    def cut_off(self) -> None:
        """Stop listening while everything else goes on, as if the port were blocked."""
        self._listener.close()

    def tenants(self) -> list[Tenant]:
        with self._lock:
            return list(self._tenants.values())

    def status(self) -> AgentStatus:
        """The current state of the host and its applications."""
        with self._lock:
            tenants, generation = list(self._tenants.values()), self._generation
        status = AgentStatus(self.card, generation, tuple(tenant.tenancy() for tenant in tenants))
        control = self.control
        if control is None:
            return status
        return replace(
            status,
            requests=control.requests(),
            speaks_for=control.speaks_for,
            control=control.summary(),
            sample=control.sample(),
        )

    def desire(self, generation: int, assigned: tuple[Assigned, ...]) -> None:
        """Run exactly these applications. An assignment older than the newest is refused: it arrived out of order."""
        with self._lock:
            if generation < self._generation:
                raise InvalidInput(f"assignment {generation} is older than {self._generation}, the current one")
            self._generation = generation
            self._wanted = {each.spec.name: each for each in assigned}
        self._converge()

    def _converge(self) -> None:
        """Start missing applications, dismiss unwanted ones, and drop those that have ended."""
        with self._lock:
            for name, tenant in list(self._tenants.items()):
                wanted = self._wanted.get(name)
                if not tenant.alive:
                    del self._tenants[name]
                elif wanted is None or wanted.spec != tenant.spec:
                    tenant.dismiss()  # with a new recipe, it is started again in the next round
                else:
                    tenant.hint(wanted)
            for name, wanted in self._wanted.items():
                if name not in self._tenants and not self._ended.is_set():
                    self._tenants[name] = Tenant(
                        wanted,
                        self._folder,
                        LeaseTerms(self.card.owner, self._lease_s),
                        self._runner,
                        self._ports.strands,
                        self._tell_watchdog,
                    )

    def _keep(self) -> Life:
        """Renew the leases, and tell the watchdog how long the host may live. Survives every error except its loss."""
        while True:
            try:
                self._converge()
            except Exception:  # the running applications still need their leases renewed
                logger.exception("the applications of this host could not be converged; their leases are still renewed")
            tenants = self.tenants()
            for tenant in tenants:
                tenant.renew()
            try:
                self._tell_watchdog()
            except OSError as error:
                logger.error("the watchdog of this host is gone (%s); stopping the host", error)
                self._ended.set()
                return
            if self._ended.is_set() and not any(tenant.alive for tenant in tenants):
                return
            yield Pause(min(1.0, self._lease_s / 8), self._never)

    def _show_card(self) -> Life:
        """Keep the card where the centre looks for it.

        If the centre gave this host up by mistake, the host would otherwise hold its leases forever without receiving
        assignments. If a newer start of this host has replaced the card, this one stops.
        """
        while not self._ended.is_set():
            yield Pause(_CARD_S, self._ended)
            if self._ended.is_set():
                return
            try:
                present = self._folder.read_card(self.card.spec.name)
                if present is None:
                    self._folder.write_card(self.card)
                elif present.incarnation != self.card.incarnation:
                    logger.warning("another process now serves host %s; stopping this one", self.card.spec.name)
                    self._ended.set()
            except OSError as error:
                logger.info("the card of this host cannot be written: %s", error)

    def _tell_watchdog(self) -> None:
        """Called by the keeper in every round, and by tenants before they start a query."""
        with self._telling:
            deadlines = [expires_s for tenant in self.tenants() if (expires_s := tenant.expires_s) is not None]
            self._ports.watchdog.allow_until(min(deadlines, default=None))

    def _answer(self, kind: str, fields: Body) -> Body:
        if kind == "status":
            return {"status": to_json(self.status())}
        if kind == "desire":
            if "applications" in fields:
                assigned = tuple(from_json(Assigned, text) for text in fields["applications"])
                self.desire(int(fields["generation"]), assigned)
            elif int(fields["generation"]) != self._generation:
                raise InvalidInput(f"assignment {fields['generation']} was never received; have {self._generation}")
            if "measure" in fields:
                self._runner.measure(from_json(MeasurementPlan, str(fields["measure"])))
            if self.control is not None:
                self.control.hear(_ACTIONS.validate_json(str(fields.get("granted", "[]"))))
            return {}
        if kind == "end":
            self._ended.set()
            return {}
        raise InvalidInput(f"unknown question {kind!r}")


def desire_fields(
    generation: int,
    assigned: list[Assigned] | None,
    granted: tuple[Action, ...] = (),
    measure: MeasurementPlan | None = None,
) -> Body:
    """The fields of a `desire`. Without applications it confirms that the assignment of this generation still holds."""
    fields: Body = {"generation": generation}
    if assigned is not None:
        fields["applications"] = [to_json(each) for each in assigned]
    if granted:
        fields["granted"] = _ACTIONS.dump_json(granted).decode()
    return fields if measure is None else {**fields, "measure": to_json(measure)}
