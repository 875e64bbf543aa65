"""The executor pool of a live Spark context: who is there, and how to have more or fewer without a restart."""

from __future__ import annotations

from typing import Any

from pyspark import SparkContext


def request_executors(sc: SparkContext, target: int) -> bool:
    """Ask the cluster manager for `target` executors in all; True where it took the request."""
    no_locality = sc._jvm.PythonUtils.toScalaMap({})  # type: ignore[union-attr]
    return bool(_scala_context(sc).requestTotalExecutors(target, 0, no_locality))


def retire_executors(sc: SparkContext, ids: list[str], target: int) -> None:
    """End these executors, then ask for the target again: a kill lowers it, and a crash would not be replaced."""
    for executor_id in ids:
        _scala_context(sc).killExecutor(executor_id)
    request_executors(sc, target)


def dynamic_allocation(sc: SparkContext) -> bool:
    """Does Spark's own allocation manager rule the pool?"""
    return bool(_scala_context(sc).executorAllocationManager().isDefined())


def stop_dynamic_allocation(sc: SparkContext) -> None:
    """Take the pool over from Spark's allocation manager: its schedule ends, the executors stay."""
    manager = _scala_context(sc).executorAllocationManager()
    if manager.isDefined():
        manager.get().stop()


def let_tasks_move(sc: SparkContext) -> None:
    """Do not wait for locality: with the default of 3 s a new executor gets no state tasks at all."""
    _scala_context(sc).conf().set("spark.locality.wait", "0s")


def _scala_context(sc: SparkContext) -> Any:
    return sc._jsc.sc()
