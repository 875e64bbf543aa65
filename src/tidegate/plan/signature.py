"""The inputs of a rollout. The last rollout remains valid until one of them changes by more than noise."""

from __future__ import annotations

from tidegate.evaluate.evaluation import ApplicationEvaluation, Evaluation
from tidegate.plan.requirements import requirements_of

_NOISE = 0.05
"""A rollout is not repeated while all of its inputs are within this share of their earlier values."""


def signature_of(evaluation: Evaluation, looked_into: list[ApplicationEvaluation]) -> list[float]:
    """The inputs of a rollout: the pool, its bounds, loads, costs, queues and forecasts."""
    pool, now_s = evaluation.pool, evaluation.time_s
    warm = sum(executor.since_s <= now_s - pool.warmup_s for executor in pool.executors)
    found = [float(pool.requested), float(pool.registered), float(warm), *map(float, evaluation.executor_bounds)]
    for seen in looked_into:
        workload, path, place = seen.workload, seen.path, seen.place
        assert workload is not None
        usual = workload.arrival_rows_per_s * (seen.sample.interval_s + workload.batch_s + 1.0)
        found += [
            workload.expected_rows_per_s,
            workload.cost.row_s,
            workload.cost.batch_s + workload.cost.overhead_s,
            max(workload.pending_rows, usual),
            float(seen.sample.admission_rows or 0),
            100.0 + float(evaluation.budgets.late[place] / max(evaluation.budgets.rows[place], 1.0)),
        ]
        for row in requirements_of(seen, evaluation).rows:
            found += [row.bound_s, 100.0 + row.past]
        found += [] if path is None else [float(path.mean.max()), float(path.upper[:6].max())]
    return found


def alike(signature: list[float], before: list[float]) -> bool:
    """Are all values within the noise?"""
    if len(signature) != len(before):
        return False
    return all(
        abs(now - then) <= _NOISE * max(abs(now), abs(then)) for now, then in zip(signature, before, strict=True)
    )
