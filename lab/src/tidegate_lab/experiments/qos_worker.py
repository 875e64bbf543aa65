"""One class as a separate Spark application: a process that runs its three queries on command.

`python -m tidegate_lab.experiments.qos_worker CLASS OUT` reads commands from its input and answers each with a line of
JSON: `measure` asks how fast the machine is, `run PLAN NAME START_MS WORK` starts the queries, `stop` ends them. The
end of the input ends the process.
"""

from __future__ import annotations

import json
import shutil
import sys
from dataclasses import replace
from pathlib import Path

from pyspark.sql import SparkSession

from tidegate.adapters.spark.attach import Gate, attach
from tidegate.domain import Mode
from tidegate_lab.experiments.qos_classes import start_queries, stop_queries
from tidegate_lab.experiments.qos_plan import APPLICATIONS, PLANS, QosPlan, own_session, policy, work_here


def main() -> None:
    """Serve until the input ends."""
    qos_class, out = sys.argv[1], Path(sys.argv[2])
    spark = own_session(f"tidegate-{qos_class}")
    answer({"ready": qos_class})
    gate: Gate | None = None
    try:
        for line in sys.stdin:
            command, *words = line.split()
            if command == "measure":
                answer({"work": work_here(spark)})
            elif command == "run":
                plan = replace(PLANS[words[0]], work=float(words[3]))
                gate = run(spark, qos_class, plan, words[1], int(words[2]), out)
                answer({"gates": {query.name: query.settings.gate for query in gate.queries()}})
            elif gate is not None:
                gate.settle()
                stop_queries(gate)
                gate.stop()
                answer({"failure": str(gate.failure) if gate.failure else None})
    finally:
        spark.stop()


def run(spark: SparkSession, qos_class: str, plan: QosPlan, name: str, start_ms: int, out: Path) -> Gate:
    """Start the class's queries; their journal is `OUT/NAME-CLASS.db`."""
    store = out / f"{name}-{qos_class}.db"
    for leftover in out.glob(f"{store.name}*"):
        leftover.unlink()
    gate = attach(spark, policy(Mode.OFF, store))
    own = tuple(application for application in APPLICATIONS if application.qos_class == qos_class)
    folder = out / f"{name}-{qos_class}"
    shutil.rmtree(folder, ignore_errors=True)  # checkpoints of an earlier run would be continued
    start_queries(spark, gate, plan.recipes(own, start_ms / 1000), folder)
    return gate


def answer(message: dict[str, object]) -> None:
    print(json.dumps(message), flush=True)


if __name__ == "__main__":
    main()
