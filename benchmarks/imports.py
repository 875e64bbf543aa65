"""What it costs to have Tidegate in a driver: CPU of the import beside that of PySpark, and megabytes on disk.

    python benchmarks/imports.py          CPU, both measured in turns in fresh processes
    python benchmarks/imports.py --size   also build and install the product without PySpark (needs the network)

Prints JSON. Both sides run from byte code, as an installed package does.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parents[1]
SIDES = {"pyspark.sql": "import pyspark.sql", "tidegate.attach": "import tidegate; tidegate.attach"}
MOST_RATIO, MOST_MEGABYTES = 4.0, 120.0


def cpu_s(code: str, byte_code: str) -> float:
    """User and system time of a fresh process."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-c", code]
    subprocess.run(command, env={**environment, "PYTHONPYCACHEPREFIX": byte_code}, cwd=byte_code, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def import_cost(rounds: int) -> dict[str, float]:
    """Median CPU of each side, and their ratio."""
    found: dict[str, list[float]] = {name: [] for name in SIDES}
    with TemporaryDirectory() as byte_code:
        for code in SIDES.values():  # writes the byte code
            cpu_s(code, byte_code)
        for _ in range(rounds):
            for name, code in SIDES.items():
                found[name].append(cpu_s(code, byte_code))
    spark_s, tidegate_s = (median(times) for times in found.values())
    return {"pyspark_s": round(spark_s, 3), "tidegate_s": round(tidegate_s, 3), "ratio": round(tidegate_s / spark_s, 2)}


def installed_megabytes() -> dict[str, float]:
    """Size of the built product with everything that it requires, by top-level name."""
    with TemporaryDirectory() as folder:
        build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder]
        subprocess.run(build, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
        (wheel,) = Path(folder).glob("*.whl")
        target = Path(folder) / "installed"
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "--target", str(target), str(wheel)], check=True)
        sizes = {part.name: _bytes(part) / 1e6 for part in target.iterdir()}
    largest = sorted(sizes.items(), key=lambda pair: -pair[1])[:6]
    return {"all": round(sum(sizes.values()), 1), **{name: round(size, 1) for name, size in largest}}


def _bytes(part: Path) -> int:
    files = [part] if part.is_file() else part.rglob("*")
    return sum(file.stat().st_size for file in files if file.is_file())


def main() -> None:
    """Measure, print, and fail if a bound is exceeded."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--size", action="store_true")
    options = parser.parse_args()
    cost = import_cost(options.rounds)
    report: dict[str, object] = {"import": cost}
    kept = cost["ratio"] <= MOST_RATIO
    if options.size:
        size = installed_megabytes()
        report["megabytes"] = size
        kept = kept and size["all"] <= MOST_MEGABYTES
    print(json.dumps(report, indent=1))
    raise SystemExit(0 if kept else 1)


if __name__ == "__main__":
    main()
