"""Islands of the placement search give the same schedule on Spark as on one machine."""

from __future__ import annotations

import numpy as np
from pyspark.sql import SparkSession

from tidegate.adapters.spark.islands import spark_engine
from tidegate.placement import Problem, solve_islands


def test_spark_finds_what_one_machine_finds(spark: SparkSession) -> None:
    rng = np.random.default_rng(5)
    waves = 120 + 60 * np.sin(2 * np.pi * np.arange(40) / 40 + rng.uniform(0, 2 * np.pi, (30, 1, 1)))
    problem = Problem.from_arrays(waves, np.full((20, 1), 500.0))
    seeds, budget = [1, 2, 3], 20_000
    local = solve_islands(problem, seeds, budget)
    assert solve_islands(problem, seeds, budget, spark_engine(spark.sparkContext)) == local
    assert local.feasible
