"""A simulated day of one query under the live controller, with one step per second.

    python benchmarks/day.py                    a whole day
    python benchmarks/day.py --seconds 3600     an hour of it

The time includes the simulator, observing, deciding, converging and saving knowledge. The journal is kept in memory.
Prints JSON: CPU and wall-clock seconds, CPU milliseconds per step, the simulator's share of the time, and the steps in
which candidates were rolled out.
"""

from __future__ import annotations

import argparse
import json
import time
from typing import Any

from tidegate.adapters.sim import SimApplication, SimCluster, SimOperator
from tidegate.control.controller import Controller
from tidegate.control.journal import MemoryJournal
from tidegate.control.policyfile import policy_from
from tidegate.control.runner import Runner
from tidegate.load import Sinusoid

DAY_S = 86_400


class LastStep(MemoryJournal):
    """Keeps only the newest step, so that memory does not affect the measurement."""

    def record(self, *step: Any) -> None:
        super().record(*step)
        del self.entries[:-1]


def query() -> SimApplication:
    """Three stages, one of them with state, under a load that swings every two hours."""
    return SimApplication(
        "words",
        Sinusoid(baseline=300, amplitude=200, period_s=7200),
        operators=(
            SimOperator("read", 0.0001, 4),
            SimOperator("look-up", 0.004, 16),
            SimOperator("count", 0.0005, 8, stateful=True, state_keys=1000),
        ),
    )


def run(seconds: int) -> dict[str, Any]:
    cluster = SimCluster([query()], executors=2, slots_per_executor=1, max_executors=8, seed=1)
    policy = policy_from({"objective": {"latency_s": 15}, "executors": {"min": 1, "max": 8}})
    journal = LastStep()
    runner = Runner(cluster, Controller(policy), cluster.clock, journal, journal)
    world_s, rolled_out = 0.0, 0
    wall_s, cpu_s = time.perf_counter(), time.process_time()
    for second in range(seconds):
        began_s = time.perf_counter()  # reading the CPU time is a system call and would cost as much as the simulator
        cluster.advance_to(float(second))
        world_s += time.perf_counter() - began_s
        decision = runner.tick()
        rolled_out += bool(decision and decision.rolled_out)
    wall_s, cpu_s = time.perf_counter() - wall_s, time.process_time() - cpu_s
    return {
        "simulated_s": seconds,
        "cpu_s": round(cpu_s, 2),
        "wall_s": round(wall_s, 2),
        "cpu_s_of_a_day": round(cpu_s * DAY_S / seconds, 1),
        "ms_per_step": round(1e3 * cpu_s / seconds, 3),
        "world_share": round(world_s / wall_s, 3),
        "steps_with_rollouts": rolled_out,
        "late_share": cluster.violation_rate("words", 15.0),
        "executor_hours": round(cluster.summary()["executor_seconds"] / 3600, 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=DAY_S, help="length of the run (default: a whole day)")
    print(json.dumps(run(parser.parse_args().seconds), indent=2))


if __name__ == "__main__":
    main()
