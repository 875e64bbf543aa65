"""Where everything of a fleet lies: one folder that all its hosts and the centre can reach."""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass
from pathlib import Path

from tidegate.domain.codec import from_json, to_json
from tidegate.fleet.lease import LeaseFolder
from tidegate.fleet.state import HostCard, HostSpec


@dataclass(frozen=True, slots=True)
class FleetFolder:
    """Paths, and the two kinds of small files in it."""

    root: Path

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

    def host(self, name: str) -> Path:
        return self.root / "hosts" / name

    def application(self, name: str) -> Path:
        return self.root / "applications" / name

    def checkpoint(self, application: str) -> Path:
        return self.application(application) / "checkpoint"

    def gate(self, application: str, epoch: int) -> Path:
        """A gate for every run: what an earlier run left there cannot hold the next."""
        return self.application(application) / "runs" / f"{epoch:010d}" / "gate.json"

    def lease(self, application: str) -> LeaseFolder:
        return LeaseFolder(self.application(application) / "lease")

    def region_lease(self, region: str) -> LeaseFolder:
        """Whose host speaks for the region."""
        return LeaseFolder(self.root / "regions" / region / "lease")

    def region_state(self, region: str) -> Path:
        """What the region's manager remembers, whichever host it works on."""
        return self.root / "regions" / region / "manager.json"

    def applications(self) -> list[str]:
        """Every application that was ever leased here."""
        return sorted(path.parent.name for path in (self.root / "applications").glob("*/lease"))

    def operators_file(self, application: str) -> Path:
        """What the operators' managers remember, wherever the application runs."""
        return self.application(application) / "operators.json"

    def tasks(self, application: str) -> dict[str, int]:
        """Tasks by operator, as the managers last ordered them: a size moves along with its application."""
        try:
            states = json.loads(self.operators_file(application).read_text())
            return {name.removeprefix(f"{application}."): int(state["target"]) for name, state in states.items()}
        except (OSError, ValueError, KeyError, AttributeError):
            return {}

    def enrol(self, spec: HostSpec) -> None:
        """The centre counts on this host: it is there, or on its way."""
        replace_file(self.host(spec.name) / "member.json", to_json(spec).encode())

    def strike_off(self, host: str) -> None:
        (self.host(host) / "member.json").unlink(missing_ok=True)

    def members(self, region: str) -> list[HostSpec]:
        """The hosts that a region has, those on their way included and those that are leaving not."""
        paths = sorted((self.root / "hosts").glob("*/member.json"))
        specs = []
        for path in paths:
            try:
                specs.append(from_json(HostSpec, path.read_bytes()))
            except (OSError, ValueError):
                continue  # struck off a moment ago
        return [spec for spec in specs if spec.region == region]

    def write_card(self, card: HostCard) -> None:
        replace_file(self.host(card.spec.name) / "card.json", to_json(card).encode())

    def read_card(self, host: str) -> HostCard | None:
        """None where no agent of that name has listened yet."""
        try:
            return from_json(HostCard, (self.host(host) / "card.json").read_bytes())
        except (OSError, ValueError):
            return None

    def cards(self) -> list[HostCard]:
        found = (self.read_card(path.parent.name) for path in sorted((self.root / "hosts").glob("*/card.json")))
        return [card for card in found if card is not None]

    def remove_card(self, card: HostCard) -> None:
        """Take it back, unless a newer start of the host has replaced it."""
        present = self.read_card(card.spec.name)
        if present is not None and present.incarnation == card.incarnation:
            (self.host(card.spec.name) / "card.json").unlink(missing_ok=True)


def replace_file(path: Path, body: bytes) -> None:
    """Replace a file in one step, so that nobody ever reads half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f"{path.name}.{uuid.uuid4().hex}.draft")
    draft.write_bytes(body)
    draft.replace(path)
