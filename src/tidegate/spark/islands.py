"""Runs the islands of a search as Spark tasks; the result depends on the seeds alone, not on where they ran."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

from tidegate.spark.embedded import embedded_session

Map: TypeAlias = Callable[[Callable[[Any], Any], list[Any]], list[Any]]


@contextlib.contextmanager
def spark_engine(executors: int = 1, slots: int = 2) -> Iterator[Map]:
    """A `map` over an embedded cluster, in order; the cluster ends with the block."""
    spark = embedded_session("tidegate-islands", executors, executors, slots)

    def mapped(function: Callable[[Any], Any], items: list[Any]) -> list[Any]:
        return list(spark.sparkContext.parallelize(items, max(1, len(items))).map(function).collect())

    try:
        yield mapped
    finally:
        spark.stop()
