"""The desired state of the cluster. `converge` drives the cluster towards it at every tick."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from tidegate.domain.action import (
    Action,
    AddHost,
    MoveApplication,
    MoveState,
    RemoveHost,
    ScaleExecutors,
    SetAdmission,
    SetBatchInterval,
    SetParallelism,
    SetShare,
)
from tidegate.domain.fleet import FleetSample

K = TypeVar("K")
V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class Targets:
    """The level of every knob that was ever set. Knobs that are not mentioned stay unchanged.

    >>> targets = Targets().after([ScaleExecutors(3), SetAdmission("words", 500)])
    >>> targets.executors, targets.admission
    (3, {'words': 500})
    >>> targets.after([SetAdmission("words", None)]).admission
    {'words': None}
    >>> [str(action) for action in targets.actions()]
    ['executors → 3', 'words: admission → 500 rows per trigger']
    """

    executors: int | None = None
    admission: Mapping[str, int | None] = field(default_factory=dict)
    """Rows per trigger, by application; None removes a limit that was set."""
    parallelism: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Tasks by application and operator."""
    interval_s: Mapping[str, float] = field(default_factory=dict)
    shares: Mapping[str, float] = field(default_factory=dict)
    """Shares of the CPU, by application or class."""
    state: Mapping[str, Mapping[int, str]] = field(default_factory=dict)
    """The executor of each state partition, by application."""
    placements: Mapping[str, str] = field(default_factory=dict)
    """The host of each application of a fleet."""
    hosts: Mapping[str, str | None] = field(default_factory=dict)
    """Hosts of a fleet with their regions; None means that the host should leave."""

    def after(self, actions: Iterable[Action]) -> Targets:
        """Return these targets updated with the actions."""
        limits: dict[str, int | None] = {}  # there may be thousands of actions: copy only once
        moves: dict[str, str] = {}
        targets = self
        for action in actions:
            if isinstance(action, SetAdmission):
                limits[action.application] = action.rows_per_trigger
            elif isinstance(action, MoveApplication) and action.host is not None:
                moves[action.application] = action.host
            else:
                targets = targets._with(action)
        targets = replace(targets, admission={**targets.admission, **limits}) if limits else targets
        return replace(targets, placements={**targets.placements, **moves}) if moves else targets

    def without(self, actions: Iterable[Action]) -> Targets:
        """Return these targets without those of the actions, which were refused and are not requested again.

        >>> Targets(executors=3).without([ScaleExecutors(3)]) == Targets()
        True
        """
        targets = self
        for action in actions:
            targets = targets._without(action)
        return targets

    def without_application(self, name: str) -> Targets:
        """Return these targets without those of an application that has ended."""
        return replace(
            self,
            admission=_less(self.admission, name),
            parallelism=_less(self.parallelism, name),
            interval_s=_less(self.interval_s, name),
            state=_less(self.state, name),
            placements=_less(self.placements, name),
        )

    def still_standing(self, fleet: FleetSample) -> Targets:
        """Return these targets without those that the registry has superseded: users move applications, hosts are lost.

        >>> from tidegate.domain.fleet import FleetApplication
        >>> seen = FleetSample((), (FleetApplication("words", None, 1.0, assigned="east-2"),))
        >>> Targets(placements={"words": "east-1"}).still_standing(seen).placements
        {}
        """
        asked, known = {request.action for request in fleet.requests}, fleet.by_name
        placements = {
            name: host
            for name, host in self.placements.items()
            if (one := known.get(name)) is not None and one.assigned == host
        }
        parallelism = {
            name: {
                operator: tasks for operator, tasks in wanted.items() if SetParallelism(name, operator, tasks) in asked
            }
            for name, wanted in self.parallelism.items()
        }
        return replace(
            self,
            placements=placements,
            hosts={name: region for name, region in self.hosts.items() if name in fleet.host_by_name},
            parallelism={name: operators for name, operators in parallelism.items() if operators},
        )

    def actions(self) -> tuple[Action, ...]:
        """Return every target as an action, for receipts and display."""
        found: list[Action] = [] if self.executors is None else [ScaleExecutors(self.executors)]
        found += [SetAdmission(name, rows) for name, rows in self.admission.items()]
        found += [
            SetParallelism(name, operator, tasks)
            for name, operators in self.parallelism.items()
            for operator, tasks in operators.items()
        ]
        found += [SetBatchInterval(name, interval_s) for name, interval_s in self.interval_s.items()]
        found += [SetShare(group, share) for group, share in self.shares.items()]
        found += [
            MoveState(name, partition, executor)
            for name, partitions in self.state.items()
            for partition, executor in partitions.items()
        ]
        found += [MoveApplication(name, host) for name, host in self.placements.items()]
        found += [RemoveHost(name) if region is None else AddHost(name, region) for name, region in self.hosts.items()]
        return tuple(found)

    def _with(self, action: Action) -> Targets:
        match action:
            case ScaleExecutors(target=target):
                return replace(self, executors=target)
            case SetAdmission(application=name, rows_per_trigger=rows):
                return replace(self, admission={**self.admission, name: rows})
            case SetParallelism(application=name, operator=operator, parallelism=tasks):
                operators = {**self.parallelism.get(name, {}), operator: tasks}
                return replace(self, parallelism={**self.parallelism, name: operators})
            case SetBatchInterval(application=name, interval_s=interval_s):
                return replace(self, interval_s={**self.interval_s, name: interval_s})
            case SetShare(group=group, share=share):
                return replace(self, shares={**self.shares, group: share})
            case MoveState(application=name, partition=partition, executor=executor):
                partitions = {**self.state.get(name, {}), partition: executor}
                return replace(self, state={**self.state, name: partitions})
            case MoveApplication(application=name, host=host):
                return self if host is None else replace(self, placements={**self.placements, name: host})
            case AddHost(host=host, region=region):
                return replace(self, hosts={**self.hosts, host: region})
            case RemoveHost(host=host):
                return replace(self, hosts={**self.hosts, host: None})

    def _without(self, action: Action) -> Targets:
        match action:
            case ScaleExecutors():
                return replace(self, executors=None)
            case SetAdmission(application=name):
                return replace(self, admission=_less(self.admission, name))
            case SetParallelism(application=name, operator=operator):
                operators = _less(self.parallelism.get(name, {}), operator)
                others = _less(self.parallelism, name)
                return replace(self, parallelism={**others, name: operators} if operators else others)
            case SetBatchInterval(application=name):
                return replace(self, interval_s=_less(self.interval_s, name))
            case SetShare(group=group):
                return replace(self, shares=_less(self.shares, group))
            case MoveState(application=name, partition=partition):
                partitions = _less(self.state.get(name, {}), partition)
                others_state = _less(self.state, name)
                return replace(self, state={**others_state, name: partitions} if partitions else others_state)
            case MoveApplication(application=name):
                return replace(self, placements=_less(self.placements, name))
            case AddHost(host=host) | RemoveHost(host=host):
                return replace(self, hosts=_less(self.hosts, host))


def _less(mapping: Mapping[K, V], key: K) -> dict[K, V]:
    return {known: value for known, value in mapping.items() if known != key}
