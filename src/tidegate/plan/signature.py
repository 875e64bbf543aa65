"""The inputs of a rollout. The last rollout remains valid until a goal changes, or a measurement by more than noise."""

from __future__ import annotations

from tidegate.evaluate.evaluation import ApplicationEvaluation, Evaluation
from tidegate.plan.requirements import requirements_of

_NOISE = 0.05
"""A rollout is not repeated while all of its inputs are within this share of their earlier values."""


def goals_of(evaluation: Evaluation, looked_into: list[ApplicationEvaluation]) -> str:
    """What the policy asks of these applications. Policies are read again while a job runs, and across restarts."""
    return repr(
        [
            (
                seen.name,
                seen.objective,
                float(evaluation.promises.weight[seen.place]),
                [(row.row, row.share) for row in needs.rows],
                needs.graphs,
            )
            for seen in looked_into
            for needs in (requirements_of(seen, evaluation),)
        ]
    )


def signature_of(evaluation: Evaluation, looked_into: list[ApplicationEvaluation]) -> list[float]:
    """The measurements behind a rollout: the pool, its bounds, loads, costs, queues and forecasts."""
    pool, now_s = evaluation.pool, evaluation.time_s
    warm = sum(executor.since_s <= now_s - pool.warmup_s for executor in pool.executors)
    found = [float(pool.requested), float(pool.registered), float(warm), *map(float, evaluation.executor_bounds)]
    for seen in looked_into:
        workload, path = seen.workload, seen.path
        assert workload is not None
        usual = workload.arrival_rows_per_s * (seen.sample.interval_s + workload.batch_s + 1.0)
        found += [
            workload.expected_rows_per_s,
            workload.cost.row_s,
            workload.cost.batch_s + workload.cost.overhead_s,
            max(workload.pending_rows, usual),
            float(seen.sample.admission_rows or 0),
        ]
        found += [] if path is None else [float(path.mean.max()), float(path.upper[:6].max())]
    return found


def alike(signature: list[float], before: list[float]) -> bool:
    """Are all values within the noise?"""
    if len(signature) != len(before):
        return False
    return all(
        abs(now - then) <= _NOISE * max(abs(now), abs(then)) for now, then in zip(signature, before, strict=True)
    )
