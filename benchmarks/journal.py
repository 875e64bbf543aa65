"""Journal benchmark: the cost to store, record and read a step.

    python benchmarks/journal.py [--seconds N] [--seed N]

Four applications with a trigger of one second, three operators each, are simulated with Poisson arrivals and noise and
controlled once a second. The simulator gives the operators of a batch one common noise; `jitter` adds 5 % of noise to
every time of every operator independently, which cannot be predicted and is the hardest case. Prints JSON.
"""

from __future__ import annotations

import argparse
import json
import random
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import fields, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rich.console import Console
from rich.progress import track

from tidegate.adapters.sim import SimApplication, SimCluster, SimOperator
from tidegate.control.controller import Controller
from tidegate.control.journal import SqliteJournal, read_entries
from tidegate.domain import BatchSample, Decision, Mode, Observation, OperatorSample, Receipt
from tidegate.domain.codec import to_json
from tidegate.domain.policy import Policy
from tidegate.domain.resolution import rounded

Step = tuple[Observation, Decision, Receipt | None]
View = Callable[[BatchSample], BatchSample]

_RATES = (300, 500, 800, 1200)
_JITTER = 0.05
_DAY = 86_400


def simulate(seconds: int, seed: int, view: View) -> list[Step]:
    """Steps of a closed loop, with every batch as `view` shows it."""
    cluster = SimCluster([_application(number) for number in range(4)], executors=3, slots_per_executor=4, seed=seed)
    controller, found = Controller(Policy(mode=Mode.APPLY)), list[Step]()
    for second in track(range(1, seconds + 1), "simulating", console=Console(stderr=True)):
        cluster.clock.sleep_until(float(second))
        observation = _seen(cluster.observe(), view)
        decision = controller.step(observation)
        receipt = cluster.converge(controller.knowledge.targets.after(decision.actions))
        controller.learn(decision, receipt)
        found.append((observation, decision, receipt))
    return found


def measure(steps: list[Step]) -> dict[str, Any]:
    """Sizes and times of one recording."""
    plain = sum(len(to_json(part)) for step in steps for part in step if part is not None)
    with TemporaryDirectory() as folder:
        journal = SqliteJournal(Path(folder) / "journal.db")
        began_s, returned_s = time.process_time(), 0.0
        for step in steps:
            start_s = time.thread_time()
            journal.record(*step)
            returned_s += time.thread_time() - start_s
        journal.close()
        cpu_s = time.process_time() - began_s
        with closing(sqlite3.connect(journal.path)) as database:
            sealed, size = database.execute("SELECT sum(steps), sum(length(body)) FROM blocks").fetchone()
            tail = database.execute("SELECT avg(length(body)) FROM tail").fetchone()[0]
        began_s = time.process_time()
        found = [(entry.observation, entry.decision, entry.receipt) for entry in read_entries(journal.path)]
        loaded_s = time.process_time() - began_s
        began_s = time.process_time()
        list(read_entries(journal.path, observations=False))
        decisions_s = time.process_time() - began_s
    assert found == steps, "what was written must read back equal"
    return {
        "bytes_per_step": round(size / sealed, 1),
        "megabytes_per_day": round(size / sealed * _DAY / 1e6, 2),
        "json_bytes_per_step": round(plain / len(steps)),
        "times_smaller_than_json": round(plain / len(steps) / (size / sealed), 1),
        "bytes_per_unsealed_step": round(tail),
        "record_us_in_the_loop": round(1e6 * returned_s / len(steps)),
        "record_us_with_sealing": round(1e6 * cpu_s / len(steps)),
        "load_ms_per_hour": round(1e3 * loaded_s * 3600 / len(steps)),
        "load_ms_per_hour_without_observations": round(1e3 * decisions_s * 3600 / len(steps)),
    }


def main() -> None:
    """Measure with operators, without them, and with independent noise."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=3700, help="of simulated time; blocks hold 600")
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    chance = random.Random(asked.seed)
    views: dict[str, View] = {
        "operators": lambda batch: batch,
        "no operators": lambda batch: replace(batch, operators=()),
        "jitter": lambda batch: _jittered(batch, chance, decimals=4),
        "jitter, milliseconds": lambda batch: _jittered(batch, chance, decimals=3),
    }
    report = {name: measure(simulate(asked.seconds, asked.seed, view)) for name, view in views.items()}
    print(json.dumps(report, indent=2))


def _application(number: int) -> SimApplication:
    rate = float(_RATES[number])
    swing = {"kind": "sinusoid", "baseline": rate, "amplitude": 0.4 * rate, "period_s": 3600.0 * (number + 1)}
    shuffle: dict[str, Any] = {"communication_s_per_row": 0.00005, "parallelism": 8}
    return SimApplication(
        f"app-{number}",
        {"kind": "poisson", "seed": number, "of": swing},
        interval_s=1.0,
        overhead_s=0.2,
        operators=(
            SimOperator("read", 0.0001, parallelism=4),
            SimOperator("parse", 0.0005, bytes_per_row=100, **shuffle),
            SimOperator("count", 0.0008, bytes_per_row=40, stateful=True, state_keys=20_000, **shuffle),
        ),
    )


def _seen(observation: Observation, view: View) -> Observation:
    applications = (
        replace(sample, batches=tuple(view(batch) for batch in sample.batches)) for sample in observation.applications
    )
    return rounded(replace(observation, applications=tuple(applications)))


def _jittered(batch: BatchSample, chance: random.Random, decimals: int) -> BatchSample:
    operators = tuple(_noisy(operator, chance, decimals) for operator in batch.operators)
    return replace(batch, operators=operators, busy_s=sum(operator.busy_s for operator in operators))


def _noisy(operator: OperatorSample, chance: random.Random, decimals: int) -> OperatorSample:
    times = {
        field.name: round(getattr(operator, field.name) * chance.gauss(1.0, _JITTER), decimals)
        for field in fields(operator)
        if field.name.endswith("_s") and getattr(operator, field.name)
    }
    return replace(operator, **times)


if __name__ == "__main__":
    main()
