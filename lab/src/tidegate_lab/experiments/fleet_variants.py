"""The paper's four variants of a fleet on Spark, and the figures by which they are compared."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

Sample = Mapping[str, Any]
Floats = npt.NDArray[np.float64]
_GONE = {"lost", "refused"}


@dataclass(frozen=True, slots=True)
class Variant:
    """Which levels are elastic. What is fixed has the size that the peak needs; what is elastic starts small."""

    tasks: bool = True
    hosts: bool = True
    first_tasks: int = 2
    """Tasks of the look-up at the start."""
    first_slots: float = 0.6
    """Slots that an application is placed with. With those of the peak, fixed hosts get one application each."""

    def file(self, fleet: Mapping[str, Any]) -> dict[str, Any]:
        """The fleet's file of this variant: without elastic hosts, every region has its maximum from the start."""
        found = copy.deepcopy(dict(fleet))
        for rule in found["regions"].values():
            if not self.hosts:
                rule["min_hosts"] = rule["max_hosts"]
        return found

    @property
    def words(self) -> tuple[str, ...]:
        """What `tidegate fleet submit` is told besides the recipe."""
        return ("--elastic", "lookup=4") if self.tasks else ()


FOUR_WAYS = {
    "static": Variant(tasks=False, hosts=False, first_tasks=3, first_slots=2.0),
    "application": Variant(tasks=True, hosts=False, first_tasks=1, first_slots=2.0),
    "infrastructure": Variant(tasks=False, hosts=True, first_tasks=3),
    "both": Variant(tasks=True, hosts=True, first_tasks=1),
}


def figures_of(samples: Sequence[Sample], latencies_s: Floats, objective_s: float, slots: int) -> dict[str, Any]:
    """The row of the comparison, from what `FleetRun.watch` has seen and the latency of every row.

    >>> def sample(time_s, tasks):
    ...     app = {"busy_slots": 2.0, "epoch": 1, "tasks": {"lookup": tasks}}
    ...     return {"time_s": time_s, "hosts": {"a": "ready", "b": "ready"}, "applications": {"x": app}}
    >>> seen = [sample(0, 1), sample(1800, 1), sample(3600, 2)]
    >>> found = figures_of(seen, np.array([1.0, 1.0, 1.0, 9.0]), objective_s=5.0, slots=4)
    >>> found["host_hours"], found["utilisation"], found["violation_rate"], found["reconfigurations"]
    (2.0, 0.25, 0.25, 1)
    """
    host_s = busy_s = 0.0
    for before, after in pairwise(samples):
        seconds = after["time_s"] - before["time_s"]
        host_s += seconds * sum(state not in _GONE for state in before["hosts"].values())
        busy_s += seconds * sum(app.get("busy_slots") or 0.0 for app in before["applications"].values())
    return {
        "utilisation": round(busy_s / (slots * host_s), 4) if host_s else 0.0,
        "mean_s": round(float(latencies_s.mean()), 2) if latencies_s.size else None,
        "p99_s": round(float(np.quantile(latencies_s, 0.99)), 2) if latencies_s.size else None,
        "violation_rate": round(float(np.mean(latencies_s > objective_s)), 4) if latencies_s.size else None,
        "host_hours": round(host_s / 3600.0, 4),
        "reconfigurations": restarts(samples),
    }


def restarts(samples: Sequence[Sample]) -> int:
    """Moves and rescales that were seen: a new epoch, or another number of tasks. Both at once are one restart."""
    known: dict[str, tuple[Any, dict[str, int]]] = {}
    count = 0
    for sample in samples:
        for name, app in sample["applications"].items():
            epoch, tasks = app.get("epoch"), app.get("tasks")
            if epoch is None or not tasks:
                continue  # it is being started: what it becomes is seen later
            before, had = known.get(name, (epoch, tasks))
            # A batch need not report every operator, so only those that were seen before can have changed.
            count += before != epoch or any(had.get(one, now) != now for one, now in tasks.items())
            known[name] = epoch, {**had, **tasks}
    return count
