"""The overhead of Tidegate on a running job: the driver's CPU with and without it, in one run.

A WordCount query runs all the time. Tidegate is attached and stopped in turns, at a 1 s interval. Only the driver's two
processes (Python and the JVM) are measured, because the executors do the same work either way.

    python benchmarks/overhead.py --turns 5 --seconds 20
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

import psutil

from tidegate.adapters.spark.attach import attach
from tidegate.adapters.spark.embedded import embedded_session
from tidegate.adapters.spark.restartablequery import RestartableQuery
from tidegate.adapters.spark.settings import Settings
from tidegate.adapters.spark.source import TidegateSource
from tidegate.load import Constant
from tidegate_lab.workloads.wordcount import WordCount


def driver_cpu_s() -> float:
    """CPU seconds of this process and of the driver's JVM so far (its children are executors and readers)."""
    me = psutil.Process()
    jvms = [child for child in me.children() if "java" in child.name()]
    return sum(sum(process.cpu_times()[:2]) for process in [me, *jvms])


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--turns", type=int, default=5)
    arguments.add_argument("--seconds", type=float, default=20.0)
    arguments.add_argument("--mode", default="apply", choices=["off", "recommend", "apply"])
    options = arguments.parse_args()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = embedded_session("overhead", executors=1, most_executors=1, slots=2)
    spark.dataSource.register(TidegateSource)
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings("job", gate=f"{folder}/gate.json", checkpoint=f"{folder}/checkpoint")
        job = WordCount(Constant(rate=100), lookup_s=0.002, lookup_tasks=4, count_tasks=2)
        query = RestartableQuery(spark, job.build, settings)
        while (query.query.lastProgress or {"batchId": 0})["batchId"] < 20:  # after most of the JIT compilation
            time.sleep(1)
        shares: dict[str, list[float]] = {"without": [], "with": []}
        policy = {
            "mode": options.mode,
            "interval_s": 1.0,
            "journal": {"path": f"{folder}/journal.db"},
            "executors": {"max": 1},
        }
        with attach(spark, policy):  # the first seconds are dominated by JIT compilation
            time.sleep(options.seconds)
        for turn in range(options.turns):
            for name in ("without", "with") if turn % 2 == 0 else ("with", "without"):
                gate = attach(spark, policy) if name == "with" else None
                time.sleep(2)  # attaching itself is not measured
                began_s, used_s = time.monotonic(), driver_cpu_s()
                time.sleep(options.seconds)
                share = (driver_cpu_s() - used_s) / (time.monotonic() - began_s)
                if gate is not None:
                    gate.stop()
                shares[name].append(share)
                print(f"turn {turn + 1}, {name} Tidegate: driver uses {share:.1%} of a core", file=sys.stderr)
        query.query.stop()
    spark.stop()
    without, attached = (statistics.median(shares[name]) for name in ("without", "with"))
    result = {
        "without_share_of_core": round(without, 4),
        "with_share_of_core": round(attached, 4),
        "ratio": round(attached / without, 4),
        "overhead_share_of_core": round(attached - without, 4),
        "turns": options.turns,
        "seconds_a_turn": options.seconds,
    }
    print(json.dumps(result, indent=2))
    Path("out").mkdir(exist_ok=True)
    Path("out/overhead.json").write_text(json.dumps({**result, "shares": shares}, indent=1))


if __name__ == "__main__":
    main()
