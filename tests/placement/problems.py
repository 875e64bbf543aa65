"""Random placement problems for the tests, and the brute force they are checked against."""

from itertools import product

import numpy as np
from hypothesis import strategies as st

from tidegate.placement import Host, Problem, Task
from tidegate.placement.hostload import excess, flatten


def waves(tasks: int, hosts: int, seed: int, resources: tuple[str, ...] = ("cpu",), steps: int = 12) -> Problem:
    """Sinusoidal demand on equal hosts of 500 with room for all."""
    rng = np.random.default_rng(seed)
    shape = (tasks, len(resources), 1)
    phase = rng.uniform(0, 2 * np.pi, shape)
    wave = np.sin(2 * np.pi * np.arange(steps) / steps + phase)
    demand = rng.uniform(80, 200, shape) + rng.uniform(20, 60, shape) * wave
    return Problem.from_arrays(demand, np.full((hosts, len(resources)), 500.0), resources)


@st.composite
def problems(draw: st.DrawFn, max_tasks: int = 7, max_hosts: int = 5) -> Problem:
    """Small problems with unlike hosts, two resources, traffic and regions; each task fits on some host."""
    hosts = tuple(
        Host(
            f"h{h}",
            {"cpu": draw(st.integers(5, 12)), "memory": draw(st.integers(5, 12))},
            draw(st.sampled_from(["eu", "us"])),
            draw(st.integers(1, 4)),
        )
        for h in range(draw(st.integers(1, max_hosts)))
    )
    # A task is drawn inside one host, so that it fits there.
    homes = [draw(st.sampled_from(hosts)) for _ in range(draw(st.integers(1, max_tasks)))]
    names = [f"t{i}" for i in range(len(homes))]
    tasks = tuple(
        Task(
            name,
            {
                "cpu": draw(st.lists(st.integers(0, int(home.capacity["cpu"])), min_size=3, max_size=3)),
                "memory": draw(st.integers(0, int(home.capacity["memory"]))),
            },
            {other: draw(st.integers(0, 5)) for other in draw(st.sets(st.sampled_from(names), max_size=2))},
            "app",
        )
        for name, home in zip(names, homes, strict=True)
    )
    return Problem(hosts, tasks)


def fewest_hosts(problem: Problem) -> int | None:
    """The optimum by trying every assignment; None when every one overloads a host."""
    flat = flatten(problem)
    counts = [
        len(set(hosts))
        for hosts in product(range(len(problem.hosts)), repeat=len(problem.tasks))
        if excess(flat, np.array(hosts, dtype=np.int64)) == 0
    ]
    return min(counts, default=None)
