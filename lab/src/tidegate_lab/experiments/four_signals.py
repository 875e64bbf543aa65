"""The four-signal scenario: loads of opposite phase share a host, and operators that started late drain their queues.

Melnik, Nasonov and Butakov (2019), section 6: two hosts of 20 cores at 25 rows a core (500 rows a unit), four sinusoids
249 + 40·sin(2πt/40 + d). t0 and t1 exist from the start; t2 and t3 arrive at 200 and have no host until the schedule at
300. A pair of opposite phases sums to 498, so a backlog shrinks by 2 rows a unit.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tidegate.adapters.sim.events import NewNode, NewSinusOperator, ScheduleTasks
from tidegate.adapters.sim.plantstate import Floats
from tidegate.adapters.sim.result import ResultTable, SimulationResult
from tidegate.adapters.sim.scenario import Scenario
from tidegate.adapters.sim.simulation import Simulation
from tidegate.domain import InvalidInput

HOST_CORES, ROWS_PER_CORE = 20, 25
BASELINE, AMPLITUDE, PERIOD_S = 249, 40, 40
PHASES = {"t0": 0.0, "t1": np.pi, "t2": np.pi / 2, "t3": 3 * np.pi / 2}
EARLY, LATE = ("t0", "t1"), ("t2", "t3")
LATE_S, SCHEDULES_S = 200.0, (0.0, 100.0, 300.0)
OPPOSITE = (EARLY, LATE)


def scenario(scheduler: str = "tidegate", seed: int = 1, duration_s: float = 500.0) -> Scenario:
    """The paper's listing."""
    nodes = [NewNode(event="NewNode", at_s=0, id=name, cpu=HOST_CORES) for name in ("n0", "n1")]
    signals = [
        NewSinusOperator(
            event="NewSinusOperator",
            at_s=LATE_S if name in LATE else 0.0,
            id=name,
            baseline=BASELINE,
            amplitude=AMPLITUDE,
            period_s=PERIOD_S,
            phase=phase,
            cost=1 / ROWS_PER_CORE,
        )
        for name, phase in PHASES.items()
    ]
    schedules = [ScheduleTasks(event="Schedule", at_s=at_s) for at_s in SCHEDULES_S]
    return Scenario(
        name="four-signals",
        duration_s=duration_s,
        seed=seed,
        scheduler=scheduler,
        record_every_s=1.0,
        events=(*nodes, *signals, *schedules),
    )


def run(scheduler: str = "tidegate", seed: int = 1, out: Path | None = None) -> dict[str, Any]:
    """Run it; with `out`, draw load and queues into `four-signals.png` there."""
    result = Simulation(scenario(scheduler, seed)).run()
    report = evaluate(result, scheduler, seed)
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        report["figure"] = str(draw(result, report, out / "four-signals.png"))
    return report


def evaluate(result: SimulationResult, scheduler: str, seed: int) -> dict[str, Any]:
    """Who shares a host after each schedule, and how fast the late queues shrink."""
    schedules = [{"at_s": entry["at_s"], "assignment": entry["assignment"]} for entry in result.summary["schedules"]]
    pairs = [_pairs(entry["assignment"]) for entry in schedules]
    time_s, late = after_last_schedule(result)
    return {
        "scheduler": scheduler,
        "seed": seed,
        "capacity_rows_per_s": HOST_CORES * ROWS_PER_CORE,
        "schedules": schedules,
        "pairs": pairs,
        "opposite_phases_share_a_host": pairs[-1] == sorted(map(list, OPPOSITE)),
        "late_queue_rows": {"after_last_schedule": float(late[0]), "at_end": float(late[-1])},
        "late_queue_slope_rows_per_s": float(np.polyfit(time_s, late, 1)[0]),
        "all_queues_slope_rows_per_s": float(np.polyfit(time_s, queue(result, *PHASES)[-len(time_s) :], 1)[0]),
        "early_queue_rows_at_end": float(queue(result, *EARLY)[-1]),
    }


def draw(result: SimulationResult, report: dict[str, Any], path: Path) -> Path:
    """Load of each host against its capacity; the queues; and the late queue after the last schedule, closer."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    hosts, applications = _tables(result)
    figure = Figure(figsize=(9, 9), layout="constrained")
    FigureCanvasAgg(figure)
    *loads, queues, closer = figure.subplots(4, 1)
    for axes, host in zip(loads, ("n0", "n1"), strict=True):
        axes.plot(hosts.time_s, hosts.of(host, "cpu_load") * ROWS_PER_CORE, label=f"load of {host}")
        axes.axhline(HOST_CORES * ROWS_PER_CORE, color="black", linestyle="--", label="capacity")
        axes.set(ylabel="rows a second", ylim=(0, 620))
        axes.legend(loc="lower right")
    for name in PHASES:
        queues.plot(applications.time_s, applications.of(name, "queued"), label=name)
    queues.set(ylabel="rows queued")
    queues.legend(loc="upper left")
    for axes in (*loads, queues):
        for at_s in SCHEDULES_S:
            axes.axvline(at_s, color="grey", linewidth=0.8)
    slope = report["late_queue_slope_rows_per_s"]
    closer.plot(*after_last_schedule(result), label=f"t2 + t3 after {SCHEDULES_S[-1]:g} s: {slope:+.2f} rows a second")
    closer.set(xlabel="seconds", ylabel="rows queued")
    closer.legend()
    loads[0].set_title(f"Four signals on two hosts, scheduler {report['scheduler']} (grey: schedules)")
    figure.savefig(path, dpi=150)
    return path


def queue(result: SimulationResult, *names: str) -> Floats:
    """Rows that wait at all of these together, over time."""
    _, applications = _tables(result)
    return np.asarray(np.sum([applications.of(name, "queued") for name in names], axis=0), dtype=np.float64)


def after_last_schedule(result: SimulationResult) -> tuple[Floats, Floats]:
    """Time, and the queue of the late operators, from the last schedule on."""
    _, applications = _tables(result)
    after = applications.time_s > SCHEDULES_S[-1]
    return applications.time_s[after], queue(result, *LATE)[after]


def _tables(result: SimulationResult) -> tuple[ResultTable, ResultTable]:
    if result.hosts is None or result.applications is None:
        raise InvalidInput("not a result of the four-signal scenario: it has no hosts")
    return result.hosts, result.applications


def _pairs(assignment: dict[str, str]) -> list[list[str]]:
    together: dict[str, list[str]] = {}
    for task, host in sorted(assignment.items()):
        together.setdefault(host, []).append(task)
    return sorted(together.values())
