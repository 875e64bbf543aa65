"""Reads and writes placement problems as JSON. All errors are reported at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .problem import Host, InvalidInstance, Problem, Task, number_fault

TOP_KEYS = {"hosts", "tasks", "current", "network", "max_migrations"}
HOST_KEYS = {"name", "region", "cost"}  # every other key of a host is a resource
TASK_KEYS = {"name", "traffic", "topology", "component"}  # every other key of a task is a resource
CONSEQUENCES = ("unknown task", "unknown host", "no host offers", "there are no")


def read_instance(document: object) -> Problem:
    """Return the problem that a parsed JSON document describes.

    `network` lists distances between regions: `{"eu": {"us": 2.0}}`. A resource is named by its key on
    hosts; a task's key that is not a resource of any host is therefore unknown.

    >>> document = {"hosts": {"count": 2, "cpu": 500}, "tasks": [{"name": "t", "cpu": [100, 200]}]}
    >>> read_instance(document).hosts[1].name
    'h1'
    >>> read_instance({"hosts": [{"name": "a", "cpu": 1}], "tasks": [{"name": "t", "cpu": -1}], "x": 0})
    Traceback (most recent call last):
        ...
    tidegate.placement.problem.InvalidInstance: unknown key 'x'; task 't': cpu must not be negative, but is -1
    """
    if not isinstance(document, Mapping):
        raise InvalidInstance([f"an instance is an object with 'hosts' and 'tasks', not {type(document).__name__}"])
    faults = [f"unknown key {key!r}" for key in document if key not in TOP_KEYS]
    faults += [f"missing key {key!r}" for key in ("hosts", "tasks") if key not in document]
    hosts = _hosts(document.get("hosts", []), faults)
    offered = {resource for host in hosts for resource in host.capacity}
    tasks = _tasks(document.get("tasks", []), offered, faults)
    distance = _network(document.get("network", {}), {host.region for host in hosts}, faults)
    current = _names(document.get("current", {}), faults)
    cap = document.get("max_migrations")
    if cap is not None and (isinstance(cap, bool) or not isinstance(cap, int)):
        faults.append(f"max_migrations must be a whole number, not {cap!r}")
        cap = None
    problem, unreadable = None, bool(faults)
    try:
        problem = Problem(tuple(hosts), tuple(tasks), distance, current, cap)
    except InvalidInstance as error:
        # Unreadable parts are unknown to the rest. Errors that follow from this would only hide their cause.
        faults += [m for m in error.messages if not (unreadable and any(c in m for c in CONSEQUENCES))]
    if problem is not None:
        faults += [f"task {name!r} fits nowhere: its peak exceeds every host" for name in problem.unplaceable()]
    if faults or problem is None:
        raise InvalidInstance(faults)
    return problem


def write_instance(problem: Problem) -> dict[str, Any]:
    """The JSON document of a problem; reading it gives an equal problem."""
    document: dict[str, Any] = {
        "hosts": [
            {"name": host.name, **host.capacity, "region": host.region, "cost": host.cost} for host in problem.hosts
        ],
        "tasks": [_task_document(task) for task in problem.tasks],
    }
    if problem.current:
        document["current"] = dict(problem.current)
    if problem.distance:
        network: dict[str, dict[str, float]] = {}
        for (one, other), d in problem.distance.items():
            network.setdefault(one, {})[other] = d
        document["network"] = network
    if problem.max_migrations is not None:
        document["max_migrations"] = problem.max_migrations
    return document


def _task_document(task: Task) -> dict[str, Any]:
    document: dict[str, Any] = {"name": task.name}
    for resource, series in task.demand.items():
        values = [float(v) for v in series]  # type: ignore[union-attr]
        document[resource] = values[0] if len(values) == 1 else values
    if task.traffic:
        document["traffic"] = dict(task.traffic)
    if task.topology:
        document["topology"] = task.topology
    if task.component != task.name:
        document["component"] = task.component
    return document


def _hosts(raw: object, faults: list[str]) -> list[Host]:
    if isinstance(raw, Mapping):
        count = raw.get("count")
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            faults.append(f"hosts: 'count' must be a whole number of at least 1, not {count!r}")
            return []
        shared = {key: value for key, value in raw.items() if key not in ("count", "name")}
        prefix = raw.get("name", "h")
        raw = [{**shared, "name": f"{prefix}{h}"} for h in range(count)]
    if not isinstance(raw, list):
        faults.append(f"hosts must be a list or an object with 'count', not {raw!r}")
        return []
    hosts, seen = [], set()
    for at, entry in enumerate(raw):
        if not _entry(entry, f"hosts[{at}]", HOST_KEYS - {"cost"}, faults):
            continue
        capacity = {key: value for key, value in entry.items() if key not in HOST_KEYS}
        try:
            hosts.append(Host(entry["name"], capacity, entry.get("region", "local"), entry.get("cost", 1.0)))
        except InvalidInstance as error:
            # Hosts given by count share the same fault: report it once.
            fresh = [m for m in error.messages if m.split(":", 1)[-1] not in seen]
            seen |= {m.split(":", 1)[-1] for m in error.messages}
            faults += fresh
    return hosts


def _tasks(raw: object, offered: set[str], faults: list[str]) -> list[Task]:
    if not isinstance(raw, list):
        faults.append(f"tasks must be a list, not {raw!r}")
        return []
    tasks = []
    for at, entry in enumerate(raw):
        if not _entry(entry, f"tasks[{at}]", TASK_KEYS - {"traffic"}, faults):
            continue
        name = entry["name"]
        unknown = [key for key in entry if key not in TASK_KEYS and key not in offered]
        if offered:
            known = ", ".join(sorted(offered | TASK_KEYS))
            faults += [f"task {name!r}: unknown key {key!r} (known: {known})" for key in unknown]
        traffic = entry.get("traffic", {})
        if not isinstance(traffic, Mapping):
            faults.append(f"task {name!r}: traffic must be an object of task: rate, not {traffic!r}")
            traffic = {}
        demand = {key: value for key, value in entry.items() if key in offered}
        try:
            tasks.append(Task(name, demand, dict(traffic), entry.get("topology", ""), entry.get("component", "")))
        except InvalidInstance as error:
            faults += error.messages
    named = {entry["name"] for entry in raw if isinstance(entry, Mapping) and isinstance(entry.get("name"), str)}
    if len(tasks) < len(raw):  # otherwise the problem itself finds these
        faults += [
            f"task {task.name!r}: traffic to unknown task {other!r}"
            for task in tasks
            for other in task.traffic
            if other not in named
        ]
    return tasks


def _entry(entry: object, where: str, text_keys: set[str], faults: list[str]) -> bool:
    """Whether `entry` is an object with a name; faults say what is missing."""
    if not isinstance(entry, Mapping):
        faults.append(f"{where} must be an object, not {entry!r}")
        return False
    if "name" not in entry:
        faults.append(f"{where} has no name")
        return False
    wrong = [key for key in sorted(text_keys) if not isinstance(entry.get(key, ""), str)]
    faults += [f"{where}: {key} must be a text, not {entry[key]!r}" for key in wrong]
    return not wrong


def _network(raw: object, regions: set[str], faults: list[str]) -> dict[tuple[str, str], float]:
    if not isinstance(raw, Mapping) or not all(isinstance(row, Mapping) for row in raw.values()):
        faults.append('network must list distances between regions, e.g. {"eu": {"us": 2.0}}')
        return {}
    distance: dict[tuple[str, str], float] = {}
    for one, row in raw.items():
        for other, value in row.items():
            faults += [f"network: no host is in region {r!r}" for r in (one, other) if regions and r not in regions]
            if why := number_fault(value):
                faults.append(f"network distance {one!r} to {other!r} {why}")
            elif distance.get((other, one), value) != value:
                faults.append(f"network distance {one!r} to {other!r} is given twice, differently")
            else:
                distance[one, other] = float(value)
    return distance


def _names(raw: object, faults: list[str]) -> dict[str, str]:
    if not isinstance(raw, Mapping) or not all(isinstance(host, str) for host in raw.values()):
        faults.append("current must be an object of task: host")
        return {}
    return dict(raw)
