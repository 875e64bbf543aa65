"""The fleet's file: regions, how hosts are made, and how quickly things are noticed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import Field, ValidationError

from tidegate.control.yamlmodel import load_model
from tidegate.domain.policy import Policy
from tidegate.domain.section import PositiveSeconds, Retired, Seconds, Section, Share
from tidegate.fleet.folder import FleetFolder
from tidegate.fleet.plan.replicas import PolicyName

Count = Annotated[int, Field(ge=1)]


class RegionRule(Section):
    """One region."""

    min_hosts: Annotated[int, Field(ge=0)] = Field(1, description="Hosts that it has even when nothing runs.")
    max_hosts: Count = Field(2, description="Hosts that it may have.")
    price_per_hour: Annotated[float, Field(gt=0)] = Field(1.0, description="What a host costs here in an hour.")


class HostRule(Section):
    """What a host is."""

    slots: Count = Field(2, description="Tasks that it runs at once; the number in `local[…]`.")
    master: str | None = Field(None, description="Spark master; left out: local[slots].")
    applications: Count = Field(8, description="Applications that it takes at most.")
    memory_mb: Annotated[int, Field(ge=384)] = Field(640, description="Heap of its driver.")
    settings: dict[str, str] = Field(default_factory=dict, description="Spark settings.")


class ProviderRule(Section):
    """Who makes hosts."""

    kind: str = Field("local", description="local: processes here; commands: yours; or a provider that is plugged in.")
    start: str = Field("", description="Command that starts a host; its last line of output is the handle.")
    stop: str = Field("", description="Command that ends it.")
    alive: str = Field("", description="Command that exits with 0 while it lives; left out: nobody can tell.")


class TlsRule(Section):
    """Certificates of this machine; every host and the centre need their own, signed by the same authority."""

    authority: str = Field(description="File with the certificate that all others are signed by (PEM).")
    certificate: str = Field(description="File with this machine's certificate (PEM).")
    key: str = Field(description="File with its private key (PEM, mode 0600).")


class TimingRule(Section):
    """How quickly things are noticed."""

    poll_s: PositiveSeconds = Field(1.0, description="The centre's step.")
    measure_s: PositiveSeconds = Field(1.0, description="Every host measures its applications once in so long.")
    lease_s: PositiveSeconds = Field(8.0, description="A lost host's applications wait a quarter longer than this.")
    lost_after_s: PositiveSeconds = Field(5.0, description="Without an answer for so long a host counts as away.")
    start_limit_s: PositiveSeconds = Field(90.0, description="A host that does not answer by then is given up.")
    move_pause_s: Seconds = Field(60.0, description="Between two moves that the centre makes on its own account.")
    spare_s: Seconds = Field(60.0, description="A host has to be empty for so long before it is given back.")


class ManagerRule(Section):
    """How the managers behave; see docs/fleet.md."""

    policy: PolicyName = Field(
        "threshold",
        description="Who says how many tasks an operator gets: threshold, q-learning, model-based; or operators, as in "
        "a single job.",
    )
    period_s: PositiveSeconds = Field(5.0, description="Between two steps of a manager.")
    silence_s: PositiveSeconds = Field(15.0, description="The centre counts as away after so long without a word.")
    allowance: Annotated[int, Field(ge=0)] = Field(2, description="Tasks that an operator may add by itself meanwhile.")
    alone_pause_s: Seconds = Field(20.0, description="Between two changes that an operator makes by itself.")
    spare: Annotated[float, Field(ge=0, lt=1)] = Field(0.2, description="Hosts' worth of room that regions keep free.")
    tokens: Annotated[float, Field(ge=1)] = Field(3.0, description="Changes of an application that may follow at once.")
    refill_s: PositiveSeconds = Field(30.0, description="One more change every so many seconds after that.")


class FleetConfig(Section):
    """The whole file."""

    retired: ClassVar[Retired] = {
        "applications": "write it under policy: the hosts of a fleet have a whole policy now",
    }

    regions: dict[str, RegionRule] = Field(default_factory=lambda: {"local": RegionRule(min_hosts=1, max_hosts=2)})
    most_hosts: Count = Field(4, description="Hosts of all regions together.")
    most_cost_per_hour: Annotated[float, Field(gt=0)] | None = Field(
        None, description="What the hosts of all regions together may cost in an hour."
    )
    host: HostRule = Field(default_factory=HostRule)
    provider: ProviderRule = Field(default_factory=ProviderRule)
    timing: TimingRule = Field(default_factory=TimingRule)
    scheduler: str = Field("tidegate", description="Who places applications; one of `tidegate schedule`'s.")
    fill: Share = Field(0.8, description="Share of a host's slots that placement gives away.")
    managers: ManagerRule = Field(default_factory=ManagerRule)
    tls: TlsRule | None = Field(
        None, description="Encrypt, and let nobody in without a certificate; see docs/security.md."
    )
    policy: Policy = Field(
        default_factory=Policy,
        description="The policy of every host, as for a single job: mode, objectives, classes, knobs, guards, freezes. "
        "Its mode, knobs and freezes hold for regions and the centre too.",
    )


def load_config(path: Path | None) -> FleetConfig:
    """Read the fleet's file; without one, a fleet of one region."""
    if path is None:
        return FleetConfig()
    return load_model(path, FleetConfig)


def plain(config: FleetConfig) -> dict[str, Any]:
    """As it would be written, so that it can be read again."""
    return config.model_dump(mode="json", by_alias=True, exclude_unset=True)


def store_config(config: FleetConfig, folder: FleetFolder) -> None:
    """Leave it where every host finds it."""
    folder.put(folder.config, json.dumps(plain(config), indent=1).encode())


def stored_config(folder: FleetFolder) -> FleetConfig:
    """The fleet's file as it was last brought up; the defaults where it never was."""
    try:
        return FleetConfig.model_validate_json(folder.files.read(folder.config))
    except (OSError, ValidationError):
        return FleetConfig()
