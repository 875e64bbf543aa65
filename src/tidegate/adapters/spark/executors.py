"""The executor pool of a live Spark context: which executors exist, and how to change their number live."""

from __future__ import annotations

from typing import Any

from pyspark import SparkContext


def request_executors(sc: SparkContext, target: int) -> bool:
    """Request `target` executors in total from the cluster manager. True if it accepted the request."""
    no_locality = sc._jvm.PythonUtils.toScalaMap({})  # type: ignore[union-attr]
    return bool(_scala_context(sc).requestTotalExecutors(target, 0, no_locality))


def retire_executors(sc: SparkContext, ids: list[str], target: int) -> None:
    """Kill these executors, then request the target again: a kill lowers it, and a crash would not be replaced."""
    for executor_id in ids:
        _scala_context(sc).killExecutor(executor_id)
    request_executors(sc, target)


def memory_bytes(sc: SparkContext) -> int:
    """Heap of an executor; with a local master, that of the driver."""
    name = "spark.driver.memory" if _scala_context(sc).isLocal() else "spark.executor.memory"
    return int(_scala_context(sc).conf().getSizeAsBytes(name, "1g"))


def dynamic_allocation(sc: SparkContext) -> bool:
    """Does Spark's dynamic allocation control the pool?"""
    return bool(_scala_context(sc).executorAllocationManager().isDefined())


def stop_dynamic_allocation(sc: SparkContext) -> None:
    """Take over the pool from Spark's dynamic allocation: its schedule stops, the executors stay."""
    manager = _scala_context(sc).executorAllocationManager()
    if manager.isDefined():
        manager.get().stop()


def start_dynamic_allocation(sc: SparkContext) -> None:
    """Return the pool to Spark's dynamic allocation after it was taken over."""
    manager = _scala_context(sc).executorAllocationManager()
    if manager.isDefined():
        manager.get().start()


def _scala_context(sc: SparkContext) -> Any:
    return sc._jsc.sc()
