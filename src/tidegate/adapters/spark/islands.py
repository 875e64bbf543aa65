"""Runs the islands of a search as Spark tasks. The result depends only on the seeds, not on where they run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark import SparkContext

from tidegate.placement import Engine


def spark_engine(sc: SparkContext) -> Engine:
    """A `map` over the executors, one task per item, in order."""

    def mapped(function: Callable[[Any], Any], items: list[Any]) -> list[Any]:
        return list(sc.parallelize(items, max(1, len(items))).map(function).collect())

    return mapped
