"""The plant: tasks with queues on hosts that share their resources. Every simulation here runs on it.

It is independent of controllers, of Spark and of scenario files. Those set its knobs (which tasks are alive, where, how
much capacity) between two calls of `advance`, and read its ledger.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tidegate.adapters.sim.kernels import run
from tidegate.adapters.sim.latencybins import BINS, Latencies
from tidegate.adapters.sim.plantstate import CPU, NOWHERE, Floats, Sizes, State, empty_state
from tidegate.domain.errors import InvalidInput

_SEGMENTS = 128


@dataclass(frozen=True, slots=True)
class PlantTask:
    """One instance of an operator. `cost` and `fixed` have one number per resource, the CPU first."""

    name: str
    application: int
    cost: tuple[float, ...]
    fixed: tuple[float, ...] = ()
    cap: float = np.inf
    greedy: bool = False

    def __post_init__(self) -> None:
        for number in (*self.cost, *self.fixed, self.cap):
            if not number >= 0:
                raise InvalidInput(f"task {self.name}: costs and caps must be at least 0, not {number}")


@dataclass(frozen=True, slots=True)
class Link:
    """One input of a task: from another task, or from outside (`parent` None)."""

    child: int
    parent: int | None = None
    weight: float = 1.0
    delay_ticks: int = 0


@dataclass(frozen=True, slots=True)
class RowCounts:
    """Where every row is, by task: `received = processed + queued + dropped`. `flying` rows are still in transfer."""

    received: Floats
    processed: Floats
    queued: Floats
    flying: Floats
    dropped: Floats


class Plant:
    """A network of tasks, their hosts and their queues.

    >>> plant = Plant([PlantTask("t", 0, cost=(0.1,))], [Link(child=0)], capacity=[[1.0]])
    >>> plant.start(0); plant.place(0, host=0)
    >>> plant.advance(np.array([[30.0], [0.0], [0.0]]), step_s=1.0)  # 30 rows, 10 a second
    >>> plant.latencies(0).summary()["p50_s"], plant.ledger().queued.tolist()
    (2.0, [0.0])
    """

    def __init__(
        self,
        tasks: Sequence[PlantTask],
        links: Sequence[Link],
        capacity: Sequence[Sequence[float]],
        *,
        start_s: float = 0.0,
        segments: int = _SEGMENTS,
    ) -> None:
        resources = len(capacity[0])
        slowest = max((link.delay_ticks for link in links), default=0)
        ordered = sorted(links, key=lambda link: link.child)
        self.now_s = start_s
        self.tick = 0
        self.tasks = tuple(tasks)
        self.sources = sum(link.parent is None for link in ordered)
        sizes = Sizes(
            tasks=len(tasks),
            links=len(ordered),
            hosts=len(capacity),
            resources=resources,
            applications=1 + max((task.application for task in tasks), default=0),
            segments=max(8, segments, 2 * slowest + 8),
            bins=BINS,
        )
        self.state = empty_state(sizes)
        self.state.capacity[:] = capacity
        for index, task in enumerate(tasks):
            self.state.application[index] = task.application
            self.state.cost[index, : len(task.cost)] = task.cost
            self.state.fixed[index, : len(task.fixed)] = task.fixed
            self.state.cap[index] = task.cap
            self.state.greedy[index] = task.greedy
        self._wire(ordered)

    def _wire(self, ordered: Sequence[Link]) -> None:
        state = self.state
        column = 0
        children: list[list[int]] = [[] for _ in self.tasks]
        for index, link in enumerate(ordered):
            state.link_task[index] = link.child
            state.weight[index] = link.weight
            state.delay_ticks[index] = link.delay_ticks
            state.source[index] = -1
            if link.parent is None:
                state.source[index] = column
                column += 1
            else:
                children[link.parent].append(index)
        state.links_from[:] = np.searchsorted(state.link_task, np.arange(len(self.tasks) + 1))
        state.out_from[1:] = np.cumsum([len(links) for links in children])
        leaving = [link for links in children for link in links]
        state.out_link[: len(leaving)] = leaving

    # knobs

    def start(self, task: int) -> None:
        """The task exists from now on. Its rows queue until it has a host."""
        self.state.alive[task] = True
        self.state.active[task] = True

    def kill(self, task: int) -> None:
        """The task is gone. Rows in its queues, and those still in transfer, are dropped and counted."""
        state = self.state
        first, end = state.links_from[task], state.links_from[task + 1]
        lost = state.ripe_rows[first:end].sum()
        flying = state.flying_rows[first:end].sum()
        state.recent_in[task] += flying
        state.dropped[task] += lost + flying
        for rows in (state.ripe_rows, state.flying_rows):
            rows[first:end] = 0.0
        for counts in (state.size, state.ripe, state.head):
            counts[first:end] = 0
        state.alive[task] = False
        state.host[task] = NOWHERE

    def place(self, task: int, host: int, delay_s: float = 0.0, step_s: float = 1.0) -> None:
        """Put a task on a host (or NOWHERE). It serves again after `delay_s`."""
        self.state.host[task] = host
        self.state.start_tick[task] = self.tick + round(delay_s / step_s)

    # time

    def advance(self, arrivals: Floats, step_s: float) -> None:
        """One step for every row of `arrivals` (steps × sources, in rows; sources in the order of their tasks)."""
        if arrivals.size and not 0 <= arrivals.min() <= arrivals.max() < np.inf:
            raise InvalidInput("arrivals must be finite numbers of rows, at least 0")
        rows = np.ascontiguousarray(arrivals, dtype=np.float64)
        run(self.state, rows, float(self.now_s), float(step_s), self.tick)  # one signature, compiled once
        self.now_s += step_s * len(arrivals)
        self.tick += len(arrivals)

    # results

    def queued(self) -> Floats:
        """Rows waiting at each task."""
        return self._by_task(self.state.ripe_rows)

    def processed(self) -> Floats:
        """Rows processed by each task since the start."""
        return self.state.processed + self.state.recent_done

    def ledger(self) -> RowCounts:
        state = self.state
        return RowCounts(
            received=state.received + state.recent_in,
            processed=self.processed(),
            queued=self.queued(),
            flying=self._by_task(state.flying_rows),
            dropped=state.dropped.copy(),
        )

    def latencies(self, application: int) -> Latencies:
        """Latency from entering the platform to leaving it, of every row that has left."""
        rows, sum_s = self.state.latency[application].T
        most = float(self.state.latency_max_s[application]) if rows.any() else None
        return Latencies(rows.copy(), sum_s.copy(), most)

    def reset_recent(self) -> None:
        """Start a new record."""
        state = self.state
        state.received[:] += state.recent_in
        state.processed[:] += state.recent_done
        for values in (
            state.recent_in,
            state.recent_load,
            state.recent_done,
            state.recent_used,
            state.recent_demand,
            state.recent_peak,
        ):
            values[...] = 0.0

    def _by_task(self, of_links: Floats) -> Floats:
        return np.bincount(self.state.link_task, weights=of_links, minlength=len(self.tasks)).astype(np.float64)


__all__ = ["CPU", "NOWHERE", "Link", "Plant", "PlantTask", "RowCounts", "State"]
