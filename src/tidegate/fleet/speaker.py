"""The region's manager on one of its hosts: which host speaks for the region is settled by a lease."""

from __future__ import annotations

from tidegate.domain.codec import from_json, to_json
from tidegate.fleet.config import FleetConfig
from tidegate.fleet.figures import SMOOTH_ALREADY
from tidegate.fleet.folder import FleetFolder, replace_file
from tidegate.fleet.lease import Fenced, HeldLease, LeaseWatch
from tidegate.fleet.look import Glance, Lookout
from tidegate.fleet.naming import INFRASTRUCTURE, application_manager, region_manager
from tidegate.fleet.state import HostCard, Phase, RegionWish, Tenancy
from tidegate.managers import (
    HostView,
    Message,
    Numbering,
    RegionManager,
    RegionSettings,
    RegionState,
    RegionView,
    Seat,
    StopHost,
)

_SEAT_PATIENCE_S = 60.0
_HERE = {Phase.STARTING, Phase.RUNNING, Phase.STOPPING}


class RegionSpeaker:
    """Speaks for the region while this host holds the region's lease."""

    def __init__(self, card: HostCard, config: FleetConfig, folder: FleetFolder, token: bytes) -> None:
        self._card = card
        self._config = config
        self._region = card.spec.region
        self._files = folder.region_lease(self._region)
        self._folder = folder
        self._state_file = folder.region_state(self._region)
        self._watch = LeaseWatch()
        self._lookout = Lookout(folder, token)
        self._lease: HeldLease | None = None
        self._state: RegionState | None = None
        self._seats: dict[str, tuple[str, float]] = {}
        self._released: set[str] = set()
        self._said = ""

    @property
    def _speaks(self) -> bool:
        """Is the lease still ours? It may have run out while this host was busy with a rescale."""
        lease = self._lease
        return lease is not None and lease.remaining_s > 0

    @property
    def wish(self) -> RegionWish | None:
        if not self._speaks:
            return None
        seats = {application: host for application, (host, _) in self._seats.items()}
        return RegionWish(self._region, seats, tuple(sorted(self._released)))

    def summary(self) -> dict[str, str]:
        return {region_manager(self._region): self._said} if self._lease is not None else {}

    def keep(self) -> None:
        """Renew the lease, or try to take it over."""
        try:
            if self._lease is not None:
                self._lease.renew()
                return
        except Fenced:
            self._lease = None
        record = self._files.read()
        self._watch.look(record)
        if self._watch.free:
            self._lease = self._files.take(self._card.owner, self._config.timing.lease_s, record)
            self._state = None

    def resign(self) -> None:
        lease, self._lease = self._lease, None
        if lease is not None:
            lease.release()

    def step(self, inbox: list[Message], now_s: float) -> list[Message]:
        if not self._speaks:
            return []
        glances = self._lookout.look(self._region)
        self._forget(glances, now_s)
        view = self._view(glances)
        if not view.hosts:
            return []
        manager = self._manager(glances, len(view.hosts), now_s)
        mine = [message for message in inbox if message.to == manager.name]
        out, commands = manager.step(view, mine, now_s)
        for command in commands:
            if isinstance(command, Seat) and len(command.hosts) == 1:
                self._seats[command.operator] = (next(iter(command.hosts)), now_s)
            elif isinstance(command, StopHost):
                self._released.add(command.host)
        replace_file(self._state_file, to_json(manager.state).encode())
        busy = sum(view.work.values()) / sum(host.cores for host in view.hosts)
        self._said = f"{len(view.hosts)} hosts, {busy:.0%} busy, granted {manager.state.target}"
        return out

    def _manager(self, glances: dict[str, Glance], hosts: int, now_s: float) -> RegionManager:
        name, rule = region_manager(self._region), self._config.regions.get(self._region)
        if self._state is None:
            self._state = self._load(name, hosts, now_s)
        settings = RegionSettings(
            fill=self._config.fill,
            spare=self._config.managers.spare,
            margin=self._config.managers.spare,
            least_hosts=max(1, rule.min_hosts if rule is not None else 1),
            cool_down_s=self._config.timing.spare_s,
            ask_again_s=6 * self._config.managers.period_s,
            silence_s=self._config.managers.silence_s,
            smoothing=SMOOTH_ALREADY,
        )
        applications = {tenancy.spec.name: application_manager(tenancy.spec.name) for _, tenancy in _tenancies(glances)}
        return RegionManager(name, self._state, applications, INFRASTRUCTURE, settings)

    def _load(self, name: str, hosts: int, now_s: float) -> RegionState:
        try:
            return from_json(RegionState, self._state_file.read_bytes())
        except (OSError, ValueError):
            return RegionState(Numbering(name), hosts, hosts, now_s)

    def _view(self, glances: dict[str, Glance]) -> RegionView:
        """An application is one seat on its host, and keeps a share of it busy; the largest host counts as one core."""
        members = [spec for spec in self._folder.members(self._region) if spec.name not in self._released]
        unit = max((spec.slots for spec in members), default=1)
        seated: dict[str, dict[str, int]] = {}
        for host, tenancy in _tenancies(glances):
            seated.setdefault(host, {})[tenancy.spec.name] = 1
        hosts = [
            HostView(
                spec.name,
                spec.slots / unit,
                self._config.host.applications,
                spec.name in glances and glances[spec.name].status is not None,
                seated.get(spec.name, {}),
            )
            for spec in members
        ]
        work = {
            tenancy.spec.name: (tenancy.spec.slots if tenancy.load_slots is None else tenancy.load_slots) / unit
            for _, tenancy in _tenancies(glances)
        }
        return RegionView(hosts, work)

    def _forget(self, glances: dict[str, Glance], now_s: float) -> None:
        """Seats that were taken, or asked for long ago; hosts that have gone."""
        seen = {tenancy.spec.name: host for host, tenancy in _tenancies(glances)}
        self._seats = {
            application: (host, since_s)
            for application, (host, since_s) in self._seats.items()
            if seen.get(application) != host and now_s - since_s < _SEAT_PATIENCE_S
        }
        self._released &= {spec.name for spec in self._folder.members(self._region)}


def _tenancies(glances: dict[str, Glance]) -> list[tuple[str, Tenancy]]:
    """`(host, tenancy)` of every application that is on its host, and not only waiting to be."""
    return [
        (name, tenancy)
        for name, glance in glances.items()
        if glance.status is not None
        for tenancy in glance.status.tenancies
        if tenancy.phase in _HERE
    ]
