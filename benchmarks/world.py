"""Simulator benchmark: how much faster than real time the simulated cluster runs, without the controller.

    python benchmarks/world.py                     a day of one query, and 400 queries in three classes
    python benchmarks/world.py --seconds 3600 --applications 100

Every simulated second is observed and converged once. Runs on one core. Prints JSON: seconds on the clock and of CPU
for one query, and simulated seconds for a CPU-second with many.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from typing import Any

from tidegate.adapters.sim import SimApplication, SimCluster, SimOperator
from tidegate.domain import Targets
from tidegate.load import Constant, Sinusoid

DAY_S = 86_400
CLASSES = {"q1": 0.6, "q2": 0.3, "q3": 0.1}


def one_query() -> tuple[SimCluster, Targets]:
    """Three stages, one of them with state, at a trigger of a second."""
    job = SimApplication(
        "words",
        Sinusoid(baseline=200, amplitude=100, period_s=DAY_S),
        operators=(
            SimOperator("read", 0.0001, 4),
            SimOperator("look-up", 0.004, 16),
            SimOperator("count", 0.0005, 8, stateful=True, state_keys=1000),
        ),
    )
    return SimCluster([job], executors=2, slots_per_executor=2), Targets(executors=2, admission={"words": 2000})


def many_queries(applications: int) -> tuple[SimCluster, Targets]:
    """Two stages each, one with state, on four executors; CPUs, the driver and the shares of three classes at work."""
    jobs = [
        SimApplication(
            f"a{number}",
            Constant(rate=10 + number % 7),
            operators=(SimOperator("map", 0.0004, 2), SimOperator("count", 0.0002, 4, stateful=True)),
            driver_cpu_s=0.02,
        )
        for number in range(applications)
    ]
    groups = {job.name: list(CLASSES)[number % len(CLASSES)] for number, job in enumerate(jobs)}
    cluster = SimCluster(jobs, 4, 4, groups=groups, host_cpus=16, driver_cpus=16)
    return cluster, Targets(shares=CLASSES, admission=dict.fromkeys(groups, 100))


def timed(build: Callable[[], tuple[SimCluster, Targets]], seconds: int) -> dict[str, float]:
    cluster, targets = build()
    clock_s, cpu_s = time.perf_counter(), time.process_time()
    for second in range(1, seconds + 1):
        cluster.clock.sleep_until(float(second))
        cluster.observe()
        cluster.converge(targets)
    clock_s, cpu_s = time.perf_counter() - clock_s, time.process_time() - cpu_s
    return {"simulated_s": seconds, "clock_s": round(clock_s, 2), "cpu_s": round(cpu_s, 2)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=DAY_S, help="simulated seconds of the one query")
    parser.add_argument("--applications", type=int, default=400)
    given = parser.parse_args()
    one = timed(one_query, given.seconds)
    many = timed(lambda: many_queries(given.applications), 20)
    found: dict[str, Any] = {
        "one query": one | {"cpu_s_per_day": round(one["cpu_s"] / given.seconds * DAY_S, 1)},
        f"{given.applications} queries": many | {"times_real_time": round(many["simulated_s"] / many["cpu_s"], 1)},
    }
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
