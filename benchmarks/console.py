"""Console benchmark: the time to show a week, and the cost of ten viewers for the controlling process.

    python benchmarks/console.py [--seconds N]

The week is one real ten-minute block of four applications, repeated with later times. The viewers run in
another process; the control loop, the journal and the server run here, as in a driver. Prints JSON.
"""

from __future__ import annotations

import argparse
import json
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.request import urlopen

from tidegate.adapters.sim import SimApplication, SimCluster, SimOperator
from tidegate.control.clock import WallClock
from tidegate.control.controller import Controller
from tidegate.control.journal import SqliteJournal
from tidegate.control.journal.summary import TABLES
from tidegate.control.runner import Runner
from tidegate.domain import Observation, Receipt, Targets
from tidegate.domain.policy import Policy
from tidegate.domain.rules import ConsoleRule
from tidegate.load import Constant
from tidegate.view.server import Console

_DAYS = 7
_BLOCK_S = 600
_VIEWERS = 10
_SHIFTED = {"time_s", "end_s", "number"}
_VIEWER = """
import sys, threading, urllib.request
def follow():
    with urllib.request.urlopen(sys.argv[1]) as stream:
        for line in stream:
            pass
for _ in range(int(sys.argv[2])):
    threading.Thread(target=follow, daemon=True).start()
sys.stdin.read()
"""


class _RealTime:
    """A simulated cluster that runs in real time."""

    def __init__(self) -> None:
        operators = (
            SimOperator("read", cost_s_per_row=0.0001, parallelism=4),
            SimOperator("parse", cost_s_per_row=0.002, parallelism=8),
            SimOperator("count", cost_s_per_row=0.001, parallelism=8, stateful=True),
        )
        applications = [
            SimApplication(f"query-{number}", Constant(100.0 * number), 1.0, overhead_s=0.3, operators=operators)
            for number in range(1, 5)
        ]
        self.cluster = SimCluster(applications=applications, executors=3, slots_per_executor=4)
        self._began_s = time.monotonic()

    def observe(self) -> Observation:
        self.cluster.advance_to(time.monotonic() - self._began_s)
        return self.cluster.observe()

    def converge(self, targets: Targets) -> Receipt:
        return self.cluster.converge(targets)

    def release(self) -> None:
        self.cluster.release()


def week(folder: Path) -> Path:
    """Write a journal of seven days, with one step per second."""
    world, path = _RealTime(), folder / "week.db"
    journal, controller = SqliteJournal(path), Controller(Policy())
    for second in range(_BLOCK_S + 2):
        world.cluster.advance_to(float(second))
        observation = world.cluster.observe()
        decision = controller.step(observation)
        receipt = world.converge(controller.knowledge.targets.after(decision.actions))
        controller.learn(decision, receipt)
        journal.record(observation, decision, receipt)
    journal.close()
    with sqlite3.connect(path) as database:
        database.execute("DELETE FROM tail")
        for number in range(1, _DAYS * 86_400 // _BLOCK_S):
            later = number * _BLOCK_S
            database.execute(
                "INSERT INTO blocks SELECT first + ?, last + ?, start_s + ?, end_s + ?, kind, steps, last_step, body,"
                " acted FROM blocks WHERE first = 1",
                (later, later, later, later),
            )
            for table, columns in TABLES.items():
                chosen = ", ".join(f"{name} + {later}" if name in _SHIFTED else name for name in columns)
                database.execute(f"INSERT INTO {table} SELECT {chosen} FROM {table} WHERE time_s < {_BLOCK_S}")
            database.execute("INSERT INTO summarised VALUES (?, ?)", (later + 1, later + _BLOCK_S))
    return path


def loading(path: Path) -> dict[str, Any]:
    """Open the journal and make all requests of the page for seven days."""
    began_s, cpu_s = time.monotonic(), time.process_time()
    server = Console([path], ConsoleRule(port=0))
    opened_s = time.monotonic()
    panels = {}
    for name in ("journals", "series?points=600", "timeline", "operators", "classes", "cost", "lag"):
        start_s = time.monotonic()
        with urlopen(f"{server.url}api/v1/{name}") as answer:
            size = len(answer.read())
        panels[name] = {"kilobytes": round(size / 1000, 1), "s": round(time.monotonic() - start_s, 3)}
    done_s, cpu_s = time.monotonic(), time.process_time() - cpu_s
    server.close()
    return {
        "megabytes": round(path.stat().st_size / 1e6, 1),
        "open_s": round(opened_s - began_s, 3),
        "panels_s": round(done_s - opened_s, 3),
        "cpu_s": round(cpu_s, 3),
        "panels": panels,
    }


def watching(folder: Path, seconds: float) -> dict[str, Any]:
    """Return the share of a core that this process uses without a server, with it, and with ten viewers."""
    journal, clock = SqliteJournal(folder / "live.db"), WallClock()
    runner = Runner(_RealTime(), Controller(Policy()), clock, journal, journal)
    thread = threading.Thread(target=runner.run, daemon=True)
    thread.start()
    time.sleep(10)
    shares = {"control alone": _share(seconds)}
    server = Console([journal.path], ConsoleRule(port=0))
    shares["and a server"] = _share(seconds)
    viewers = subprocess.Popen(
        [sys.executable, "-c", _VIEWER, f"{server.url}api/v1/events", str(_VIEWERS)], stdin=subprocess.PIPE
    )
    time.sleep(2)
    shares[f"and {_VIEWERS} viewers"] = _share(seconds)
    viewers.kill()
    viewers.wait()
    server.close()
    clock.stop()
    thread.join()
    journal.close()
    return {name: f"{share:.2%} of a core" for name, share in shares.items()}


def _share(seconds: float) -> float:
    began_s, cpu_s = time.monotonic(), time.process_time()
    time.sleep(seconds)
    return (time.process_time() - cpu_s) / (time.monotonic() - began_s)


def main() -> None:
    """Measure both."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=30.0, help="for each share of a core")
    asked = parser.parse_args()
    with TemporaryDirectory() as name:
        folder = Path(name)
        print(json.dumps({"week": loading(week(folder)), "viewers": watching(folder, asked.seconds)}, indent=2))


if __name__ == "__main__":
    main()
