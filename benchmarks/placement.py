"""Placement benchmark: vector bin packing against known optima, and ten thousand tasks on a thousand hosts.

    python benchmarks/placement.py [--data DIR] [--every N]

The instances of Mommessin et al. 2025 (benchmark "New") are read from DIR/vector_bin_packing; DIR is by default
$TIDEGATE_DATA, else ../shared/data beside the repository.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import sys
import tarfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tidegate.placement import Problem, scheduler
from tidegate_lab.experiments.table1 import CAPACITY, FAMILIES, Row, sample

DEFAULT_DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
RIVALS = ("ffd", "rstorm", "tidegate")


@dataclass(frozen=True, slots=True)
class Known:
    """One instance with the published optimum (None if unknown) and the best published heuristic."""

    name: str
    problem: Problem
    optimum: int | None
    published: int


def instances(folder: Path, every: int) -> Iterator[Known]:
    """Every `every`-th instance of the summary, as many hosts as tasks."""
    with (folder / "New_summary_known.csv").open() as file:
        rows = list(csv.DictReader(file, delimiter="\t"))[::every]
    with tarfile.open(folder / "New_instances.tar.gz") as archive:
        texts = {Path(member.name).stem: member for member in archive.getmembers() if member.isfile()}
        for row in rows:
            content = archive.extractfile(texts[row["instance_name"]])
            assert content is not None
            optimum = int(row["OPT"])
            yield Known(
                row["instance_name"],
                parse(content.read().decode()),
                optimum if optimum >= 0 else None,
                int(row["best_overall"]),
            )


def parse(text: str) -> Problem:
    """Dimensions, capacities, number of item types, then per type its sizes and how many there are."""
    lines = [line.split() for line in text.splitlines() if line.strip()]
    dimensions = int(lines[0][0])
    capacity = np.array(lines[1], dtype=float)
    types = np.array(lines[3:], dtype=float)
    demand = np.repeat(types[:, :dimensions], types[:, dimensions].astype(int), axis=0)
    return Problem.from_arrays(demand[:, :, None], np.tile(capacity, (len(demand), 1)))


def vector_packing(folder: Path, every: int, seed: int) -> dict[str, Any]:
    """Share solved to the optimum and mean gap, per scheduler, over the instances whose optimum is known."""
    found: dict[str, list[tuple[int, float]]] = {name: [] for name in RIVALS}
    optima: list[int] = []
    better_than_published = worse_than_published = open_instances = 0
    slowest = slowest_cpu = 0.0
    for known in instances(folder, every):
        open_instances += known.optimum is None
        for name in RIVALS:
            if known.optimum is None and name != "tidegate":
                continue
            started, cpu = time.perf_counter(), time.process_time()
            schedule = scheduler(name).schedule(known.problem, np.random.default_rng(seed))
            seconds = time.perf_counter() - started
            if not schedule.feasible:
                raise RuntimeError(f"{name} overloads a host on {known.name}")
            if known.optimum is not None:
                found[name].append((schedule.used_hosts, seconds))
            if name == "tidegate":
                better_than_published += schedule.used_hosts < known.published
                worse_than_published += schedule.used_hosts > known.published
                slowest = max(slowest, seconds)
                slowest_cpu = max(slowest_cpu, time.process_time() - cpu)
        if known.optimum is not None:
            optima.append(known.optimum)
            if len(optima) % 50 == 0:
                print(f"{len(optima)} instances", file=sys.stderr)
    best = np.array(optima)
    report: dict[str, Any] = {
        name: {
            "solved_to_optimum": float(np.mean(np.array([hosts for hosts, _ in runs]) == best)),
            "mean_gap": float(np.mean(np.array([hosts for hosts, _ in runs]) / best - 1)),
            "mean_seconds": float(np.mean([seconds for _, seconds in runs])),
        }
        for name, runs in found.items()
    }
    return {
        "instances_with_known_optimum": len(optima),
        "open_instances": open_instances,
        "schedulers": report,
        "fewer_hosts_than_best_published_heuristic": better_than_published,
        "more_hosts_than_best_published_heuristic": worse_than_published,
        "slowest_seconds": slowest,
        "slowest_cpu_seconds": slowest_cpu,  # apart from slowest_seconds when others use the machine
    }


def large(tasks: int, hosts: int, seed: int) -> dict[str, Any]:
    """Sinusoidal tasks of which about ten fill a host, by Tidegate."""
    row = Row(tasks, hosts, (30.0, 60.0), (10.0, 25.0))
    problem = sample(row, FAMILIES[0], np.random.default_rng(seed))
    started = time.perf_counter()
    schedule = scheduler("tidegate").schedule(problem, np.random.default_rng(seed))
    return {
        "tasks": tasks,
        "hosts": hosts,
        "capacity": CAPACITY,
        "used_hosts": schedule.used_hosts,
        "lower_bound": schedule.lower_bound,
        "gap": schedule.used_hosts / schedule.lower_bound - 1,
        "overload": schedule.overload,
        "seconds": time.perf_counter() - started,
    }


def main() -> None:
    """Print both reports."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("TIDEGATE_DATA", DEFAULT_DATA)))
    parser.add_argument("--every", type=int, default=1, help="take every N-th instance only")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    large(100, 20, 0)  # compile outside the measurements
    folder = arguments.data / "vector_bin_packing"
    report: dict[str, Any] = {"seed": arguments.seed, "large": large(10_000, 1_000, arguments.seed)}
    if folder.is_dir():
        report["vector_packing"] = vector_packing(folder, arguments.every, arguments.seed)
    else:
        print(f"no instances at {folder}: give --data or TIDEGATE_DATA", file=sys.stderr)
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
