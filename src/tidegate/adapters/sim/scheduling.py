"""Connects a simulated platform to the schedulers: monitoring data as a placement problem, and the answer back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tidegate.adapters.sim.plantstate import NOWHERE, Floats
from tidegate.domain import InvalidInput
from tidegate.placement import Host, InvalidInstance, Problem, Task, scheduler, unknown_scheduler
from tidegate.placement.problem import SAME_REGION


@dataclass(frozen=True, slots=True)
class Situation:
    """Everything measured and forecast at the time of a schedule. Tasks and hosts are the plant's indices."""

    time_s: float
    resources: tuple[str, ...]
    tasks: tuple[int, ...]
    task_names: tuple[str, ...]
    applications: tuple[str, ...]
    operators: tuple[str, ...]
    hosts: tuple[int, ...]
    host_names: tuple[str, ...]
    regions: tuple[str, ...]
    cost_per_hour: tuple[float, ...]
    capacity: Floats
    """Hosts × resources."""
    demand: tuple[Floats | None, ...]
    """For each task, coming records × resources: the forecast of its flow as resources; None if nothing is known."""
    current: tuple[int, ...]
    """Current host of each task, or NOWHERE."""
    traffic: Mapping[tuple[int, int], float]
    """Rows per second from task to task."""
    delays_s: Mapping[tuple[str, str], float]
    """Between regions."""

    def problem(self) -> Problem | None:
        """The placement problem of the measured tasks, or None if there are none."""
        measured = [place for place, demand in enumerate(self.demand) if demand is not None]
        if not measured:
            return None
        names = {self.tasks[place]: self.task_names[place] for place in measured}
        host_names = dict(zip(self.hosts, self.host_names, strict=True))
        slowest_s = max(self.delays_s.values(), default=0.0)
        return Problem(
            hosts=tuple(
                Host(name, dict(zip(self.resources, map(float, row), strict=True)), region, cost)
                for name, row, region, cost in zip(
                    self.host_names, self.capacity, self.regions, self.cost_per_hour, strict=True
                )
            ),
            tasks=tuple(
                Task(
                    name=self.task_names[place],
                    demand=self._demand(place),
                    traffic={
                        names[child]: rate
                        for (parent, child), rate in self.traffic.items()
                        if parent == self.tasks[place] and child in names
                    },
                    topology=self.applications[place],
                    component=self.operators[place],
                )
                for place in measured
            ),
            # R-Storm's scale: hosts of one region are 0.5 apart, the farthest regions 1.
            distance={
                pair: SAME_REGION + (1 - SAME_REGION) * delay_s / slowest_s
                for pair, delay_s in self.delays_s.items()
                if slowest_s > 0
            },
            current={
                self.task_names[place]: host_names[self.current[place]]
                for place in measured
                if self.current[place] in host_names
            },
        )

    def _demand(self, place: int) -> dict[str, Floats]:
        demand = self.demand[place]
        if demand is None:
            return {}
        return {name: np.ascontiguousarray(demand[:, column]) for column, name in enumerate(self.resources)}


def assign(situation: Situation, name: str, seed: int) -> tuple[int, ...]:
    """The host of each task: measured tasks by the named scheduler, the others in turn where the fewest tasks are.

    Before anything is measured, every task is placed in turn. Without hosts: NOWHERE.
    """
    if unknown := unknown_scheduler(name):
        raise InvalidInput(unknown)
    if not situation.hosts:
        return (NOWHERE,) * len(situation.tasks)
    try:
        problem = situation.problem()
        chosen: dict[str, str] = {}
        if problem is not None:
            chosen.update(scheduler(name).schedule(problem, np.random.default_rng(seed)).assignment)
    except InvalidInstance as error:
        raise InvalidInput(f"schedule at {situation.time_s:g} s: {error}") from None
    count = dict.fromkeys(situation.host_names, 0)
    for host in chosen.values():
        count[host] += 1
    for task in situation.task_names:
        if task not in chosen:
            chosen[task] = min(count, key=count.__getitem__)
            count[chosen[task]] += 1
    indices = dict(zip(situation.host_names, situation.hosts, strict=True))
    return tuple(indices[chosen[task]] for task in situation.task_names)
