"""The fleet's folder, which all its hosts and the centre can reach."""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from tidegate.adapters.spark.gatefile import FENCE
from tidegate.domain.codec import from_json, to_json
from tidegate.domain.epochs import check_epoch
from tidegate.fleet.files import DISK, Files
from tidegate.fleet.lease import KEEP_EPOCHS, LeaseFolder
from tidegate.fleet.ports import REAL_CLOCK, Clock
from tidegate.fleet.vocabulary import HostCard, HostSpec

_KEEP_HOSTS = 20


@dataclass(frozen=True, slots=True)
class FleetFolder:
    """The folder as one machine sees it: paths, small files, and the machine's clock, which times the leases."""

    root: Path
    files: Files = field(default=DISK, compare=False, repr=False)
    clock: Clock = field(default=REAL_CLOCK, compare=False, repr=False)

    @property
    def token(self) -> Path:
        return self.root / "token"

    @property
    def config(self) -> Path:
        return self.root / "fleet.json"

    @property
    def registry(self) -> Path:
        return self.root / "centre" / "registry.db"

    @property
    def centre_lock(self) -> Path:
        return self.root / "centre" / "lock"

    @property
    def centre_log(self) -> Path:
        return self.root / "centre" / "centre.log"

    def logs(self) -> list[Path]:
        """Logs of the centre and the hosts."""
        hosts = (self.host(name) for name in self._names("hosts"))
        return [self.centre_log, *(host / name for host in hosts for name in ("host.log", "spark.log"))]

    def host(self, name: str) -> Path:
        return self.root / "hosts" / name

    def application(self, name: str) -> Path:
        return self.root / "applications" / name

    def checkpoint(self, application: str) -> Path:
        return self.application(application) / "checkpoint"

    def gate(self, application: str, epoch: int) -> Path:
        """Every run has its own gate, so the gate of an earlier run cannot block it."""
        return self.application(application) / "runs" / f"{epoch:010d}" / "gate.json"

    def begin_run(self, application: str, epoch: int) -> None:
        """Before a query starts: record its lease beside its gate, and remove the records of old runs."""
        gate = self.gate(application, epoch)
        fence = {"lease": str(self.lease_path(application)), "epoch": epoch}
        self.put(gate.with_name(FENCE), json.dumps(fence).encode())
        runs = gate.parent.parent
        with contextlib.suppress(OSError):
            for name in self.files.names(runs):
                if name.isdecimal() and int(name) <= epoch - KEEP_EPOCHS:
                    self.files.remove(runs / name)

    def check_epoch(self, application: str, epoch: int) -> None:
        """Raises `StaleEpoch` if a newer run was allowed, `OSError` if the state is unknown."""
        check_epoch(self.files.names(self.lease_path(application)), epoch)

    def lease_path(self, application: str) -> Path:
        return self.root / f"applications/{application}/lease"  # one join: a centre needs thousands of these

    def lease(self, application: str) -> LeaseFolder:
        return LeaseFolder(self.lease_path(application), self.files, self.clock)

    def region_lease(self, region: str) -> LeaseFolder:
        """The lease that decides which host runs the region's manager."""
        return LeaseFolder(self.root / "regions" / region / "lease", self.files, self.clock)

    def region_journal(self, region: str) -> Path:
        """The journal of the region's manager, whichever host it runs on. It contains the manager's memory."""
        return self.root / "regions" / region / "journal.db"

    def host_journal(self, name: str) -> Path:
        return self.host(name) / "journal.db"

    @property
    def centre_journal(self) -> Path:
        return self.root / "centre" / "journal.db"

    def applications(self) -> list[str]:
        """Every application that ever had a lease here."""
        return [name for name in self._names("applications") if self._names(f"applications/{name}/lease")]

    def learned(self, application: str) -> Path:
        """What the operators' policies have learned about an application, on any host."""
        return self.application(application) / "learned.json"

    def enrol(self, spec: HostSpec) -> None:
        """Add a host that exists or is starting to the members."""
        self.put(self.host(spec.name) / "member.json", to_json(spec).encode())

    def strike_off(self, host: str) -> None:
        self.files.remove(self.host(host) / "member.json")

    def members(self, region: str) -> list[HostSpec]:
        """The hosts of a region, including starting ones but not leaving ones."""
        specs = []
        for name in self._names("hosts"):
            try:
                specs.append(from_json(HostSpec, self.files.read(self.host(name) / "member.json")))
            except (OSError, ValueError):
                continue  # removed a moment ago
        return [spec for spec in specs if spec.region == region]

    def write_card(self, card: HostCard) -> None:
        self.put(self.host(card.spec.name) / "card.json", to_json(card).encode())

    def read_card(self, host: str) -> HostCard | None:
        """None if no agent of this name has listened yet."""
        try:
            return _card(self.files.read(self.root / f"hosts/{host}/card.json"))
        except (OSError, ValueError):
            return None

    def cards(self) -> list[HostCard]:
        found = (self.read_card(name) for name in self._names("hosts"))
        return [card for card in found if card is not None]

    def remove_card(self, card: HostCard) -> None:
        """Remove the card, unless a newer start of the host has replaced it."""
        present = self.read_card(card.spec.name)
        if present is not None and present.incarnation == card.incarnation:
            self.files.remove(self.host(card.spec.name) / "card.json")

    def forget_hosts(self, known: set[str]) -> None:
        """Delete the folders of removed hosts, except the newest, which keep their logs."""
        cards = {card.spec.name for card in self.cards()}
        gone = [name for name in self._names("hosts") if name not in known | cards]
        gone.sort(key=_host_number)
        for name in gone[:-_KEEP_HOSTS]:
            self.files.remove(self.host(name))

    def put(self, path: Path, body: bytes) -> None:
        """Replace a small file of the fleet. Its folder is created if needed."""
        self.files.make(path.parent)
        self.files.replace(path, body)

    def _names(self, below: str) -> list[str]:
        try:
            return self.files.names(self.root / below)
        except OSError:
            return []


@lru_cache(maxsize=1 << 12)
def _card(body: bytes) -> HostCard:
    """Cached, because a centre reads every card in every step."""
    return from_json(HostCard, body)


def _host_number(name: str) -> tuple[int, str]:
    """Sorts hosts by age: the hosts of a region are numbered as they are started.

    >>> sorted(["north-west-2", "east-10", "mine", "east-9"], key=_host_number)
    ['mine', 'north-west-2', 'east-9', 'east-10']
    """
    number = name.rpartition("-")[2]
    return (int(number) if number.isdecimal() else 0), name
