"""How much the demonstration varies: its run under Tidegate, several times, each on a cluster of its own.

    python benchmarks/demo_runs.py [--runs N] [--out FOLDER]

Prints every run and its executor-seconds relative to the fixed pool that keeps the objective (`static-peak`). That pool
has its size from the first second to the last, so it is not run again.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
from pathlib import Path
from typing import Any

from tidegate_lab.experiments import demo


def main() -> None:
    """Run the demonstration's load under Tidegate and print what it cost each time."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path("out/demo-runs"), help="where the journals stay")
    given = parser.parse_args()
    found = []
    for number in range(1, given.runs + 1):
        with multiprocessing.get_context("spawn").Pool(1) as process:
            found.append(process.apply(_run, (given.out / str(number),)))
        print(f"run {number}: {found[-1]}", file=sys.stderr, flush=True)
    summary = {key: [min(one[key] for one in found), max(one[key] for one in found)] for key in found[0]}
    print(json.dumps({"runs": found, "ranges": summary}, indent=2))


def _run(folder: Path) -> dict[str, Any]:
    peak = demo.STATIC_SIZES["static-peak"]
    assert peak is not None
    spark = demo.start_cluster()
    try:
        result = demo.run_once(spark, demo.FULL, "tidegate", None, folder, lambda *_: None).result
    finally:
        spark.stop()
    return {
        "over": result.violation_rate,
        "p99_s": result.p99_s,
        "executor_seconds": result.executor_seconds,
        "of_static_peak": round(result.executor_seconds / (peak * demo.FULL.end_s), 3),
        "rows_lost": result.rows_lost,
        "rows_doubled": result.rows_doubled,
        "changes": result.reconfigurations,
    }


if __name__ == "__main__":
    main()
