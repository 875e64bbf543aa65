"""Correlates ten million samples of forty metrics on Spark within a laptop's memory, and checks against in-memory
results.

    python benchmarks/correlations.py [--rows N] [--metrics M] [--memory-gb G]

Spark generates the data on the fly: a hidden factor and noise in every column. On a sample of 50 000 rows both engines
compute everything, and the largest difference is printed.
"""

from __future__ import annotations

import argparse
import os
import sys
import threading
import time

import numpy as np
import psutil

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tidegate.adapters.spark.correlations import correlate_frame
from tidegate.analysis.correlation import correlate
from tidegate.history.metrictable import MetricTable


class MostMemory:
    """Peak memory of this process, the JVM and its Python workers together, counting shared pages once."""

    def __init__(self) -> None:
        self.most_bytes = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> MostMemory:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        own = psutil.Process()
        while not self._ended.wait(1.0):
            held = 0
            for process in [own, *own.children(recursive=True)]:
                try:
                    held += process.memory_full_info().pss
                except psutil.Error:
                    continue  # it has ended in the meantime
            self.most_bytes = max(self.most_bytes, held)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--metrics", type=int, default=40)
    parser.add_argument("--memory-gb", type=int, default=2)
    given = parser.parse_args()
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.driver.memory", f"{given.memory_gb}g")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "ERROR")
        .getOrCreate()
    )
    names = [f"m{at}" for at in range(given.metrics)]
    base = spark.range(0, given.rows, numPartitions=16).select(
        *[F.randn(seed).alias(f"hidden{seed}") for seed in range(4)]
    )
    # Each metric follows one of four hidden causes, more or less; every third has a heavy tail.
    made = [
        F.col(f"hidden{at % 4}") * (at % 10 / 10) + F.randn(100 + at) * (1 - at % 10 / 20)
        for at in range(given.metrics)
    ]
    made = [F.exp(column) if at % 3 == 0 else column for at, column in enumerate(made)]
    frame = base.select(*[column.alias(name) for name, column in zip(names, made, strict=True)])

    began_s = time.perf_counter()
    with MostMemory() as memory:
        found = correlate_frame(frame, names)
    seconds = time.perf_counter() - began_s
    cells = given.rows * given.metrics
    print(
        f"{given.rows} × {given.metrics} on Spark, driver of {given.memory_gb} GB: {seconds:.0f} s,"
        f" {cells / seconds:.3g} values/s"
    )
    print(f"all processes together held at most {memory.most_bytes / 2**30:.2f} GB")

    part = frame.limit(50_000).toArrow()
    values = np.column_stack([part[name].to_numpy() for name in names])
    known = correlate(MetricTable("sample", tuple(names), np.arange(float(len(values))), values))
    again = correlate_frame(spark.createDataFrame(part), names)
    for method in ("pearson", "spearman"):
        exact, ours, large = (getattr(each, method).r for each in (known, again, found))
        print(
            f"{method}: Spark and memory on {len(values)} rows differ by at most {np.abs(exact - ours).max():.2g};"
            f" all rows against the sample {np.abs(large - exact).max():.2g} (sampling)"
        )
    spark.stop()


if __name__ == "__main__":
    main()
