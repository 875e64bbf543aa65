"""The tasks of a tournament, every rival on every load, played in parallel on all cores."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, field, replace
from multiprocessing import get_context
from typing import Any

from tidegate.domain import InvalidInput
from tidegate_lab.arena.judge import ORACLE, STATIC, TIDEGATE, Summary, best_of, holds, summarise
from tidegate_lab.arena.loads import ArenaLoad
from tidegate_lab.arena.oracle import play_oracle
from tidegate_lab.arena.play import Run, play_rival, play_sizes, play_tidegate
from tidegate_lab.arena.rivals.catalogue import RIVALS
from tidegate_lab.arena.setting import Setting

BEST = "+"
"""Suffix of a rival's name for its best setting per load."""
EVERYBODY = (STATIC, ORACLE, TIDEGATE, *RIVALS)
Told = Callable[[int, int, str], None]
"""Progress callback: done, total, what was finished."""


@dataclass(frozen=True)
class Task:
    """One rival on one load, with all the settings to try."""

    setting: Setting
    load: ArenaLoad
    rival: str
    grid: bool

    def play(self) -> list[Run]:
        if self.rival == TIDEGATE:
            return [play_tidegate(self.setting, self.load)]
        if self.rival == ORACLE:
            found = play_oracle(self.setting, self.load)
            return [found] if found else []
        if self.rival == STATIC:
            return [smallest_static(self.setting, self.load)]
        entry = RIVALS[self.rival]
        tried = entry.settings if self.grid else entry.settings[:1]
        runs = [play_rival(self.setting, self.load, entry.make(**settings), settings) for settings in tried]
        if not self.grid:
            return runs
        best = best_of(runs, self.setting)
        return [runs[0], replace(best, rival=self.rival + BEST)]

    @property
    def weight(self) -> float:
        """Approximate run time: the longest tasks go first."""
        settings = len(RIVALS[self.rival].settings) if self.grid and self.rival in RIVALS else 1
        return self.load.duration_s * {TIDEGATE: 30.0, ORACLE: 15.0, STATIC: 4.0}.get(self.rival, 1.5 * settings)


@dataclass(frozen=True)
class Tournament:
    """The runs, in the order of loads and rivals."""

    setting: Setting
    loads: tuple[ArenaLoad, ...]
    runs: tuple[Run, ...]
    more: Mapping[str, Any] = field(default_factory=dict)
    """More about the setting; on Spark: the world and what was measured in it."""

    @property
    def summary(self) -> dict[str, Summary]:
        return summarise(self.runs, self.setting)

    def to_dict(self) -> dict[str, object]:
        """What `--json` prints. `compress` is one number if all loads share it, otherwise one per load."""
        compress = {load.name: load.compress for load in self.loads}
        every = set(compress.values())
        return {
            "setting": {
                "start_up_s": self.setting.startup_s,
                "warm_up_s": self.setting.warmup_s,
                "objective_s": self.setting.objective_s,
                "compress": every.pop() if len(every) == 1 else compress,
                **self.more,
            },
            "runs": [run.to_dict() for run in self.runs],
            "summary": {rival: summary.to_dict() for rival, summary in self.summary.items()},
        }


def smallest_static(setting: Setting, load: ArenaLoad) -> Run:
    """The smallest constant pool that holds; the largest allowed if none does."""
    least, most = 1, setting.max_executors
    found = play_sizes(setting, load, [], most, STATIC)
    while least < most:
        middle = (least + most) // 2
        tried = play_sizes(setting, load, [], middle, STATIC)
        if holds(tried, setting):
            most, found = middle, tried
        else:
            least = middle + 1
    return found


def chosen(names: Sequence[str] | None) -> tuple[str, ...]:
    """The rivals by name. static-holds and the oracle are always included, because costs are relative to them."""
    for name in names or ():
        if name not in EVERYBODY:
            raise InvalidInput(f"there is no rival {name!r}; there are {', '.join(EVERYBODY)}")
    return tuple(name for name in EVERYBODY if not names or name in names or name in {STATIC, ORACLE})


def hold_tournament(
    setting: Setting,
    loads: Sequence[ArenaLoad],
    rivals: Sequence[str],
    *,
    grid: bool = True,
    cores: int | None = None,
    told: Told = lambda done, total, what: None,
) -> Tournament:
    """Play all tasks. The result of a run does not depend on the number of cores."""
    if setting.model.stateful and ORACLE in rivals:
        rivals = [rival for rival in rivals if rival != ORACLE]
    tasks = [Task(setting, load, rival, grid) for load in loads for rival in rivals]
    order = sorted(range(len(tasks)), key=lambda number: -tasks[number].weight)
    results: dict[int, list[Run]] = {}
    workers = min(cores or os.cpu_count() or 1, len(tasks))
    if workers <= 1:
        for number in order:
            results[number] = tasks[number].play()
            told(len(results), len(tasks), f"{tasks[number].rival} on {tasks[number].load.name}")
    else:
        with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
            waiting: dict[Future[list[Run]], int] = {pool.submit(tasks[number].play): number for number in order}
            while waiting:
                done, _ = wait(waiting, return_when=FIRST_COMPLETED)
                for future in done:
                    number = waiting.pop(future)
                    results[number] = future.result()
                    told(len(results), len(tasks), f"{tasks[number].rival} on {tasks[number].load.name}")
    runs = [run for number in range(len(tasks)) for run in results[number]]
    return Tournament(setting, tuple(loads), tuple(runs))
