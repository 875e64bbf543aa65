"""The simulated fleet behind the `Cluster` port, three times: one host, the hosts of a region, and the whole fleet."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from tidegate.adapters.sim.fleet import FleetPlant, FleetWindow, SimFleetApplication
from tidegate.domain import (
    Action,
    ActionReceipt,
    AddHost,
    ApplicationSample,
    ArrivalSample,
    BatchSample,
    ExecutorPool,
    ExecutorSample,
    FleetApplication,
    FleetHost,
    FleetSample,
    HostState,
    LatencySample,
    MoveApplication,
    Observation,
    OperatorSample,
    Outcome,
    Receipt,
    RemoveHost,
    Request,
    SetParallelism,
    Standing,
    Targets,
)


@dataclass(frozen=True, slots=True)
class Reported:
    """What a host reports about an application that it runs."""

    load_slots: float | None = None
    latency_p99_s: float | None = None
    changes_alone: int = 0


Report = Callable[[str], Reported]
_TRIGGER_S = 5.0


class Readings:
    """The batches of one window, made once. A window is read as one long batch: only its sums matter."""

    def __init__(self, plant: FleetPlant) -> None:
        self._plant = plant
        self._batches: dict[str, BatchSample] = {}
        self._number = 0

    def take(self, window: FleetWindow) -> None:
        self._number += 1
        quantiles = np.quantile(window.latency_s, (0.5, 0.9, 0.99, 1.0), axis=1).T.tolist()
        served = window.served_rows.tolist()
        for app, latencies in zip(self._plant.spec.applications, quantiles, strict=True):
            self._batches[app.name] = self._batch(app, window, served, latencies)

    def sample(self, application: str, fresh: bool) -> ApplicationSample:
        """The application now; if `fresh`, with the batch of the last window."""
        plant, now_s = self._plant, float(self._plant.time_s)
        batch = self._batches.get(application)
        return ApplicationSample(
            application,
            (batch,) if fresh and batch is not None else (),
            now_s,
            _TRIGGER_S,
            arrival=ArrivalSample(now_s, round(plant.arrived_rows(application))),
            restartable=True,
        )

    def late(self, application: str) -> bool:
        """Was the 99th percentile of the last window over the objective?"""
        latency = self._batches[application].latency
        objective_s = self._plant.spec.applications[self._plant.index[application]].objective_s
        return latency is not None and latency.p99_s > objective_s

    def _batch(
        self, app: SimFleetApplication, window: FleetWindow, served: Sequence[float], latencies: list[float]
    ) -> BatchSample:
        plant, tasks = self._plant, self._plant.tasks_of(app.name)
        operators = []
        for operator in app.operators:
            rows, count = served[plant.position[app.name, operator.name]], tasks[operator.name]
            busy_s = rows * operator.cost_s_per_row + window.seconds * count * plant.spec.task_cores
            operators.append(OperatorSample(operator.name, count, round(rows), busy_s, None, None, None))
        rows = operators[0].rows_in or 0
        p50_s, p90_s, p99_s, most_s = (max(0.0, value) for value in latencies)
        return BatchSample(
            self._number,
            float(window.start_s),
            float(window.seconds),
            rows,
            sum(operator.busy_s for operator in operators),
            0.0,
            round(plant.waiting_rows(app.name)),
            LatencySample(rows, p50_s, p90_s, p99_s, most_s) if rows else None,
            tuple(operators),
        )


class SimHostWorld:
    """The applications on one host. Each window is seen once."""

    def __init__(self, name: str, plant: FleetPlant, readings: Readings) -> None:
        self._name = name
        self._plant = plant
        self._readings = readings
        self.fresh = True
        """Whether the last window has not been observed yet."""

    def applications(self) -> list[str]:
        return [application for application, host in self._plant.host_of.items() if host == self._name]

    def observe(self) -> Observation:
        samples = tuple(self._readings.sample(name, self.fresh) for name in self.applications())
        self.fresh = False
        slots = self._plant.spec.host.slots
        pool = ExecutorPool((ExecutorSample("driver", self._name, slots, 0, 0.0),), 1, slots, scalable=False)
        return Observation(float(self._plant.time_s), samples, pool)

    def converge(self, targets: Targets) -> Receipt:
        receipts = []
        for application in self.applications():
            now, wanted = self._plant.tasks_of(application), targets.parallelism.get(application, {})
            changed = {operator: tasks for operator, tasks in wanted.items() if now[operator] != tasks}
            if changed:
                self._plant.change(application, self._name, {**now, **changed})
                receipts += [
                    ActionReceipt(SetParallelism(application, operator, tasks), Outcome.DONE)
                    for operator, tasks in changed.items()
                ]
        return Receipt(tuple(receipts))

    def release(self) -> None:
        """Restores nothing: the applications keep their tasks."""

    def seen(self, observation: Observation) -> None:
        """Nothing else reads the observations here."""


@dataclass(slots=True)
class SimRegionWorld:
    """The hosts of one region, as they report. Read-only: changes are requested from the centre."""

    region: str
    plant: FleetPlant
    report: Report
    standing: Callable[[], Standing]

    def observe(self) -> Observation:
        fleet = _sample(self.plant, self.report, (self.region,))
        return Observation(float(self.plant.time_s), (), _pool(self.plant), fleet=fleet, standing=self.standing())

    def converge(self, targets: Targets) -> Receipt:
        return Receipt()

    def release(self) -> None:
        """Nothing was changed."""


@dataclass(slots=True)
class SimCentreWorld:
    """The whole fleet. Moves, new hosts and removals take effect at once; changes of tasks are granted to hosts."""

    plant: FleetPlant
    report: Report
    requests: Callable[[], Iterable[Request]]
    speakers: tuple[str, ...]
    grants: dict[str, list[Action]] = field(default_factory=dict)
    numbers: dict[str, int] = field(default_factory=dict)
    """By region, the highest number of a host so far."""

    def observe(self) -> Observation:
        regions = self.plant.spec.regions
        fleet = _sample(self.plant, self.report, regions, tuple(self.requests()), self.numbers, self.speakers)
        return Observation(float(self.plant.time_s), (), _pool(self.plant), fleet=fleet)

    def converge(self, targets: Targets) -> Receipt:
        receipts: list[ActionReceipt] = []
        plant = self.plant
        for application, host in targets.placements.items():
            if plant.host_of.get(application) == host:
                continue
            move = MoveApplication(application, host)
            if plant.is_ready(host):
                plant.change(application, host, plant.tasks_of(application))
                receipts.append(ActionReceipt(move, Outcome.DONE))
            else:
                receipts.append(ActionReceipt(move, Outcome.REFUSED, f"{host} is not ready"))
        for name, region in targets.hosts.items():
            if region is not None and name not in plant.hosts:
                plant.add_host(name, region)
                self.numbers[region] = max(self.numbers.get(region, 0), int(name.rpartition("-")[2]))
                receipts.append(ActionReceipt(AddHost(name, region), Outcome.DONE))
            elif region is None and name in plant.hosts and name not in plant.host_of.values():
                plant.remove_host(name)
                receipts.append(ActionReceipt(RemoveHost(name), Outcome.DONE))
        self.grants = {}
        for application, operators in targets.parallelism.items():
            for operator, tasks in operators.items():
                action = SetParallelism(application, operator, tasks)
                self.grants.setdefault(plant.host_of[application], []).append(action)
                receipts.append(ActionReceipt(action, Outcome.UNDER_WAY))
        return Receipt(tuple(receipts))

    def release(self) -> None:
        """Restores nothing: the fleet goes on as it is without a centre."""


def _pool(plant: FleetPlant) -> ExecutorPool:
    return ExecutorPool((), len(plant.hosts), plant.spec.host.slots, scalable=False)


def _sample(
    plant: FleetPlant,
    report: Report,
    regions: Sequence[str],
    requests: tuple[Request, ...] = (),
    numbers: dict[str, int] | None = None,
    speakers: tuple[str, ...] = (),
) -> FleetSample:
    hosts = tuple(
        FleetHost(
            name,
            host.region,
            plant.spec.host.slots,
            HostState.READY if host.ready_s <= plant.time_s else HostState.STARTING,
        )
        for name, host in plant.hosts.items()
        if host.region in regions
    )
    here = {host.name for host in hosts}
    applications = []
    for app in plant.spec.applications:
        host = plant.host_of[app.name]
        if host in here:
            seen = report(app.name)
            applications.append(
                FleetApplication(
                    app.name,
                    app.region,
                    1.0,
                    host,
                    host,
                    ran=True,
                    load_slots=seen.load_slots,
                    latency_p99_s=seen.latency_p99_s,
                    objective_s=app.objective_s,
                    changes_alone=seen.changes_alone,
                )
            )
    return FleetSample(hosts, tuple(applications), requests, True, dict(numbers or {}), speakers)
