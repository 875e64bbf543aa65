"""A platform of hosts under a scenario: events, schedules, records. The agents of the paper's simulator, as arrays."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tidegate.adapters.sim.events import (
    Event,
    KillNode,
    KillOperator,
    NewNode,
    NewOperator,
    NewSinusOperator,
    ScheduleTasks,
)
from tidegate.adapters.sim.inflow import Arrivals
from tidegate.adapters.sim.network import compile_network
from tidegate.adapters.sim.papermeasures import overload, relative_latency, sum_by, utilisation
from tidegate.adapters.sim.plantstate import CPU, NOWHERE, Flags, Floats
from tidegate.adapters.sim.ratehistory import RateHistory
from tidegate.adapters.sim.result import Recorder
from tidegate.adapters.sim.scenario import Scenario
from tidegate.adapters.sim.scheduling import Situation, assign

_CHUNK_STEPS = 256
_MOST_RECORDS = 1000
_MOST_CELLS = 1_000_000
_HORIZON_RECORDS = 120
_ORDER = {"NewNode": 0, "NewOperator": 1, "NewSinusOperator": 1, "KillNode": 2, "KillOperator": 2, "Schedule": 3}


class Platform:
    """Hosts, tasks and their queues, with the scenario's events on a grid of steps.

    Order of events at the same time: nodes, operators, kills, schedules; within each, the order of the file.
    """

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.network = compile_network(scenario)
        self.plant = self.network.plant(scenario.step_s)
        self.ticks = max(1, round(scenario.duration_s / scenario.step_s))
        self.record_ticks = _record_ticks(
            scenario, self.ticks, len(self.network.hosts) + len(self.network.applications)
        )
        self.schedules: list[dict[str, Any]] = []
        self.applications = Recorder(tuple(spec.name for spec in self.network.applications))
        self.hosts = Recorder(tuple(host.name for host in self.network.hosts))
        self.history = RateHistory(len(self.network.tasks))
        self.alive_s = np.zeros(len(self.network.hosts))
        self._there: Flags = np.zeros(len(self.network.hosts), dtype=np.bool_)
        self._arrivals = Arrivals(self.network.loads)
        self._events = _due(scenario)
        self._recorded_tick = 0
        self._done_per_s = np.zeros(len(self.network.tasks))
        self._parents = np.array([NOWHERE if link.parent is None else link.parent for link in self.network.links])
        self._children = np.array([link.child for link in self.network.links])
        self._sinks = np.diff(self.plant.state.out_from) == 0
        self._external = np.zeros(len(self.network.tasks), dtype=np.bool_)
        self._external[self._children[self._parents == NOWHERE]] = True
        self._asked = (self.plant.state.cost > 0).any(axis=0) | (self.plant.state.fixed > 0).any(axis=0)
        self._begin()

    @property
    def now_s(self) -> float:
        return self.plant.tick * self.scenario.step_s

    @property
    def done(self) -> bool:
        return self.plant.tick >= self.ticks

    def advance_to(self, time_s: float) -> None:
        """Run until `time_s` (to a whole step), or to the end."""
        step_s = self.scenario.step_s
        last = self.ticks if time_s >= self.scenario.duration_s else math.floor(time_s / step_s + 1e-9)
        while self.plant.tick < last:
            while self._events and self._events[0][0] <= self.plant.tick:
                self._happen(self._events.pop(0)[1])
            stops = [last, self.plant.tick + _CHUNK_STEPS, self._recorded_tick + self.record_ticks]
            stops.extend(tick for tick, _ in self._events[:1])
            steps = min(stops) - self.plant.tick
            self.plant.advance(self._arrivals.rows(self.now_s, steps, step_s), step_s)
            self.alive_s[self._there] += steps * step_s
            if self.plant.tick == self._recorded_tick + self.record_ticks or self.done:
                self._record()

    def summary(self) -> dict[str, Any]:
        """Totals and the measures of the paper's model."""
        ledger = self.plant.ledger()
        numbers = self.plant.state.application
        hosts = self.hosts.table()
        applications = self.applications.table()
        used = hosts.columns["utilisation"] > 0
        count = len(self.network.applications)
        out = sum_by(numbers, ledger.processed * self.network.selectivity * self._sinks, count)
        entered = sum_by(numbers, ledger.received * self._external, count)
        queued, flying, dropped = (
            sum_by(numbers, rows, count) for rows in (ledger.queued, ledger.flying, ledger.dropped)
        )
        relative = applications.columns["relative_latency"]
        rates = np.array([host.cost_per_hour for host in self.network.hosts])
        return {
            "throughput_rows_per_s": float(out.sum()) / self.now_s,
            "relative_latency": _mean(relative[np.isfinite(relative)]),
            "utilisation": _mean(hosts.columns["utilisation"][used]),
            "overload": float(hosts.columns["overload"].max(initial=0.0)),
            "used_hosts": int(used.any(axis=0).sum()),
            "cost": float((rates * self.alive_s).sum() / 3600),
            "applications": {
                spec.name: {
                    "rows_in": float(entered[number]),
                    "rows_out": float(out[number]),
                    "queued": float(queued[number]),
                    "in_flight": float(flying[number]),
                    "dropped": float(dropped[number]),
                    "latency": self.plant.latencies(number).summary(),
                }
                for number, spec in enumerate(self.network.applications)
            },
            "hosts": {
                host.name: {
                    "utilisation": _mean(hosts.columns["utilisation"][:, index]),
                    "overload": float(hosts.columns["overload"][:, index].max(initial=0.0)),
                    "alive_s": float(self.alive_s[index]),
                    "cost": float(rates[index] * self.alive_s[index] / 3600),
                }
                for index, host in enumerate(self.network.hosts)
            },
            "schedules": self.schedules,
        }

    # events

    def _begin(self) -> None:
        """Everything listed in the file outside the events exists from the start."""
        arriving = {event.id for event in self.scenario.events if isinstance(event, NewNode)}
        for index, host in enumerate(self.network.hosts):
            if host.name not in arriving:
                self._add_host(index)
        for spec in self.scenario.applications:
            for task in self.network.tasks_of(spec.name):
                self.plant.start(task)

    def _happen(self, event: Event) -> None:
        if isinstance(event, NewNode):
            self._add_host(self.hosts.names.index(event.id))
        elif isinstance(event, NewOperator | NewSinusOperator):
            for task in self.network.tasks_of(event.id):
                self.plant.start(task)
        elif isinstance(event, KillNode):
            host = self.hosts.names.index(event.id)
            self._there[host] = False
            self.plant.state.capacity[host] = 0.0
            self.plant.state.host[self.plant.state.host == host] = NOWHERE
        elif isinstance(event, KillOperator):
            for task in self.network.tasks_of(event.id):
                if self.plant.state.alive[task]:
                    self.plant.kill(task)
        else:
            self._schedule(event.scheduler or self.scenario.scheduler)

    def _add_host(self, host: int) -> None:
        self._there[host] = True
        self.plant.state.capacity[host] = self.network.capacity(host)

    def _schedule(self, scheduler: str) -> None:
        """Let a scheduler place the live tasks on the existing hosts. New tasks start up, moved ones migrate."""
        situation = self.situation()
        chosen = assign(situation, scheduler, self.scenario.seed + len(self.schedules))
        delays, moved = self.scenario.delays, 0
        for task, host in zip(situation.tasks, chosen, strict=True):
            before = int(self.plant.state.host[task])
            if host == before:
                continue
            moved += before != NOWHERE
            delay_s = delays.startup_s if before == NOWHERE else delays.migration_s
            self.plant.place(task, host, delay_s, self.scenario.step_s)
        self.plant.state.delay_ticks[:] = self.network.delays(
            self.plant.state.host, self._parents, self._children, self.scenario.step_s
        )
        self.schedules.append(
            {
                "at_s": self.now_s,
                "scheduler": scheduler,
                "assignment": {
                    self.network.tasks[task].name: self.hosts.names[host]
                    for task, host in zip(situation.tasks, chosen, strict=True)
                    if host != NOWHERE
                },
                "unplaced": [
                    self.network.tasks[task].name
                    for task, host in zip(situation.tasks, chosen, strict=True)
                    if host == NOWHERE
                ],
                "moved": int(moved),
            }
        )

    def situation(self) -> Situation:
        """What a scheduler may know now: demand forecasts, capacities, traffic, and the current assignment."""
        state = self.plant.state
        tasks = tuple(int(task) for task in np.flatnonzero(state.alive))
        hosts = tuple(int(host) for host in np.flatnonzero(self._there))
        demands = self._demands()
        return Situation(
            time_s=self.now_s,
            resources=self.network.resources,
            tasks=tasks,
            task_names=tuple(self.network.tasks[task].name for task in tasks),
            applications=tuple(self.applications.names[state.application[task]] for task in tasks),
            operators=tuple(self.network.operators[task] for task in tasks),
            hosts=hosts,
            host_names=tuple(self.hosts.names[host] for host in hosts),
            regions=tuple(self.network.hosts[host].region for host in hosts),
            cost_per_hour=tuple(self.network.hosts[host].cost_per_hour for host in hosts),
            capacity=state.capacity[list(hosts)],
            demand=tuple(demands.get(task) for task in tasks),
            current=tuple(int(state.host[task]) for task in tasks),
            traffic=self._traffic(tasks),
            delays_s={distance.between: distance.delay_s for distance in self.scenario.regions},
        )

    def _demands(self) -> dict[int, Floats]:
        """The demand of each task in the coming records: `RR` of its forecast rows.

        External input is forecast from measurements. Inner flows are derived from it by the weights of their links. If
        they were measured, they would be zero wherever a parent has no host, which would mislead the scheduler.
        """
        state, flows = self.plant.state, dict[int, Floats]()
        for task in self.network.order:
            if self._external[task]:
                measured = self.history.forecast(task, _HORIZON_RECORDS)
                if measured is not None:
                    flows[task] = measured
                continue
            for link in range(state.links_from[task], state.links_from[task + 1]):
                parent = int(self._parents[link])
                if parent in flows and state.alive[parent]:
                    flows[task] = flows.get(task, np.zeros(_HORIZON_RECORDS)) + flows[parent] * state.weight[link]
        return {task: np.asarray(flow[:, None] * state.cost[task] + state.fixed[task]) for task, flow in flows.items()}

    def _traffic(self, tasks: tuple[int, ...]) -> dict[tuple[int, int], float]:
        """Rows per second from task to task, based on the sender's latest record."""
        alive = set(tasks)
        done = self._done_per_s
        return {
            (link.parent, link.child): float(done[link.parent] * link.weight)
            for link in self.network.links
            if link.parent is not None and link.parent in alive and link.child in alive
        }

    # records

    def _record(self) -> None:
        state = self.plant.state
        span_s = (self.plant.tick - self._recorded_tick) * self.scenario.step_s
        self._recorded_tick = self.plant.tick
        number, count, hosts = state.application, len(self.network.applications), len(self._there)
        ledger = self.plant.ledger()
        relative = np.where(state.alive, relative_latency(state.recent_load, state.recent_done), 0.0)
        alive = np.maximum(1.0, sum_by(number, state.alive.astype(np.float64), count))
        self._done_per_s = state.recent_done / span_s
        self.applications.record(
            self.now_s,
            rows_in_per_s=sum_by(number, state.recent_in * self._external, count) / span_s,
            rows_out_per_s=sum_by(number, self._done_per_s * self.network.selectivity * self._sinks, count),
            queued=sum_by(number, ledger.queued, count),
            in_flight=sum_by(number, ledger.flying, count),
            relative_latency=sum_by(number, relative, count) / alive,
        )
        offered = state.capacity[:, self._asked] * span_s
        placed = state.host >= 0
        arriving = np.where(placed, state.recent_in * state.cost[:, CPU], 0.0)
        self.hosts.record(
            self.now_s,
            utilisation=utilisation(state.recent_used[:, self._asked], offered),
            overload=overload(state.recent_demand[:, self._asked], offered),
            peak_overload=state.recent_peak,
            cpu_load=sum_by(np.maximum(state.host, 0), arriving, hosts) / span_s,
            cpu=state.capacity[:, CPU],
            tasks=sum_by(np.maximum(state.host, 0), placed.astype(np.float64), hosts),
        )
        self.history.record(state.recent_in / span_s, state.alive)
        self.plant.reset_recent()


def _due(scenario: Scenario) -> list[tuple[int, Event]]:
    events = list(scenario.events)
    if not any(isinstance(event, ScheduleTasks) for event in events):
        events.append(ScheduleTasks(event="Schedule", at_s=0.0))
    due = [(math.ceil(event.at_s / scenario.step_s - 1e-9), event) for event in events]
    return sorted(due, key=lambda entry: (entry[0], _ORDER[entry[1].event]))


def _record_ticks(scenario: Scenario, ticks: int, things: int) -> int:
    if scenario.record_every_s is not None:
        return max(1, round(scenario.record_every_s / scenario.step_s))
    records = min(_MOST_RECORDS, max(50, _MOST_CELLS // max(1, things)))
    return max(1, math.ceil(ticks / records))


def _mean(values: Floats) -> float | None:
    return float(values.mean()) if values.size else None
