"""One job needs everything at once: more tasks for an operator, executors for its peak, and slots that a lower class
uses.

`orders` (class gold) rises from a quiet rate to a peak. Its look-up was declared with one task, which sustains only the
quiet rate, and the pool starts at its minimum. `reports` (class bulk) shares the slots and tolerates a longer delay.
Now and then a file arrives for it, all rows at once, so nothing that has to start first can help. Each proposer solves
one of the three problems, so each alone misses an objective, and so does the autopilot without any one of them. The
policy contains only objectives, classes and bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from tidegate.domain import InvalidInput
from tidegate.domain.policy import Policy
from tidegate.load import Burst, Constant, LoadProfile, Sum

ORDERS, REPORTS = "orders", "reports"
SINGLE = ("pool", "operators", "classes")
OTHERS = ("admission", "interval", "state")
RUNS = ("fixed-min", "fixed-peak", *SINGLE, *(f"without-{name}" for name in SINGLE), "autopilot")
FILE_ROWS, FILE_S = 8000.0, 1.0
"""Rows of a file for `reports`, and how long they take to arrive. On the smallest pool they are 40 s of work."""
MET = 0.01
"""An objective is met if no more than this share of the rows exceeds it."""

Told = Callable[[int, int, str], None]


@dataclass(frozen=True, slots=True)
class Job:
    """A query with a waiting look-up: its cost is slot time."""

    name: str
    qos_class: str
    latency_s: float
    weight: float
    row_s: float
    lookup_tasks: int
    load: LoadProfile


@dataclass(frozen=True, slots=True)
class Scenario:
    """What every run and every world share."""

    jobs: tuple[Job, ...]
    duration_s: float = 300.0
    interval_s: float = 2.0
    slots_per_executor: int = 2
    executors: tuple[int, int] = (1, 6)
    by_hand: int = 12
    """Tasks of the look-up if set by hand with knowledge of the peak."""

    @property
    def objectives_s(self) -> dict[str, float]:
        return {job.qos_class: job.latency_s for job in self.jobs}

    def policy(self, **settings: Any) -> Policy:
        """Objectives, classes and bounds."""
        least, most = self.executors
        return Policy.model_validate(
            {
                "executors": {"min": least, "max": most},
                "classes": {job.qos_class: {"latency_s": job.latency_s, "weight": job.weight} for job in self.jobs},
                "applications": {job.name: {"class": job.qos_class} for job in self.jobs},
                **settings,
            }
        )


def scenario() -> Scenario:
    """The one that is run, simulated and on Spark alike."""
    orders = Sum((Constant(60.0), *(Burst(0.0, 12.5, 80.0 + 4 * step, 110.0 - 6 * step) for step in range(19))))
    reports = Sum((Constant(40.0), *(Burst(0.0, FILE_ROWS / FILE_S, at_s, FILE_S) for at_s in (50.0, 135.0, 210.0))))
    return Scenario(
        (
            Job(ORDERS, "gold", latency_s=10.0, weight=6, row_s=0.01, lookup_tasks=1, load=orders),
            Job(REPORTS, "bulk", latency_s=120.0, weight=1, row_s=0.01, lookup_tasks=12, load=reports),
        )
    )


@dataclass(frozen=True, slots=True)
class Setting:
    """How one run is driven."""

    executors: int
    by_hand: bool = False
    proposers: tuple[str, ...] | None = ()
    """The active proposers: empty for a pool without a controller, None for all."""


@dataclass(frozen=True, slots=True)
class Played:
    """The result: rows by class, and the cost."""

    violation_rate: Mapping[str, float]
    p99_s: Mapping[str, float]
    executor_seconds: float
    reconfigurations: int
    pause_s: float
    rows_lost: int
    rows_doubled: int

    @property
    def holds(self) -> bool:
        return max(self.violation_rate.values()) <= MET


class World(Protocol):
    """Where a scenario is played."""

    def play(self, scenario: Scenario, setting: Setting) -> Played: ...


def setting_of(run: str, scenario: Scenario) -> Setting:
    """Return a run by its name, except fixed-peak, whose size has to be searched for."""
    least = scenario.executors[0]
    if run == "fixed-min":
        return Setting(least)
    if run == "autopilot":
        return Setting(least, proposers=None)
    if run in SINGLE:
        return Setting(least, proposers=(run,))
    left_out = run.removeprefix("without-")
    if left_out not in SINGLE:
        raise InvalidInput(f"unknown run {run!r}; known are {', '.join(RUNS)}")
    return Setting(least, proposers=(*(name for name in SINGLE if name != left_out), *OTHERS))


def smallest_fixed(world: World, scenario: Scenario) -> Played:
    """Find the smallest fixed pool that meets the objectives with parallelism set by hand, or the largest if none
    does. A larger pool is never slower, so the range is halved with every run."""
    least, most = scenario.executors
    played: dict[int, Played] = {}
    while least < most:
        size = (least + most) // 2
        played[size] = world.play(scenario, Setting(size, by_hand=True))
        least, most = (least, size) if played[size].holds else (size + 1, most)
    return played[least] if least in played else world.play(scenario, Setting(least, by_hand=True))


def run(world: World, scenario: Scenario, told: Told, names: tuple[str, ...] = RUNS) -> dict[str, Any]:
    """Play every run; the document that `reproduce together --json` prints."""
    runs = {}
    for done, name in enumerate(names):
        told(done, len(names), name)
        if name == "fixed-peak":
            runs[name] = asdict(smallest_fixed(world, scenario))
        else:
            runs[name] = asdict(world.play(scenario, setting_of(name, scenario)))
    return {"objectives": scenario.objectives_s, "runs": runs}
