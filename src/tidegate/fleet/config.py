"""The fleet's file: regions, how hosts are started, and timing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import Field, ValidationError, model_validator

from tidegate.control.yamlmodel import load_model
from tidegate.domain.policy import Policy
from tidegate.domain.section import PositiveSeconds, Retired, Seconds, Section, Share
from tidegate.fleet.folder import FleetFolder
from tidegate.fleet.plan.replicas import PolicyName

Count = Annotated[int, Field(ge=1)]
_BESIDE_HEAP_MB = 512


class RegionRule(Section):
    """One region."""

    min_hosts: Annotated[int, Field(ge=0)] = Field(1, description="Minimum number of hosts, even when nothing runs.")
    max_hosts: Count = Field(2, description="Maximum number of hosts.")
    price_per_hour: Annotated[float, Field(gt=0)] = Field(1.0, description="Price of one host per hour.")


class HostRule(Section):
    """One host."""

    slots: Count = Field(2, description="Number of tasks that run at once: the number in `local[…]`.")
    master: str | None = Field(None, description="Spark master. Default: local[slots].")
    applications: Count = Field(8, description="Maximum number of applications on one host.")
    memory_mb: Annotated[int, Field(ge=384)] = Field(640, description="Heap size of the driver.")
    cpu_quota: Annotated[float, Field(gt=0)] | None = Field(
        None, description="Maximum CPUs of a host, its JVM and its Python workers together (control groups)."
    )
    memory_limit_mb: int | None = Field(
        None, description="Maximum memory of the same processes. It has to leave room beside the heap."
    )
    settings: dict[str, str] = Field(default_factory=dict, description="Spark settings.")

    @model_validator(mode="after")
    def _heap_fits(self) -> HostRule:
        least = self.memory_mb + _BESIDE_HEAP_MB
        if self.memory_limit_mb is not None and self.memory_limit_mb < least:
            raise ValueError(
                f"memory_limit_mb is {self.memory_limit_mb}; give at least {least}: memory_mb ({self.memory_mb}) and "
                f"{_BESIDE_HEAP_MB} for the rest of the JVM and the Python workers"
            )
        return self


class ProviderRule(Section):
    """How hosts are started."""

    kind: str = Field(
        "local", description="local: processes here; commands: your own commands; or a plugged-in provider."
    )
    start: str = Field("", description="Command that starts a host. Its last line of output is the handle.")
    stop: str = Field("", description="Command that stops a host.")
    alive: str = Field("", description="Command that exits with 0 while the host lives. Without it, this is unknown.")


class TlsRule(Section):
    """Certificates of this machine. Every host and the centre need their own, all signed by the same authority."""

    authority: str = Field(description="File with the certificate of the signing authority (PEM).")
    certificate: str = Field(description="File with this machine's certificate (PEM).")
    key: str = Field(description="File with the private key (PEM, mode 0600).")


class TimingRule(Section):
    """Intervals and timeouts."""

    poll_s: PositiveSeconds = Field(1.0, description="Interval of the centre's steps.")
    measure_s: PositiveSeconds = Field(1.0, description="Interval at which every host measures its applications.")
    lease_s: PositiveSeconds = Field(8.0, description="Lease duration. Recovery from a lost host takes 25 % longer.")
    lost_after_s: PositiveSeconds = Field(5.0, description="A host counts as away after this long without an answer.")
    start_limit_s: PositiveSeconds = Field(90.0, description="A new host that does not answer by then is given up.")
    move_pause_s: Seconds = Field(60.0, description="Minimum time between two moves that the centre initiates.")
    spare_s: Seconds = Field(60.0, description="How long a host must be empty before it is removed.")


class ManagerRule(Section):
    """Settings of the managers; see docs/fleet.md."""

    policy: PolicyName = Field(
        "threshold",
        description="Policy that sets the tasks of each operator: threshold, q-learning or model-based; or operators, "
        "as in a single job.",
    )
    period_s: PositiveSeconds = Field(5.0, description="Interval of a manager's steps.")
    silence_s: PositiveSeconds = Field(15.0, description="The centre counts as silent after this long.")
    allowance: Annotated[int, Field(ge=0)] = Field(
        2, description="Tasks an operator may add while the centre is silent."
    )
    alone_pause_s: Seconds = Field(20.0, description="Minimum time between two such changes of an application.")
    spare: Annotated[float, Field(ge=0, lt=1)] = Field(0.2, description="Spare capacity of a region, in hosts.")
    tokens: Annotated[float, Field(ge=1)] = Field(3.0, description="Changes of an application allowed in a burst.")
    refill_s: PositiveSeconds = Field(30.0, description="Seconds until one more change is allowed after that.")


class FleetConfig(Section):
    """The whole file."""

    retired: ClassVar[Retired] = {
        "applications": "write it under policy: the hosts of a fleet have a whole policy now",
    }

    regions: dict[str, RegionRule] = Field(default_factory=lambda: {"local": RegionRule(min_hosts=1, max_hosts=2)})
    most_hosts: Count = Field(4, description="Maximum number of hosts in all regions together.")
    most_cost_per_hour: Annotated[float, Field(gt=0)] | None = Field(
        None, description="Maximum cost per hour of the hosts in all regions together."
    )
    host: HostRule = Field(default_factory=HostRule)
    provider: ProviderRule = Field(default_factory=ProviderRule)
    timing: TimingRule = Field(default_factory=TimingRule)
    scheduler: str = Field("tidegate", description="Scheduler that places applications; one of `tidegate schedule`'s.")
    fill: Share = Field(0.8, description="Share of a host's slots that placement may use.")
    managers: ManagerRule = Field(default_factory=ManagerRule)
    tls: TlsRule | None = Field(None, description="Encrypt connections and require certificates; see docs/security.md.")
    policy: Policy = Field(
        default_factory=Policy,
        description="Policy of every host, as for a single job: mode, objectives, classes, knobs, guards, freezes. "
        "Its mode, knobs and freezes also apply to the regions and the centre.",
    )


def load_config(path: Path | None) -> FleetConfig:
    """Read the fleet's file. Without one, the fleet has one region."""
    if path is None:
        return FleetConfig()
    return load_model(path, FleetConfig)


def plain(config: FleetConfig) -> dict[str, Any]:
    """The configuration as plain values that can be read again."""
    return config.model_dump(mode="json", by_alias=True, exclude_unset=True)


def store_config(config: FleetConfig, folder: FleetFolder) -> None:
    """Store the configuration in the fleet's folder, where every host finds it."""
    folder.put(folder.config, json.dumps(plain(config), indent=1).encode())


def stored_config(folder: FleetFolder) -> FleetConfig:
    """The configuration that was last stored, or the defaults."""
    try:
        return FleetConfig.model_validate_json(folder.files.read(folder.config))
    except (OSError, ValidationError):
        return FleetConfig()
