"""From a scenario's operators to the plant's tasks and links: instances, routing, resources, regions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from graphlib import TopologicalSorter

import numpy as np

from tidegate.adapters.sim.plant import Link, Plant, PlantTask
from tidegate.adapters.sim.plantstate import Floats, Ints
from tidegate.adapters.sim.scenario import Scenario
from tidegate.adapters.sim.scenariofile import input_names, weight_rows
from tidegate.adapters.sim.scenarioparts import ScenarioApplication, ScenarioHost, ScenarioOperator
from tidegate.domain import InvalidInput
from tidegate.load import LoadProfile


@dataclass(frozen=True, slots=True)
class Network:
    """Everything that can ever exist in a scenario, compiled. Events switch it on and off."""

    resources: tuple[str, ...]
    hosts: tuple[ScenarioHost, ...]
    applications: tuple[ScenarioApplication, ...]
    tasks: tuple[PlantTask, ...]
    operators: tuple[str, ...]
    """The `application.operator` of each task."""
    selectivity: Floats
    """Selectivity of each task."""
    links: tuple[Link, ...]
    loads: tuple[tuple[LoadProfile, float], ...]
    """The load of each external link, and the link's share of it, in the order of their tasks."""
    distance_s: Floats
    """Network delay from host to host."""
    order: tuple[int, ...]
    """Tasks, parents before children."""
    named: Mapping[str, tuple[int, ...]]
    """The tasks of each operator and of each application."""

    def plant(self, step_s: float) -> Plant:
        slowest = round(float(self.distance_s.max(initial=0.0)) / step_s)
        roomy = [Link(link.child, link.parent, link.weight, slowest) for link in self.links]
        plant = Plant(self.tasks, roomy, np.zeros((len(self.hosts), len(self.resources))).tolist())
        plant.state.delay_ticks[:] = 0
        return plant

    def capacity(self, host: int) -> list[float]:
        spec = self.hosts[host]
        return [spec.cpu, *(spec.resources.get(name, 0.0) for name in self.resources[1:])]

    def tasks_of(self, name: str) -> tuple[int, ...]:
        """The tasks of an operator (`application.operator`) or of a whole application."""
        return self.named.get(name, ())

    def delays(self, placed: Ints, parents: Ints, children: Ints, step_s: float) -> Ints:
        """Steps that rows take on each link, given the current hosts of its two ends."""
        here, there = placed[parents], placed[children]
        known = (parents >= 0) & (here >= 0) & (there >= 0)
        return np.where(known, np.rint(self.distance_s[here, there] / step_s), 0).astype(np.int64)


def compile_network(scenario: Scenario) -> Network:
    """Instances of every operator, and the links between them."""
    hosts = scenario.all_hosts()
    applications = scenario.all_applications()
    resources = ("cpu", *sorted({name for host in hosts for name in host.resources}))
    tasks: list[PlantTask] = []
    operators: list[str] = []
    selectivity: list[float] = []
    links: list[Link] = []
    loads: list[tuple[int, LoadProfile, float]] = []
    for number, application in enumerate(applications):
        instances: dict[str, list[int]] = {}
        for operator in application.operators:
            first = len(tasks)
            instances[operator.name] = list(range(first, first + operator.parallelism))
            tasks.extend(_instances(application, number, operator, resources))
            operators.extend([application.full_name(operator)] * operator.parallelism)
            selectivity.extend([operator.selectivity] * operator.parallelism)
        for index, operator in enumerate(application.operators):
            parents = input_names(application.operators, index)
            if not parents:
                for child, share in zip(instances[operator.name], _shares(operator, 0), strict=True):
                    links.append(Link(child))
                    loads.append((child, application.load, share))
            for name in parents:
                for sender, parent in enumerate(instances[name]):
                    for child, share in zip(instances[operator.name], _shares(operator, sender), strict=True):
                        if share > 0:
                            links.append(Link(child, parent, selectivity[parent] * share))
    return Network(
        resources=resources,
        hosts=hosts,
        applications=applications,
        tasks=tuple(tasks),
        operators=tuple(operators),
        selectivity=np.array(selectivity),
        links=tuple(sorted(links, key=lambda link: link.child)),
        loads=tuple((load, share) for _, load, share in sorted(loads, key=lambda entry: entry[0])),
        distance_s=_distances(scenario, hosts),
        order=_order(len(tasks), links),
        named=_named(tasks, operators, applications),
    )


def _named(
    tasks: Sequence[PlantTask], operators: Sequence[str], applications: Sequence[ScenarioApplication]
) -> dict[str, tuple[int, ...]]:
    named: dict[str, list[int]] = {}
    for index, (task, operator) in enumerate(zip(tasks, operators, strict=True)):
        for name in {operator, applications[task.application].name}:
            named.setdefault(name, []).append(index)
    return {name: tuple(indices) for name, indices in named.items()}


def _order(tasks: int, links: list[Link]) -> tuple[int, ...]:
    parents: dict[int, list[int]] = {task: [] for task in range(tasks)}
    for link in links:
        if link.parent is not None:
            parents[link.child].append(link.parent)
    return tuple(TopologicalSorter(parents).static_order())


def _instances(
    application: ScenarioApplication, number: int, operator: ScenarioOperator, resources: tuple[str, ...]
) -> list[PlantTask]:
    cost = operator.cost if isinstance(operator.cost, dict) else {"cpu": operator.cost}
    name = application.full_name(operator)
    for resource in sorted({*cost, *operator.holds} - set(resources)):
        raise InvalidInput(f"{name} needs {resource}, which no host has")
    return [
        PlantTask(
            name=name if operator.parallelism == 1 else f"{name}[{index}]",
            application=number,
            cost=tuple(cost.get(resource, 0.0) for resource in resources),
            fixed=tuple(operator.holds.get(resource, 0.0) for resource in resources),
            cap=np.inf if operator.max_cpu is None else operator.max_cpu,
        )
        for index in range(operator.parallelism)
    ]


def _shares(operator: ScenarioOperator, sender: int) -> list[float]:
    """The part of a sender's rows that goes to each instance."""
    rows = weight_rows(operator)
    if not rows:
        return [1 / operator.parallelism] * operator.parallelism
    row = rows[sender % len(rows)]
    return [weight / sum(row) for weight in row]


def _distances(scenario: Scenario, hosts: tuple[ScenarioHost, ...]) -> Floats:
    regions = sorted({host.region for host in hosts})
    apart = np.zeros((len(regions), len(regions)))
    for distance in scenario.regions:
        one, two = (regions.index(region) for region in distance.between)
        apart[one, two] = apart[two, one] = distance.delay_s
    stands = [regions.index(host.region) for host in hosts]
    return np.asarray(apart[np.ix_(stands, stands)])
