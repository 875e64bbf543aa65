"""Simulated weeks under the live controller: use of disk and memory at the end of each day.

    python benchmarks/soak.py [--days N]

Three queries with a daily rhythm, a batch and a step every ten seconds, the journal in a file with its default limits
(seven days, 200 MB). Prints JSON: per day the journal's size on disk, the size of the controller's knowledge, the
number of living Python objects, and the memory of the process, less the tables of the simulated load, which grow with
time; then each of them on the last day relative to the eighth, after which nothing should grow but the journal's
summaries: a day of them takes about 2 MB, until the journal's limit on its size is reached.
"""

from __future__ import annotations

import argparse
import gc
import json
import tempfile
from pathlib import Path
from typing import Any

import psutil
from rich.console import Console
from rich.progress import track

from tidegate.adapters.sim import SimApplication, SimCluster, SimOperator
from tidegate.control.controller import Controller
from tidegate.control.journal import SqliteJournal
from tidegate.control.policyfile import policy_from
from tidegate.control.runner import Runner
from tidegate.load import Sinusoid, Timeline

_DAY_S, _STEP_S = 86_400, 10
_FULL_DAY = 8
"""From the end of this day on the journal drops as much as it adds."""


def queries() -> list[SimApplication]:
    return [
        SimApplication(
            f"words-{number}",
            Sinusoid(baseline=150, amplitude=100, period_s=_DAY_S / number),
            float(_STEP_S),
            operators=(SimOperator("look-up", 0.004, 16), SimOperator("count", 0.0005, 8, stateful=True)),
        )
        for number in (1, 2, 3)
    ]


def load_tables_bytes() -> int:
    """Memory of the simulated load: when each row arrives, in tenths of a second since the first day."""
    gc.collect()
    return sum(one._cumulative.nbytes for one in gc.get_objects() if isinstance(one, Timeline))


def run(days: int, folder: Path) -> dict[str, Any]:
    cluster = SimCluster(queries(), executors=2, slots_per_executor=2, max_executors=8, seed=1)
    policy = policy_from({"objective": {"latency_s": 60}, "executors": {"max": 8}, "interval_s": _STEP_S})
    journal = SqliteJournal(folder / "soak.db", policy.journal.keep_days, policy.journal.max_megabytes)
    runner = Runner(cluster, Controller(policy), cluster.clock, journal, journal)
    process, found = psutil.Process(), []
    for day in track(range(1, days + 1), "days", console=Console(stderr=True)):
        for second in range((day - 1) * _DAY_S, day * _DAY_S, _STEP_S):
            cluster.advance_to(float(second))
            runner.tick()
        found.append(
            {
                "day": day,
                "journal_bytes": sum(path.stat().st_size for path in folder.iterdir()),
                "knowledge_bytes": len(runner.controller.knowledge.to_bytes()),
                "memory_bytes": process.memory_info().rss - load_tables_bytes(),
                "objects": len(gc.get_objects()),
            }
        )
    journal.close()
    kinds = ("journal_bytes", "knowledge_bytes", "memory_bytes", "objects")
    grown = {kind: round(found[-1][kind] / found[_FULL_DAY - 1][kind], 3) for kind in kinds}
    return {"days": found, "last_day_over_day_8": grown}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--days", type=int, default=21, help=f"at least {_FULL_DAY}")
    days = max(_FULL_DAY, parser.parse_args().days)
    with tempfile.TemporaryDirectory(prefix="tidegate-soak-") as folder:
        print(json.dumps(run(days, Path(folder)), indent=2))


if __name__ == "__main__":
    main()
