"""Plant benchmark: one-operator applications with sinusoidal loads, one simulated day at steps of a second.

    python benchmarks/plant.py                     4 000 applications
    python benchmarks/plant.py --scaling           100 … 10 000 applications: cost for an application-step
    python benchmarks/plant.py --scaling --figure plant.png

Runs on one core. Prints JSON: wall-clock and CPU seconds, CPU nanoseconds per task-step, peak memory, and the plant's
results.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import time
from typing import Any

import numpy as np

from tidegate.adapters.sim.inflow import Arrivals
from tidegate.adapters.sim.plant import Link, Plant, PlantTask
from tidegate.load import Sinusoid

DAY_S = 86_400
TASKS_PER_HOST = 4
CHUNK_STEPS = 64


def build(applications: int, seed: int) -> tuple[Plant, Arrivals]:
    """Four operators a host, as in the paper's table (baseline 100–200, amplitude 40–60, host 500 rows a second)."""
    random = np.random.default_rng(seed)
    hosts = -(-applications // TASKS_PER_HOST)
    plant = Plant(
        [PlantTask(f"t{index}", index, cost=(0.04,)) for index in range(applications)],
        [Link(index) for index in range(applications)],
        [[32.0]] * hosts,
    )
    loads = []
    for index in range(applications):
        plant.start(index)
        plant.place(index, index % hosts)
        wave = Sinusoid(
            baseline=random.uniform(100, 200),
            amplitude=random.uniform(40, 60),
            period_s=random.uniform(600, 86_400),
            phase=random.uniform(0, 2 * np.pi),
        )
        loads.append((wave, 1.0))
    return plant, Arrivals(loads)


def measure(applications: int, seconds: int, seed: int = 0) -> dict[str, Any]:
    plant, arrivals = build(applications, seed)
    warm, warm_arrivals = build(4, seed)
    warm.advance(warm_arrivals.rows(0.0, 4, 1.0), 1.0)  # compile outside of the clock
    began_s, began_cpu_s, loads_s, entered = time.perf_counter(), time.process_time(), 0.0, 0.0
    for start in range(0, seconds, CHUNK_STEPS):
        load_began_s = time.perf_counter()
        rows = arrivals.rows(float(start), min(CHUNK_STEPS, seconds - start), 1.0)
        loads_s += time.perf_counter() - load_began_s
        entered += float(rows.sum())
        plant.advance(rows, 1.0)
    took_s, took_cpu_s = time.perf_counter() - began_s, time.process_time() - began_cpu_s
    ledger = plant.ledger()
    left = float(ledger.processed.sum() + ledger.queued.sum())
    p99_s = sorted(plant.latencies(index).quantile_s(0.99) or 0.0 for index in range(applications))
    return {
        "applications": applications,
        "simulated_s": seconds,
        "seed": seed,
        "seconds": round(took_s, 2),
        "cpu_seconds": round(took_cpu_s, 2),
        "of_which_loads_s": round(loads_s, 2),
        "ns_per_task_step": round(1e9 * took_cpu_s / (applications * seconds), 1),
        "rows": entered,
        "conservation_error": abs(entered - left) / entered,
        "queued_rows": float(ledger.queued.sum()),
        "worst_application_p99_s": p99_s[-1],
        "peak_memory_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
    }


def draw(results: list[dict[str, Any]], path: str) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(6, 4), layout="constrained")
    counts = [result["applications"] for result in results]
    axes.loglog(counts, [result["seconds"] for result in results], "o-", label="measured")
    unit = results[-1]["seconds"] / counts[-1]
    axes.loglog(counts, [unit * count for count in counts], "--", color="grey", label="linear")
    axes.set(xlabel="applications", ylabel=f"seconds for {results[0]['simulated_s']} steps", title="Cost of the plant")
    axes.legend()
    figure.savefig(path, dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--applications", type=int, default=4000)
    parser.add_argument("--simulated-s", type=int, default=DAY_S)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--scaling", action="store_true", help="100 … 10 000 applications over a twelfth of the time")
    parser.add_argument("--figure", help="PNG of the scaling")
    options = parser.parse_args()
    if options.scaling:
        counts = (100, 300, 1000, 3000, 10_000)
        results = [measure(count, options.simulated_s // 12, options.seed) for count in counts]
        if options.figure:
            draw(results, options.figure)
        json.dump({"scaling": results}, sys.stdout, indent=2)
    else:
        json.dump(measure(options.applications, options.simulated_s, options.seed), sys.stdout, indent=2)
    print()


if __name__ == "__main__":
    main()
