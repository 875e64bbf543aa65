"""The agent of a host: converges to the applications that it is given, keeps their leases, and answers the centre.

It needs the centre for news only. Without it, it goes on with what it was last told.
"""

from __future__ import annotations

import logging
import os
import threading
import time
import uuid
from typing import Protocol

from tidegate.domain import InvalidInput
from tidegate.domain.codec import from_json, to_json
from tidegate.fleet.calls import Server
from tidegate.fleet.folder import FleetFolder
from tidegate.fleet.protocol import Body, read_token
from tidegate.fleet.state import AgentStatus, Assigned, HostCard, HostSpec, RegionWish
from tidegate.fleet.tenant import QueryRunner, Tenant
from tidegate.fleet.watchdog import Handle
from tidegate.monitor.measurement import MeasurementPlan

logger = logging.getLogger("tidegate")

_STOP_WAIT_S = 70.0


class LocalManagers(Protocol):
    """The managers that work on the host itself."""

    def outbox(self) -> tuple[str, ...]:
        """What they have to say since they were last asked, encoded."""
        ...

    def take(self, messages: list[str]) -> None:
        """What the centre says to them."""
        ...

    def wish(self) -> RegionWish | None:
        """What the region's manager wants done, where it works here."""
        ...

    def summary(self) -> dict[str, str]: ...


class Agent:
    """Serves one host until it is told to end."""

    def __init__(
        self,
        spec: HostSpec,
        folder: FleetFolder,
        runner: QueryRunner,
        *,
        lease_s: float = 8.0,
        bind: str = "127.0.0.1",
        port: int = 0,
        advertise: tuple[str, int] | None = None,
        managers: LocalManagers | None = None,
    ) -> None:
        self._folder = folder
        self._runner = runner
        self._lease_s = lease_s
        self.managers = managers
        """Set it once they work; until then the host has none."""
        self._generation = -1
        self._wanted: dict[str, Assigned] = {}
        self._tenants: dict[str, Tenant] = {}
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._watchdog = Handle(os.getpgrp())
        self._server = Server(self._answer, read_token(folder.token), bind, port)
        self.card = HostCard(spec, uuid.uuid4().hex[:12], advertise or self._server.address, os.getpid(), time.time())
        self._keeper = threading.Thread(target=self._keep, name="tidegate-leases", daemon=True)
        self._keeper.start()
        folder.write_card(self.card)

    def wait(self, limit_s: float | None = None) -> bool:
        """Until somebody asks for the end of this host."""
        return self._ended.wait(limit_s)

    def end(self) -> None:
        """Ask for the end; `close` does it."""
        self._ended.set()

    def close(self) -> None:
        """Stop every application at a batch boundary, give back the leases, and stop listening."""
        with self._lock:
            self._wanted.clear()
            tenants = list(self._tenants.values())
        for tenant in tenants:
            tenant.dismiss()
        deadline_s = time.monotonic() + _STOP_WAIT_S
        ended = [tenant.join(max(0.0, deadline_s - time.monotonic())) for tenant in tenants]
        self._folder.remove_card(self.card)
        self._server.close()
        self._ended.set()
        if all(ended):
            self._watchdog.let_go()  # otherwise it sees to the rest

    def cut_off(self) -> None:
        """Stop listening while everything else goes on: what a closed port looks like from outside."""
        self._server.close()

    def tenants(self) -> list[Tenant]:
        with self._lock:
            return list(self._tenants.values())

    def status(self, drain: bool = False) -> AgentStatus:
        """How things are; with `drain`, what the managers have to say goes out with it, and only then."""
        with self._lock:
            tenants, generation = list(self._tenants.values()), self._generation
        managers = self.managers
        return AgentStatus(
            self.card,
            generation,
            tuple(tenant.tenancy() for tenant in tenants),
            managers.outbox() if managers and drain else (),
            managers.wish() if managers else None,
            managers.summary() if managers else {},
        )

    def desire(self, generation: int, assigned: tuple[Assigned, ...]) -> None:
        """Run exactly these applications. An older word than the newest is refused: it was overtaken on its way."""
        with self._lock:
            if generation < self._generation:
                raise InvalidInput(f"assignment {generation} is older than {self._generation}")
            self._generation = generation
            self._wanted = {each.spec.name: each for each in assigned}
        self._converge()

    def _converge(self) -> None:
        """Start what is missing, dismiss what is not wanted, forget what has gone."""
        with self._lock:
            for name, tenant in list(self._tenants.items()):
                wanted = self._wanted.get(name)
                if not tenant.alive:
                    del self._tenants[name]
                elif wanted is None or wanted.spec != tenant.spec:
                    tenant.dismiss()  # one with a new recipe comes back with the next look
                else:
                    tenant.hint(wanted)
            for name, wanted in self._wanted.items():
                if name not in self._tenants and not self._ended.is_set():
                    self._tenants[name] = Tenant(wanted, self._folder, self.card.owner, self._lease_s, self._runner)

    def _keep(self) -> None:
        """Renew the leases, and tell the watchdog until when the host may live."""
        while True:
            self._converge()
            tenants = self.tenants()
            for tenant in tenants:
                tenant.renew()
            deadlines = [expires_s for tenant in tenants if (expires_s := tenant.expires_s) is not None]
            try:
                self._watchdog.allow_until(min(deadlines, default=None))
            except OSError as error:
                logger.error("the watchdog of this host is gone (%s); the host ends", error)
                self._ended.set()
                return
            if self._ended.is_set() and not any(tenant.alive for tenant in tenants):
                return
            time.sleep(min(1.0, self._lease_s / 8))

    def _answer(self, kind: str, fields: Body) -> Body:
        if kind == "status":
            return {"status": to_json(self.status(drain=bool(fields.get("drain"))))}
        if kind == "desire":
            self.desire(int(fields["generation"]), tuple(from_json(Assigned, text) for text in fields["applications"]))
            if "measure" in fields:
                self._runner.measure(from_json(MeasurementPlan, str(fields["measure"])))
            if self.managers is not None:
                self.managers.take([str(text) for text in fields.get("messages", [])])
            return {}
        if kind == "end":
            self._ended.set()
            return {}
        raise InvalidInput(f"unknown question {kind!r}")


def desire_fields(
    generation: int, assigned: list[Assigned], messages: list[str], measure: MeasurementPlan | None = None
) -> Body:
    """The fields of a `desire`."""
    fields: Body = {
        "generation": generation,
        "applications": [to_json(each) for each in assigned],
        "messages": messages,
    }
    return fields if measure is None else {**fields, "measure": to_json(measure)}
