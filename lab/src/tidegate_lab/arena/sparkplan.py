"""A tournament on Spark: who plays, in which order, and the search for the smallest fixed pool. Knows no Spark.

Every contestant gets the same rows, one after another. A run takes minutes, so only a few play, each once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from tidegate.domain import InvalidInput
from tidegate_lab.arena.judge import STATIC, TIDEGATE, holds
from tidegate_lab.arena.loads import ArenaLoad, part_of
from tidegate_lab.arena.play import Run
from tidegate_lab.arena.program import given_loads
from tidegate_lab.arena.recorded import recorded_load
from tidegate_lab.arena.rivals.catalogue import make
from tidegate_lab.arena.rivals.flink import Flink
from tidegate_lab.arena.rivals.rival import Rival
from tidegate_lab.arena.setting import Setting
from tidegate_lab.arena.tournament import Tournament
from tidegate_lab.experiments.datasets import recorded

DYNAMIC = "spark-dra"
"""On Spark, this is Spark's own dynamic allocation."""
FLINK = "flink"
USUAL = (STATIC, DYNAMIC, "amadeus", FLINK, TIDEGATE)
QUICK = (STATIC, "amadeus", TIDEGATE)
POSSIBLE = (*USUAL, "flink-1min", "dstreams", "ds2", "keda-lag", "dhalion")
"""Controllers that only need what a query reports. The others need the CPU utilisation of each executor."""
PEAK_EXECUTORS = 3
OBJECTIVE_S = 20.0
_DAY = "worldcup98/requests_per_minute.csv"
_FROM_S = (25 * 24 + 6.5) * 3600.0
"""4 am of 26 May 1998; the recording begins on 30 April at 21:30."""
_HOURS, _QUICK_HOURS = 24.0, 10.0
_COMPRESS, _QUICK_COMPRESS = 120.0, 240.0

Told = Callable[[float, float, str], None]
"""Progress callback: runs done, with the played part of the current one; runs in all; what is being played."""


@dataclass(frozen=True, slots=True)
class Contestant:
    """A pool of a fixed size, or a controller."""

    name: str
    executors: int | None = None


class Ground(Protocol):
    """Where runs are played."""

    def play(self, contestant: Contestant, told: Callable[[float, str], None]) -> Run:
        """`told`: the played share of the run, and what it is doing."""
        ...


@dataclass(frozen=True)
class SparkPlan:
    """The setting, the load, the controllers, and the sizes of fixed pools that may be tried."""

    setting: Setting
    load: ArenaLoad
    names: tuple[str, ...] = USUAL
    sizes: tuple[int, ...] = ()
    """Ascending; default: all up to the largest pool."""

    def __post_init__(self) -> None:
        for name in self.names:
            if name not in POSSIBLE:
                raise InvalidInput(f"{name!r} cannot play on Spark; there are {', '.join(POSSIBLE)}")
        for size in self.sizes:
            if not 1 <= size <= self.setting.max_executors:
                raise InvalidInput(f"--sizes: {size} executors; there may be 1 to {self.setting.max_executors}")

    @property
    def fixed_sizes(self) -> tuple[int, ...]:
        return tuple(sorted(set(self.sizes))) or tuple(range(1, self.setting.max_executors + 1))

    @property
    def most_runs(self) -> int:
        """Halving the range of sizes takes at most this many runs."""
        fixed = (len(self.fixed_sizes) - 1).bit_length() + 1 if STATIC in self.names else 0
        return fixed + len([name for name in self.names if name != STATIC])


def chosen_names(rivals: Sequence[str] | None, quick: bool) -> tuple[str, ...]:
    """The fixed pool is always included, because costs are relative to it."""
    names = tuple(rivals) if rivals else QUICK if quick else USUAL
    return tuple(dict.fromkeys((STATIC, *names)))


def chosen_load(specs: Sequence[str] | None, quick: bool, compress: float | None, step_s: float | None) -> ArenaLoad:
    """One load: by default a day of the World Cup's web site, or its rise in the morning."""
    if specs:
        if len(specs) > 1:
            raise InvalidInput(f"--world spark plays one --load at a time, not {len(specs)}")
        return given_loads(specs, "q1", 1, compress, step_s)[0]
    file = recorded(_DAY)
    if file is None:
        raise InvalidInput(f"the recording {_DAY} is not here: set TIDEGATE_DATA, or give --load FILE[:column]")
    whole = recorded_load(f"{file}:count", compress=compress or (_QUICK_COMPRESS if quick else _COMPRESS))
    return part_of(whole, _FROM_S, (_QUICK_HOURS if quick else _HOURS) * 3600, "world-cup-day")


def rival_for(name: str, compress: float) -> Rival:
    """A rival with its defaults. Flink's times are divided by the compression, or a run would be over in a window."""
    return Flink.faster(compress) if name == FLINK else make(name)


def hold_on_spark(plan: SparkPlan, ground: Ground, told: Told = lambda done, total, what: None) -> Tournament:
    """Play everything, one run after another."""
    done = 0

    def play(contestant: Contestant) -> Run:
        nonlocal done
        run = ground.play(
            contestant, lambda share, what: told(done + share, plan.most_runs, f"{contestant.name}: {what}")
        )
        done += 1
        return run

    runs: list[Run] = []
    for name in plan.names:
        runs += _smallest_that_holds(plan, play) if name == STATIC else [play(Contestant(name))]
    return Tournament(plan.setting, (plan.load,), tuple(runs))


def _smallest_that_holds(plan: SparkPlan, play: Callable[[Contestant], Run]) -> list[Run]:
    """The runs of all fixed pools that were tried; first, by its other name, the smallest that holds, else the largest.

    A larger pool is never slower, so the range is halved with every run.
    """
    sizes, played = plan.fixed_sizes, dict[int, Run]()
    low, high = 0, len(sizes) - 1

    def of(place: int) -> Run:
        if place not in played:
            played[place] = play(Contestant(f"static-{sizes[place]}", sizes[place]))
        return played[place]

    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(of(middle), plan.setting) else (middle + 1, high)
    return [replace(of(low), rival=STATIC), *(played[place] for place in sorted(played))]
