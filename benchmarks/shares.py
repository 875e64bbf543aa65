"""The effect of CPU weights on this machine: three groups of busy processes, with equal weights and with 6/3/1.

Prints each group's share of the CPU time of all three. Run: python benchmarks/shares.py [SECONDS]
"""

from __future__ import annotations

import subprocess
import sys
import time

import psutil

from tidegate.adapters.host.shares import ProcessGroups

WEIGHTS = {"q1": 6, "q2": 3, "q3": 1}
PROCESSES = 2
BUSY = "while True: pass"


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 5.0
    groups = ProcessGroups()
    for capability in groups.capabilities():
        print(capability)
    if not groups.capabilities()[0].able:
        return
    busy = {name: [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(PROCESSES)] for name in WEIGHTS}
    try:
        for name, processes in busy.items():
            groups.adopt(name, [process.pid for process in processes])
        for title, weights in (("equal", dict.fromkeys(WEIGHTS, 1)), ("6/3/1", WEIGHTS)):
            for name, weight in weights.items():
                groups.set_share(name, weight / sum(weights.values()))
            print(title, {name: f"{share:.0%}" for name, share in used_shares(busy, seconds).items()})
    finally:
        for processes in busy.values():
            for process in processes:
                process.kill()
                process.wait()
        groups.restore()


def used_shares(busy: dict[str, list[subprocess.Popen[bytes]]], seconds: float) -> dict[str, float]:
    """Return each group's share of the CPU time used in the next seconds."""

    def used() -> dict[str, float]:
        return {name: sum(psutil.Process(one.pid).cpu_times().user for one in them) for name, them in busy.items()}

    before = used()
    time.sleep(seconds)
    spent = {name: after - before[name] for name, after in used().items()}
    return {name: value / sum(spent.values()) for name, value in spent.items()}


if __name__ == "__main__":
    main()
