"""`python -m tests.simfleet`: many seeds, one seed with its trace, or the planted bugs.

python -m tests.simfleet --seeds 10000        # as make chaos-sim does
python -m tests.simfleet --seed 4711          # the same again, event by event
python -m tests.simfleet --mutants            # how many seeds it takes to find each planted bug
"""

from __future__ import annotations

import argparse
import logging
import sys
import time
from contextlib import nullcontext
from multiprocessing import Pool

from tests.simfleet.mutants import MUTANTS, planted
from tests.simfleet.simulation import Outcome, simulate


def _outcome(seed: int) -> Outcome:
    logging.getLogger("tidegate").setLevel(logging.CRITICAL)
    return simulate(seed)[0]


def first_found(mutant: str, most_seeds: int) -> Outcome | None:
    """The first seed that a planted bug breaks."""
    with planted(mutant):
        return next((found for seed in range(most_seeds) if (found := _outcome(seed)).violation), None)


def _show_mutants(most_seeds: int) -> int:
    print("| planted bug | found by seed | what was seen |\n|---|---|---|")
    missed = 0
    for name in MUTANTS:
        found = first_found(name, most_seeds)
        missed += found is None
        seen = (found.violation or "").splitlines()[0][:90] if found else ""
        print(f"| {name} | {found.seed if found else 'not found'} | {seen} |", flush=True)
    return 1 if missed else 0


def _show_one(seed: int, mutant: str | None) -> int:
    logging.getLogger("tidegate").setLevel(logging.CRITICAL)
    with planted(mutant) if mutant else nullcontext():
        outcome, trace = simulate(seed, trace=True)
    print("\n".join(trace))
    print(outcome)
    return 1 if outcome.violation else 0


def _show_many(seeds: int, first: int, processes: int) -> int:
    began_s, bad, events, rows = time.monotonic(), [], 0, 0
    with Pool(processes) as pool:
        for done, outcome in enumerate(pool.imap_unordered(_outcome, range(first, first + seeds), chunksize=20), 1):
            events, rows = events + outcome.events, rows + outcome.rows
            if outcome.violation:
                bad.append(outcome)
                print(f"\nseed {outcome.seed} at {outcome.at_s:.1f} s: {outcome.violation}", flush=True)
            if sys.stderr.isatty() and done % 20 == 0:
                print(f"\r{done} of {seeds} seeds", end="", file=sys.stderr, flush=True)
    took_s = time.monotonic() - began_s
    print(
        f"{seeds} seeds, {events} events, {rows} rows in {took_s:.0f} s ({60 * seeds / took_s:.0f} seeds per minute): "
        f"{len(bad)} violations"
    )
    for outcome in bad[:10]:
        print(f"  again, event by event: python -m tests.simfleet --seed {outcome.seed}")
    return 1 if bad else 0


def main() -> int:
    parser = argparse.ArgumentParser(description="A deterministic simulation of the fleet.")
    parser.add_argument("--seeds", type=int, default=10_000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--mutants", action="store_true")
    parser.add_argument("--mutant", choices=MUTANTS, help="plant this bug while replaying --seed")
    given = parser.parse_args()
    if given.seed is not None:
        return _show_one(given.seed, given.mutant)
    if given.mutants:
        return _show_mutants(given.seeds)
    return _show_many(given.seeds, given.first, given.processes)


if __name__ == "__main__":
    sys.exit(main())
