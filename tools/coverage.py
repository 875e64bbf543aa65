"""Branch coverage of the packages that decide, one line each, from the report of a test run: `make coverage`.

    python tools/coverage.py out/coverage.json

Fails if a package is below the bound. Loops that numba compiles are not traced and count as missed.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path

PACKAGES = ("evaluate", "plan", "control")
LEAST = 0.9


def by_package(report: Path) -> dict[str, Counter[str]]:
    """Lines and branches, all and covered, added up by package."""
    found: dict[str, Counter[str]] = {package: Counter() for package in PACKAGES}
    for file, figures in json.loads(report.read_text())["files"].items():
        package = file.split("tidegate/")[1].split("/")[0]
        found[package].update(figures["summary"])
    return found


def main() -> None:
    """Print the table, and fail if a bound is missed."""
    short = False
    for package, figures in by_package(Path(sys.argv[1])).items():
        lines = figures["covered_lines"] / figures["num_statements"]
        branches = figures["covered_branches"] / figures["num_branches"]
        short = short or branches < LEAST
        print(f"{package:9} {branches:6.1%} of {figures['num_branches']} branches, {lines:6.1%} of the lines")
    raise SystemExit(f"below {LEAST:.0%} of the branches" if short else 0)


if __name__ == "__main__":
    main()
