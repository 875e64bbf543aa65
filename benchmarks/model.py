"""The controller's model compared with the simulator, which shares no code with it: predicted and measured latency.

    python benchmarks/model.py              every configuration, as a table
    python benchmarks/model.py --markdown   the same for the documentation
    python benchmarks/model.py --random 60  random configurations that were not used during development
    python benchmarks/model.py --cost       CPU time of a rollout

Each configuration runs on the simulator until it is warm. It is then predicted from its parameters, the coming load and
the rows that wait at that moment. No measured latency is used, and nothing is fitted. Then the simulator continues, and
the rows that waited or arrived within the horizon are compared row by row.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidegate.adapters.sim.application import SimApplication, SimOperator
from tidegate.adapters.sim.cluster import SimCluster
from tidegate.adapters.sim.gate import SimGate
from tidegate.domain import Action, ScaleExecutors, SetAdmission, Targets
from tidegate.load import Burst, Constant, LoadProfile, Poisson, Sinusoid, Sum, Timeline
from tidegate.model.rollout import Candidate, Query, rollout
from tidegate.model.slotpath import SlotPath, ramp

Floats = NDArray[np.float64]

START_S = 60.0
STEP_S = 1.0
NOISE = 0.05
"""Spread of overhead and cost per row in the simulator; the model gets it as the variation of batch times."""


@dataclass(frozen=True)
class Case:
    """One configuration and what happens to it at `START_S`."""

    name: str
    load: LoadProfile
    row_s: float
    slots: int = 4
    interval_s: float = 1.0
    overhead_s: float = 0.3
    tasks: tuple[int, ...] = (16,)
    batch_s: float = 0.0
    admission_rows: int | None = None
    objective_s: float = 3.0
    horizon_s: float = 120.0
    scale_to: int | None = None
    """Executors requested at START_S; each has two slots."""
    limit_to: int | None = None
    """Admission from START_S on."""


def cases() -> Iterator[Case]:
    def step(low: float, high: float, at_s: float = 20.0, lasts_s: float = 1e6) -> Burst:
        return Burst(base=low, peak=high, start_s=START_S + at_s, duration_s=lasts_s)

    def rising(low: float, high: float, over_s: float = 120.0) -> Sum:
        stairs = int(over_s / 2)
        rise = (high - low) / stairs
        bursts = (Burst(base=0, peak=rise, start_s=START_S + 2.0 * stair, duration_s=1e6) for stair in range(stairs))
        return Sum(parts=(Constant(low), *bursts))

    yield Case("u=0.3, 1 s", Constant(240), 0.005)
    yield Case("u=0.5, 1 s", Constant(400), 0.005)
    yield Case("u=0.7, back to back", Constant(560), 0.005)
    yield Case("u=0.8, back to back", Constant(640), 0.005, objective_s=4.0)
    yield Case("u=0.9, back to back", Constant(720), 0.005, objective_s=6.0)
    yield Case("u=0.5, 5 s", Constant(400), 0.005, interval_s=5.0, objective_s=7.0)
    yield Case("u=0.75, 5 s", Constant(600), 0.005, interval_s=5.0, objective_s=9.0)
    yield Case("u=0.9, 10 s", Constant(720), 0.005, interval_s=10.0, objective_s=19.0)
    yield Case("u=0.6, no interval", Constant(480), 0.005, interval_s=0.0, objective_s=1.5)
    yield Case("u=0.4, no interval, 0.05 s", Constant(320), 0.005, interval_s=0.0, overhead_s=0.05, objective_s=0.2)
    yield Case("u=1.1", Constant(880), 0.005, objective_s=10.0)
    yield Case("u=1.05, 2 slots", Constant(420), 0.005, slots=2, objective_s=8.0)
    yield Case("u=0.5, few tasks", Constant(400), 0.005, tasks=(2,), objective_s=3.0)
    yield Case("u=0.5, two operators", Constant(300), 0.006, tasks=(8, 3), objective_s=3.0)
    yield Case("u=0.6, cost per batch", Constant(400), 0.005, batch_s=0.8, objective_s=3.0)
    yield Case("Poisson, u=0.6", Poisson(of=Constant(24), seed=3), 0.1, objective_s=3.0)
    yield Case("Poisson, u=0.6, 2 s", Poisson(of=Constant(24), seed=5), 0.1, interval_s=2.0, objective_s=4.0)
    yield Case("step 0.4 to 0.8", step(320, 640), 0.005, objective_s=3.0)
    yield Case("step 0.5 to 1.3 for 20 s", step(400, 1040, lasts_s=20.0), 0.005, objective_s=6.0)
    yield Case("step 0.3 to 1.1", step(240, 880), 0.005, objective_s=8.0)
    yield Case("ramp 0.3 to 0.9", rising(240, 720), 0.005, objective_s=3.0)
    yield Case("ramp 0.5 to 1.2", rising(400, 960), 0.005, objective_s=8.0)
    yield Case("wave 0.2 to 0.8", Sinusoid(baseline=400, amplitude=240, period_s=60.0), 0.005, objective_s=2.5)
    yield Case("admission holds, u=0.5", Constant(400), 0.005, admission_rows=500)
    yield Case("admission too low", Constant(400), 0.005, admission_rows=360, objective_s=10.0)
    yield Case("step 0.4 to 1.0, admission", step(320, 800, lasts_s=30.0), 0.005, admission_rows=600, objective_s=8.0)
    yield Case("limit from now on", Constant(640), 0.005, limit_to=500, objective_s=8.0)
    yield Case("u=0.9, scale up 2 to 4", Constant(720), 0.005, scale_to=4, objective_s=4.0)
    yield Case("u=1.2, scale up 1 to 3", Constant(480), 0.005, slots=2, scale_to=3, objective_s=8.0)
    yield Case("u=0.3, scale down 2 to 1", Constant(240), 0.005, scale_to=1, objective_s=2.5)
    yield Case("step 0.5 to 1.1, scale up", step(400, 880, at_s=5.0), 0.005, scale_to=4, objective_s=5.0)
    yield Case(
        "ramp and wave, 2 s",
        Sum(parts=(*rising(200, 400).parts, Sinusoid(baseline=100, amplitude=80, period_s=40.0))),
        0.006,
        interval_s=2.0,
        objective_s=5.0,
    )


def drawn(count: int, seed: int) -> Iterator[Case]:
    """Draw random configurations, with an objective that some rows may exceed."""
    random = np.random.default_rng(seed)
    for number in range(count):
        slots = 2 * int(random.integers(1, 6))
        interval_s = float(random.choice([0.0, 1.0, 2.0, 5.0, 10.0]))
        row_s = float(10 ** random.uniform(-3, -1.5))
        overhead_s = float(random.uniform(0.1, 1.0))
        low, high = random.uniform(0.2, 0.9), random.uniform(0.3, 1.1)
        full = slots / row_s
        at_s, lasts_s = float(random.uniform(0, 60)), float(random.uniform(10, 60))
        kind = int(random.integers(4))
        loads: tuple[LoadProfile, ...] = (
            Constant(low * full),
            Burst(base=low * full, peak=high * full, start_s=START_S + at_s, duration_s=lasts_s),
            Sinusoid(baseline=(low + high) / 2 * full, amplitude=abs(high - low) / 2 * full, period_s=at_s + 30.0),
            Poisson(of=Constant(low * full), seed=number),
        )
        limit = int(high * full * max(interval_s, 1.0)) + 1 if random.random() < 0.25 else None
        yield Case(
            f"{number} {('constant', 'step', 'wave', 'Poisson')[kind]}",
            loads[kind],
            row_s,
            slots=slots,
            interval_s=interval_s,
            overhead_s=overhead_s,
            tasks=tuple(int(tasks) for tasks in random.integers(slots // 2, 4 * slots, int(random.integers(1, 4)))),
            admission_rows=limit,
            objective_s=float((overhead_s + interval_s + 1) * random.uniform(1.0, 3.0)),
            scale_to=int(random.integers(1, 8)) if random.random() < 0.3 else None,
        )


@dataclass(frozen=True)
class Outcome:
    case: Case
    utilisation: float
    predicted_p99_s: float
    measured_p99_s: float
    predicted_late: float
    measured_late: float

    @property
    def error(self) -> float:
        return abs(self.predicted_p99_s - self.measured_p99_s) / self.measured_p99_s


def run(case: Case, seed: int = 1) -> Outcome:
    shares = [1 / len(case.tasks)] * len(case.tasks)
    operators = tuple(
        SimOperator(f"op{index}", case.row_s * share, parallelism=tasks, task_overhead_s=case.batch_s * share / tasks)
        for index, (tasks, share) in enumerate(zip(case.tasks, shares, strict=True))
    )
    application = SimApplication(
        "app",
        case.load,
        interval_s=case.interval_s,
        overhead_s=case.overhead_s,
        operators=operators,
        admission_rows=case.admission_rows,
        cold_s=0.0,
    )
    cluster = SimCluster([application], case.slots // 2, 2, noise=NOISE, seed=seed)
    cluster.advance_to(START_S)
    gate = cluster.gates[0]
    waited_from = gate.commits[-1].end if gate.commits else 0
    query, paths, candidate = parameters(case, gate, shares)
    actions: list[Action] = []
    if case.scale_to is not None:
        actions.append(ScaleExecutors(case.scale_to))
    if case.limit_to is not None:
        actions.append(SetAdmission("app", case.limit_to))
    cluster.converge(Targets().after(actions))
    seen = rollout(query, paths, [candidate], case.horizon_s, STEP_S)
    last = gate.rows_arrived(START_S + case.horizon_s)
    now_s = START_S + case.horizon_s
    while gate.commits[-1].end < last and now_s < START_S + 20 * case.horizon_s:
        now_s += 5.0
        cluster.advance_to(now_s)
    ages_s = measured_ages(gate, waited_from, last)
    return Outcome(
        case,
        float(seen.utilisation[0, 0]),
        float(seen.p99_s[0, 0]),
        float(np.quantile(ages_s, 0.99)),
        float(seen.late_share[0, 0]),
        float(np.mean(ages_s > case.objective_s)),
    )


def parameters(case: Case, gate: SimGate, shares: list[float]) -> tuple[Query, Floats, Candidate]:
    """Return the model's input: the configuration, the coming load, and the rows that wait now."""
    timeline = Timeline(case.load)
    steps = round(case.horizon_s / STEP_S)
    edges_s = START_S + np.arange(steps + 1) * STEP_S
    expected = case.load.of if isinstance(case.load, Poisson) else case.load
    # a forecast knows the rate, not the rows: Poisson arrivals are predicted by their mean
    counts = np.array([Timeline(expected).rows_by(float(edge)) for edge in edges_s], dtype=np.float64)
    waiting = timeline.arrivals_s(gate.commits[-1].end if gate.commits else 0, gate.rows_arrived(START_S))
    ages_s = np.linspace(START_S - waiting[0], 0.0, 9) if len(waiting) else np.zeros(0)
    rows = np.diff(np.searchsorted(waiting, START_S - ages_s)) if len(waiting) else np.zeros(0)
    started_s, batch_rows = running(gate)
    query = Query(
        batch_s=case.batch_s,
        row_s=case.row_s,
        overhead_s=case.overhead_s,
        interval_s=case.interval_s,
        objective_s=case.objective_s,
        trigger_in_s=trigger_in_s(case, started_s),
        waiting_ages_s=ages_s,
        waiting_rows=rows.astype(np.float64),
        batch_left_s=left_s(case, shares, started_s, batch_rows),
        batch_rows=float(batch_rows),
        tasks=case.tasks,
        work_share=tuple(shares),
        in_waves=False,  # the simulator's work is fluid
        cv_service=NOISE,
        cv_arrival=1.0 if isinstance(case.load, Poisson) else 0.0,
    )
    path = SlotPath(*[np.full(steps, float(case.slots))] * 2)
    if case.scale_to is not None:
        path = ramp(case.slots, 2 * case.scale_to, steps, STEP_S, leave_s=query.batch_left_s)
    limit = case.admission_rows if case.limit_to is None else case.limit_to
    return query, np.diff(counts) / STEP_S, Candidate(path.usable, admission_rows=limit, held=path.held)


def running(gate: SimGate) -> tuple[float | None, int]:
    """Return when the running batch started, and its rows."""
    done = gate.commits[-1].end if gate.commits else 0
    batch = gate._batch
    return (batch.started_s, gate.admitted - done) if batch is not None else (None, 0)


def trigger_in_s(case: Case, started_s: float | None) -> float:
    if case.interval_s <= 0:
        return 0.0
    if started_s is None:
        return 0.0  # START_S is a multiple of every interval
    return float((np.floor(started_s / case.interval_s + 1e-9) + 1) * case.interval_s - START_S)


def left_s(case: Case, shares: list[float], started_s: float | None, rows: int) -> float:
    """Return the remaining time of the running batch, by its cost."""
    if started_s is None:
        return 0.0
    work_s = rows * case.row_s + case.batch_s
    takes_s = case.overhead_s + sum(
        work_s * share / min(case.slots, tasks) for share, tasks in zip(shares, case.tasks, strict=True)
    )
    return max(0.01, started_s + takes_s - START_S)


def measured_ages(gate: SimGate, first: int, end: int) -> Floats:
    """Latency of every row, from the commits; rows never committed count at their age by the last commit."""
    arrivals_s = gate.ledger.arrivals_s(first, end)
    commits_s = np.full(end - first, gate.commits[-1].time_s)
    for commit in gate.commits:
        commits_s[max(commit.first - first, 0) : max(commit.end - first, 0)] = commit.time_s
    return np.asarray(commits_s - arrivals_s)


def report(outcomes: list[Outcome], markdown: bool) -> None:
    between = " | " if markdown else "  "
    edge = "| " if markdown else ""
    head = ("configuration", "load", "p99 predicted", "measured", "error", "late predicted", "measured")
    widths = (max(len(outcome.case.name) for outcome in outcomes), 5, 13, 9, 6, 14, 9)
    print(edge + between.join(text.ljust(width) for text, width in zip(head, widths, strict=True)) + edge[::-1])
    if markdown:
        print("|---|---|---|---|---|---|---|")
    for outcome in outcomes:
        cells = (
            outcome.case.name,
            f"{outcome.utilisation:.2f}",
            f"{outcome.predicted_p99_s:.2f} s",
            f"{outcome.measured_p99_s:.2f} s",
            f"{100 * outcome.error:.0f} %",
            f"{100 * outcome.predicted_late:.1f} %",
            f"{100 * outcome.measured_late:.1f} %",
        )
        print(edge + between.join(text.ljust(width) for text, width in zip(cells, widths, strict=True)) + edge[::-1])
    errors = np.array([outcome.error for outcome in outcomes])
    late = np.array([abs(outcome.predicted_late - outcome.measured_late) for outcome in outcomes])
    print(
        f"\n{len(outcomes)} configurations: relative error of p99 median {np.median(errors):.3f}, 90 % within"
        f" {np.quantile(errors, 0.9):.3f}, worst {errors.max():.3f}; share over the objective: median difference"
        f" {np.median(late):.3f}, worst {late.max():.3f}"
    )


def cost() -> dict[str, Any]:
    """CPU time of a rollout (24 candidates, 3 paths, 120 s at 1 s), beside that of one NumPy addition."""
    steps = 120
    query = Query(0.1, 0.005, 0.3, 1.0, 5.0, tasks=(8, 4), work_share=(0.6, 0.4))
    candidates = [
        Candidate(ramp(4, 1 + index % 12, steps, 1.0).usable, admission_rows=None if index < 12 else 400.0)
        for index in range(24)
    ]
    figures: dict[str, Any] = {}
    for name, rate in (("calm", 60.0), ("mixed", 200.0), ("overloaded", 500.0)):
        paths = np.linspace(rate, 1.3 * rate, steps) * np.array([[0.8], [1.0], [1.3]])
        figures[f"rollout {name} ms"] = 1e3 * best(lambda paths=paths: rollout(query, paths, candidates, 120.0, 1.0))
    numbers = np.ones(72)
    figures["addition of 72 numbers µs"] = 1e6 * best(lambda: [numbers + numbers for _ in range(1000)]) / 1000
    return figures


def best(call: Any, rounds: int = 15, times: int = 5) -> float:
    """Return the CPU seconds of the fastest round, to exclude the effect of other load."""
    found = []
    for _ in range(rounds):
        began_s = time.process_time()
        for _ in range(times):
            call()
        found.append((time.process_time() - began_s) / times)
    return min(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--markdown", action="store_true")
    parser.add_argument("--random", type=int, default=0, metavar="N")
    parser.add_argument("--cost", action="store_true")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if options.cost:
        for name, value in cost().items():
            print(f"{name}: {value:.2f}")
        return
    chosen = drawn(options.random, options.seed) if options.random else cases()
    report([run(case, options.seed) for case in chosen], options.markdown)


if __name__ == "__main__":
    main()
