"""Bottleneck identification: random applications with one planted bottleneck, and balanced ones.

    python benchmarks/identification.py [--cases N] [--seed FIRST]

Prints how often the journal names the right operator and the right kind, how often balanced applications are left
alone, and how many reconfigurations it took until the objective was met. The planner's constants were chosen on seeds
below 1000; the default begins at 20000.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter

from rich.console import Console
from rich.progress import track

from tidegate_lab.experiments.identification import Verdict, draw_case, run_case

_HELD_OUT = 20_000


def main() -> None:
    """Run both kinds of cases and print the rates as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=200, help="of each kind")
    parser.add_argument("--seed", type=int, default=_HELD_OUT, help="the first; the others follow it")
    asked = parser.parse_args()
    planted: list[Verdict] = []
    operators = kinds = 0
    seeds = range(asked.seed, asked.seed + asked.cases)
    for seed in track(seeds, "planted", console=Console(stderr=True)):
        case = draw_case("planted", seed)
        verdict = run_case(case, seed)
        planted.append(verdict)
        operators += verdict.named == case.operator
        kinds += verdict.kind == case.kind
        if verdict.named != case.operator or verdict.kind != case.kind or not verdict.kept:
            print(f"planted {seed}: {case.operator}, {case.kind}: {verdict}", file=sys.stderr)
    left_alone = 0
    for seed in track(seeds, "balanced", console=Console(stderr=True)):
        verdict = run_case(draw_case("balanced", seed), seed)
        left_alone += verdict.reconfigurations == 0
        if verdict.reconfigurations:
            print(f"balanced {seed}: {verdict}", file=sys.stderr)
    count = asked.cases
    tally = Counter(verdict.reconfigurations for verdict in planted)
    report = {
        "cases": count,
        "first_seed": asked.seed,
        "right_operator": operators / count,
        "right_kind": kinds / count,
        "balanced_left_alone": left_alone / count,
        "objective_kept": sum(verdict.kept for verdict in planted) / count,
        "objective_kept_within_three": sum(v.kept and v.reconfigurations <= 3 for v in planted) / count,
        "reconfigurations": {str(steps): tally[steps] for steps in sorted(tally)},
    }
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
