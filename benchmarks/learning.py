"""Online learning benchmark: latency three batches ahead against repeating the last value, and recovery after a drift.

    python benchmarks/learning.py [--runs N] [--first SEED] [--seconds S] [--without-news]
    python benchmarks/learning.py --live out/learning.db [--first SEED] [--seconds S]   # a run on Spark, recorded
    python benchmarks/learning.py --journal out/learning.db …                           # learn from such runs

Runs are recorded in the simulator: a sinusoidal load with Poisson arrivals and bursts, all drawn at random from the
seed, on a fixed pool that bursts may overload. The source reports how many rows have arrived, as
Tidegate's own does on Spark. `--without-news` omits that, as for sources that do not report it.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from tidegate.adapters.sim import SimApplication, SimCluster, SimOperator
from tidegate.analysis.learning import Replay, replay
from tidegate.control.journalhistory import journal_history
from tidegate.domain import Observation
from tidegate.history.batchrecords import ObservationFlattener
from tidegate.history.metrictable import MetricTable
from tidegate.load import Burst, LoadProfile, Poisson, Sinusoid, Sum

SLOTS = 4
ROW_S = 0.006  # slot-seconds a row costs in all operators
METRICS = ("input_rows_per_s", "look-up.capacity", "batch_duration_s")
HORIZON = 3


def random_load(seed: int, seconds: float) -> LoadProfile:
    """Return a sinusoid with one to three bursts, relative to the pool's capacity."""
    rng = np.random.default_rng(seed)
    bearable = SLOTS / ROW_S
    base = rng.uniform(0.35, 0.6) * bearable
    swing = Sinusoid(base, rng.uniform(0.15, 0.5) * base, rng.uniform(120, 500), rng.uniform(0, 2 * np.pi))
    bursts = [
        Burst(0.0, rng.uniform(0.1, 0.5) * bearable, rng.uniform(100, seconds - 200), rng.uniform(20, 120))
        for _ in range(rng.integers(1, 4))
    ]
    return Poisson(Sum((swing, *bursts)), seed)


def recorded(load: LoadProfile, seconds: float, seed: int, slowdown: float = 1.0, *, news: bool = True) -> MetricTable:
    """One simulated run as a history."""
    job = SimApplication(
        "app",
        load,
        interval_s=1.0,
        overhead_s=0.3,
        operators=(
            SimOperator("read", 0.0005 * slowdown, parallelism=4),
            SimOperator("look-up", 0.005 * slowdown, parallelism=16, selectivity=0.5),
            SimOperator("count", 0.001 * slowdown, parallelism=8),
        ),
    )
    cluster = SimCluster([job], executors=2, slots_per_executor=2, seed=seed)
    flattener, records = ObservationFlattener(), []
    for second in range(1, int(seconds) + 1):
        cluster.clock.sleep_until(float(second))
        seen = cluster.observe() if news else without_arrivals(cluster.observe())
        records += [record for _, record in flattener.records(seen)]
    return MetricTable.from_records("app", records)


def record_live(path: Path, load: LoadProfile, seconds: float) -> None:
    """Record a run on Spark without control: the pool is fixed, and bursts may overload it."""
    from tidegate.adapters.spark.attach import attach
    from tidegate.adapters.spark.embedded import embedded_session
    from tidegate_lab.workloads.wordcount import WordCount

    path.parent.mkdir(parents=True, exist_ok=True)
    for leftover in path.parent.glob(f"{path.name}*"):
        leftover.unlink()
    spark = embedded_session("learning", executors=1, most_executors=1, slots=SLOTS, memory_mb=1536)
    with attach(spark, {"mode": "off", "journal": {"path": str(path)}}) as gate:
        gate.start("words", WordCount(load, lookup_s=ROW_S, lookup_tasks=SLOTS).build)
        time.sleep(seconds)
        for query in gate.queries():
            query.stop_at_boundary()
        gate.settle()
    spark.stop()


def learn_from(path: Path) -> None:
    """Every application of a journal: errors of the learner and of the last value."""
    for table in journal_history(path).tables:
        known = [name for name in table.names if name in METRICS or name.endswith(".capacity")]
        for target in ("latency_p99_s", "throughput_rows_per_s", "backlog_rows"):
            score = replay(table, target, known, HORIZON).score
            print(
                f"{path} {table.application} {target}: {len(table)} batches, MAE {score.mae:.3f},"
                f" last value {score.last_value_mae:.3f}, gain {score.gain or 0.0:.1%}, usable {score.usable}"
            )


def without_arrivals(seen: Observation) -> Observation:
    """Return the observation without reports of arrivals."""
    return replace(seen, applications=tuple(replace(sample, arrival=None) for sample in seen.applications))


def joined(first: MetricTable, second: MetricTable) -> MetricTable:
    """Concatenate two histories."""
    shift_s = first.times_s[-1] + 1.0
    return MetricTable(
        first.application,
        first.names,
        np.concatenate([first.times_s, second.times_s + shift_s]),
        np.concatenate([first.values, second.select(first.names).values]),
    )


def recovery_samples(found: Replay, actual: np.ndarray[tuple[int], np.dtype[np.float64]], drift_at: int) -> int | None:
    """Samples after the drift until the mean error of the next 20 is within 1.25 × that of the settled end."""
    error = np.abs(found.predicted - actual)
    settled = float(np.nanmean(error[drift_at + 150 :]))
    for after in range(len(actual) - drift_at - 20):
        if np.nanmean(error[drift_at + after : drift_at + after + 20]) <= 1.25 * settled:
            return after
    return None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=8)
    parser.add_argument("--first", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--without-news", action="store_true")
    parser.add_argument("--live", type=Path, help="Record a run on Spark in this journal, then learn from it.")
    parser.add_argument("--journal", type=Path, nargs="+", default=[], help="Learn from these journals.")
    given = parser.parse_args()
    if given.live:
        record_live(given.live, random_load(given.first, given.seconds), given.seconds)
    for path in [*given.journal, *([given.live] if given.live else [])]:
        learn_from(path)
    if given.live or given.journal:
        return
    news = not given.without_news
    for target in ("latency_p99_s", "throughput_rows_per_s"):
        gains, errors, baseline = [], 0.0, 0.0
        for seed in range(given.first, given.first + given.runs):
            table = recorded(random_load(seed, given.seconds), given.seconds, seed, news=news)
            began_s = time.process_time()
            score = replay(table, target, METRICS, HORIZON).score
            cpu_ms = 1000 * (time.process_time() - began_s) / len(table)
            gains.append(score.gain or 0.0)
            errors, baseline = errors + (score.mae or 0.0), baseline + (score.last_value_mae or 0.0)
            print(
                f"{target} seed {seed}: MAE {score.mae:.3f}, last value {score.last_value_mae:.3f},"
                f" gain {gains[-1]:.1%}, usable {score.usable}, {len(table)} batches, {cpu_ms:.1f} CPU-ms a batch",
                flush=True,
            )
        print(f"{target}: mean gain {np.mean(gains):.1%}, least {min(gains):.1%}, pooled {1 - errors / baseline:.1%}")
    steady = Poisson(Sinusoid(280.0, 60.0, 200.0), 7)
    before, after = recorded(steady, 300.0, 7, news=news), recorded(steady, 300.0, 8, 1.5, news=news)
    table = joined(before, after)
    found = replay(table, "latency_p99_s", METRICS, HORIZON)
    recovered = recovery_samples(found, table.column("latency_p99_s"), len(before))
    print(f"rows cost 1.5 × from sample {len(before)} on: drifts found at {found.drifts}, recovered after {recovered}")


if __name__ == "__main__":
    main()
