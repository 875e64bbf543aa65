"""Calibrates the simulator from a recorded run: costs, load, executor start-up, noise.

    busy time of an operator in a batch  =  tasks · overhead of a task  +  rows · cost of a row

is fitted by least squares over the warm batches of the recording. What a recording does not show keeps the simulator's
default. Batches that ran while new executors were cold are left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from statistics import median

import numpy as np
import yaml

from tidegate.adapters.sim.poolspec import PoolApplicationSpec, PoolOperatorSpec, PoolSpec
from tidegate.adapters.sim.scenario import Scenario
from tidegate.domain import BatchSample, InvalidInput
from tidegate.load import Steps
from tidegate.twin.recordedrun import Floats, RecordedQuery, Recording

USUAL_STARTUP_S = 5.0
"""Of executors, if the recording does not show it."""
_LOAD_STEP_S = 2.0
_LEAST_BATCHES = 5
_COLD_FOR_S = 20.0


@dataclass(frozen=True, slots=True)
class OperatorFit:
    """The cost of an operator."""

    cost_s_per_row: float
    task_overhead_s: float
    fitted_s: Floats
    """Busy time of each batch according to these costs."""


def fit_operator(rows: list[float], busy_s: list[float], tasks: int) -> OperatorFit:
    """
    >>> fit = fit_operator([100.0, 200.0, 400.0], [0.6, 1.1, 2.1], tasks=10)
    >>> round(fit.cost_s_per_row, 6), round(fit.task_overhead_s, 6)
    (0.005, 0.01)
    """
    amount, measured = np.array(rows), np.array(busy_s)
    per_row, fixed = float(measured.sum() / max(1.0, amount.sum())), 0.0
    if len(amount) > 2 and amount.std() > 0.02 * amount.mean():
        slope, level = (float(value) for value in np.polyfit(amount, measured, 1))
        if slope <= 0:
            per_row, fixed = 0.0, float(np.median(measured))  # its rows cost nothing beside its tasks
        elif level > 0:
            per_row, fixed = slope, level
    return OperatorFit(per_row, fixed / tasks, per_row * amount + fixed)


def spread(measured_s: Floats, fitted_s: Floats) -> float:
    """Standard deviation of the logarithm of measured ÷ fitted busy time of batches, weighted by it.

    The jitter of short batches is large in proportion, but nobody waits for it.

    >>> round(spread(np.array([0.2, 9.9, 10.1]), np.array([0.1, 10.0, 10.0])), 2)
    0.07
    """
    usable = (measured_s > 0) & (fitted_s > 0)
    measured_s, fitted_s = measured_s[usable], fitted_s[usable]
    if len(measured_s) < 3:
        return 0.0
    off = np.log(measured_s / fitted_s)
    mean = np.average(off, weights=measured_s)
    return float(np.sqrt(np.average((off - mean) ** 2, weights=measured_s)))


def calibrate(recording: Recording) -> Scenario:
    """Return the scenario of the recorded run, without a controller."""
    fits = {name: _query(query, recording) for name, query in recording.queries.items() if query.batches}
    if not fits:
        raise InvalidInput("the recording contains no batches; record a run with rows first")
    return Scenario(
        name="twin",
        duration_s=round(recording.duration_s, 3),
        pool=PoolSpec(
            executors=recording.registered[0][1],
            slots_per_executor=recording.slots_per_executor,
            startup_s=round(startup_s(recording), 3),
            noise=round(min(0.5, median(spread for _, spread in fits.values())), 4),
            applications=tuple(spec for spec, _ in fits.values()),
        ),
    )


def startup_s(recording: Recording) -> float:
    """Return the median time from requesting executors to their registration; the usual one if the pool never grew."""
    taken = []
    for (time_s, size), (_, before) in zip(recording.requested[1:], recording.requested, strict=False):
        if size <= before:
            continue
        later = [at_s for at_s, _ in recording.requested if at_s > time_s]
        there = next((at_s for at_s, count in recording.registered if at_s >= time_s and count >= size), None)
        if there is not None and (not later or there <= later[0]):
            taken.append(there - time_s)
    return median(taken) if taken else USUAL_STARTUP_S


def to_yaml(scenario: Scenario) -> str:
    """Return the scenario as a file for `tidegate simulate`."""
    return yaml.safe_dump(
        scenario.model_dump(mode="json", exclude_unset=True, warnings=False), sort_keys=False, allow_unicode=True
    )


def _query(query: RecordedQuery, recording: Recording) -> tuple[PoolApplicationSpec, float]:
    warm = [
        batch
        for batch in query.batches
        if batch.rows and not batch.warming and batch.operators and not _beside_new_executors(batch, recording)
    ]
    if len(warm) < _LEAST_BATCHES:
        raise InvalidInput(
            f"{query.name}: only {len(warm)} warm batches with task times were recorded; a twin needs {_LEAST_BATCHES}"
        )
    shape = tuple(operator.name for operator in warm[-1].operators)
    alike = [batch for batch in warm if tuple(operator.name for operator in batch.operators) == shape]
    operators, fitted_s = [], np.zeros(len(alike))
    for place, operator in enumerate(alike[-1].operators):
        seen = [batch.operators[place] for batch in alike]
        rows = [float(batch.rows) for batch in alike]  # each operator counts rows in its own way
        fit = fit_operator(rows, [one.busy_s for one in seen], operator.parallelism)
        operators.append(
            PoolOperatorSpec(
                name=operator.name,
                cost_s_per_row=fit.cost_s_per_row,
                task_overhead_s=fit.task_overhead_s,
                parallelism=operator.parallelism,
            )
        )
        fitted_s += fit.fitted_s
    cold = [_longer(batch, alike) for batch in query.batches if batch.warming]
    spec = PoolApplicationSpec(
        name=query.name,
        load=Steps(rates=_rates(query, recording), step_s=_LOAD_STEP_S),
        operators=tuple(operators),
        interval_s=query.interval_s,
        overhead_s=max(0.0, median(_beside_tasks_s(batch, recording) for batch in alike)),
        cold_s=max(0.0, median(cold)) if cold else 2.0,
    )
    measured_s = np.array([sum(one.busy_s for one in batch.operators) for batch in alike])
    return spec, spread(measured_s, fitted_s)


def _rates(query: RecordedQuery, recording: Recording) -> tuple[float, ...]:
    edges_s = recording.start_s + np.arange(0.0, recording.duration_s + _LOAD_STEP_S, _LOAD_STEP_S)
    return tuple(round(float(rate), 3) for rate in np.diff(query.arrived_by(edges_s)) / _LOAD_STEP_S)


def _beside_new_executors(batch: BatchSample, recording: Recording) -> bool:
    sizes = zip(recording.registered[1:], recording.registered, strict=False)
    grown = [time_s for (time_s, count), (_, before) in sizes if count > before]
    return any(batch.committed_s > time_s - 1 and batch.started_s < time_s + _COLD_FOR_S for time_s in grown)


def _beside_tasks_s(batch: BatchSample, recording: Recording) -> float:
    """How much longer the batch took than the waves of its tasks: planning, commits, and the gaps between stages.

    Beside other queries tasks also wait for slots. Then only what Spark reports as spent outside of the tasks counts.
    """
    if len(recording.queries) > 1:
        return batch.overhead_s or 0.0
    slots = recording.slots_at(batch.started_s)
    waves_s = [one.busy_s / one.parallelism * ceil(one.parallelism / slots) for one in batch.operators]
    return batch.duration_s - sum(waves_s)


def _longer(batch: BatchSample, usual: list[BatchSample]) -> float:
    return (batch.overhead_s or 0.0) - median(one.overhead_s or 0.0 for one in usual)
