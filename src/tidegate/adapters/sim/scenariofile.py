"""Reads and fully checks scenario files. Inconsistencies are listed with their lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypeAlias

import yaml

from tidegate.adapters.sim.events import KillNode, KillOperator, NewNode, NewOperator, NewSinusOperator, ScheduleTasks
from tidegate.adapters.sim.poolspec import PoolApplicationSpec, PoolOperatorSpec
from tidegate.adapters.sim.scenario import Scenario
from tidegate.adapters.sim.scenarioparts import ScenarioApplication, ScenarioOperator
from tidegate.control.yamlmodel import line_of, parse_model, read_text
from tidegate.domain import PolicyInvalid
from tidegate.placement import unknown_scheduler

Operators: TypeAlias = Sequence[ScenarioOperator | PoolOperatorSpec]
Where: TypeAlias = tuple[int | str, ...]
Finding: TypeAlias = tuple[Where, str]


def load_scenario(path: str | Path) -> Scenario:
    """Read a scenario file."""
    return parse_scenario(read_text(path), str(path))


def parse_scenario(text: str, source: str = "scenario") -> Scenario:
    """Read a scenario from YAML text.

    >>> parse_scenario('''
    ... duration_s: 60
    ... hosts: [{name: h, cpu: 4}]
    ... applications:
    ...   - name: clicks
    ...     load: 100
    ...     operators:
    ...       - {name: parse, inputs: [count]}
    ...       - {name: count, inputs: [prase]}
    ... ''')
    Traceback (most recent call last):
    tidegate.domain.errors.PolicyInvalid: scenario: line 9: clicks.count reads prase, which is no operator of clicks
    """
    scenario = parse_model(text, Scenario, source)
    node = yaml.compose(text, Loader=yaml.SafeLoader)
    problems = tuple(f"line {line_of(node, where)}: {message}" for where, message in findings(scenario))
    if problems:
        raise PolicyInvalid(source, problems)
    return scenario


def check(scenario: Scenario) -> None:
    """Refuse an inconsistent scenario, listing all problems."""
    problems = tuple(message for _, message in findings(scenario))
    if problems:
        raise PolicyInvalid(scenario.name, problems)


def findings(scenario: Scenario) -> Iterator[Finding]:
    """All inconsistencies, with their place in the file."""
    if scenario.step_s > scenario.duration_s:
        yield ("step_s",), f"a step of {scenario.step_s:g} s is longer than the whole {scenario.duration_s:g} s"
    if not scenario.all_applications() and scenario.pool is None:
        yield (), "there is nothing to simulate: give applications, events or a pool"
    if scenario.all_applications() and not scenario.all_hosts():
        yield (), "applications need hosts: give hosts, or a NewNode event"
    yield from _repeated(("hosts", index, name) for index, host in enumerate(scenario.hosts) for name in host.names())
    yield from _repeated(("applications", index, spec.name) for index, spec in enumerate(scenario.applications))
    for index, application in enumerate(scenario.applications):
        yield from _operator_findings(("applications", index), application)
    if scenario.pool is not None:
        yield from _repeated(
            ("pool", "applications", index, application.name)
            for index, application in enumerate(scenario.pool.applications)
        )
        for index, query in enumerate(scenario.pool.applications):
            yield from _operator_findings(("pool", "applications", index), query)
    if unknown := unknown_scheduler(scenario.scheduler):
        yield ("scheduler",), unknown
    yield from _resource_findings(scenario)
    yield from _region_findings(scenario)
    yield from _event_findings(scenario)


def _repeated(named: Iterator[Where]) -> Iterator[Finding]:
    seen: set[str] = set()
    for *where, name in named:
        if str(name) in seen:
            yield tuple(where), f"{name} is defined twice"
        seen.add(str(name))


def _operator_findings(where: Where, application: ScenarioApplication | PoolApplicationSpec) -> Iterator[Finding]:
    operators: Operators = application.operators
    names = [operator.name for operator in operators]
    yield from _repeated((*where, "operators", index, f"{application.name}.{name}") for index, name in enumerate(names))
    known = True
    for index, operator in enumerate(operators):
        for name in operator.inputs or ():
            if name not in names:
                known = False
                at = (*where, "operators", index, "inputs")
                yield at, f"{application.name}.{operator.name} reads {name}, which is no operator of {application.name}"
    if known and isinstance(application, ScenarioApplication):
        for index in range(len(names)):
            yield from _routing_findings((*where, "operators", index), application, index)
    if known and (cycle := find_cycle(operators)):
        yield (*where, "operators"), f"{application.name} has a cycle: {' → '.join(cycle)}"
    if isinstance(application, PoolApplicationSpec) and operators[0].inputs:
        yield (*where, "operators", 0), f"{application.name}.{names[0]} comes first, so it can read only the source"


def _routing_findings(where: Where, application: ScenarioApplication, index: int) -> Iterator[Finding]:
    operator = application.operators[index]
    name, at = f"{application.name}.{operator.name}", (*where, "routing", "weights")
    rows = weight_rows(operator)
    if operator.routing.by == "custom" and not rows:
        yield (*where, "routing"), f"{name}: custom routing needs weights"
    for row in rows:
        if len(row) != operator.parallelism:
            yield at, f"{name}: {len(row)} weights for {operator.parallelism} instances"
        elif not sum(row) > 0:
            yield at, f"{name}: some weight must be above 0"
    senders = {spec.name: spec.parallelism for spec in application.operators}
    for parent in input_names(application.operators, index):
        if len(rows) > 1 and len(rows) != senders[parent]:
            yield at, f"{name}: {len(rows)} rows of weights for {senders[parent]} instances of {parent}"


def weight_rows(operator: ScenarioOperator) -> list[tuple[float, ...]]:
    """The weights of a routing: one row per sending instance, or one row for all of them."""
    weights = operator.routing.weights or ()
    rows = [row for row in weights if isinstance(row, tuple)]
    return rows or ([tuple(float(value) for value in weights if not isinstance(value, tuple))] if weights else [])


def input_names(operators: Operators, index: int) -> tuple[str, ...]:
    """The operators that feed operator `index`: as given, otherwise the one before it."""
    given = operators[index].inputs
    if given is not None:
        return given
    return (operators[index - 1].name,) if index else ()


def find_cycle(operators: Operators) -> list[str]:
    """Operators that feed themselves, in order, or an empty list."""
    feeds = {operator.name: input_names(operators, index) for index, operator in enumerate(operators)}
    done: set[str] = set()

    def walk(name: str, path: list[str]) -> list[str]:
        if name in path:
            return [*path[path.index(name) :], name][::-1]
        if name in done:
            return []
        for parent in feeds[name]:
            if cycle := walk(parent, [*path, name]):
                return cycle
        done.add(name)
        return []

    return next((cycle for name in feeds if (cycle := walk(name, []))), [])


def _resource_findings(scenario: Scenario) -> Iterator[Finding]:
    offered = {"cpu"} | {resource for host in scenario.all_hosts() for resource in host.resources}
    for index, application in enumerate(scenario.applications):
        for place, operator in enumerate(application.operators):
            asked = set(operator.holds) | (set(operator.cost) if isinstance(operator.cost, dict) else set())
            for resource in sorted(asked - offered):
                where = ("applications", index, "operators", place)
                yield where, f"{application.name}.{operator.name} needs {resource}, which no host has"


def _region_findings(scenario: Scenario) -> Iterator[Finding]:
    regions = {host.region for host in scenario.all_hosts()}
    for index, distance in enumerate(scenario.regions):
        for region in distance.between:
            if region not in regions:
                yield ("regions", index, "between"), f"no host stands in region {region}"


def _event_findings(scenario: Scenario) -> Iterator[Finding]:
    """Names that are taken or unknown, kills before the start, events after the end."""
    hosts = {name: 0.0 for host in scenario.hosts for name in host.names()}
    operators = {spec.name: 0.0 for spec in scenario.applications}
    operators |= {spec.full_name(operator): 0.0 for spec in scenario.applications for operator in spec.operators}
    for index, event in enumerate(scenario.events):
        if isinstance(event, NewNode | NewOperator | NewSinusOperator):
            born = hosts if isinstance(event, NewNode) else operators
            if event.id in born:
                yield ("events", index, "id"), f"{event.id} is defined twice"
            born.setdefault(event.id, event.at_s)
    for index, event in enumerate(scenario.events):
        where = ("events", index)
        if isinstance(event, KillNode | KillOperator):
            born = hosts if isinstance(event, KillNode) else operators
            if event.id not in born:
                kind = "host" if isinstance(event, KillNode) else "operator (write application.operator)"
                yield (*where, "id"), f"no {kind} is named {event.id}"
            elif event.at_s < born[event.id]:
                message = f"{event.event} at {event.at_s:g} s comes before {event.id} exists ({born[event.id]:g} s)"
                yield (*where, "at_s"), message
        if isinstance(event, ScheduleTasks) and event.scheduler and (unknown := unknown_scheduler(event.scheduler)):
            yield (*where, "scheduler"), unknown
        if event.at_s > scenario.duration_s:
            message = f"{event.event} at {event.at_s:g} s comes after the end ({scenario.duration_s:g} s)"
            yield (*where, "at_s"), message
