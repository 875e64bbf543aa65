"""The default programme: loads, seeds, and time compression."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from tidegate_lab.arena.loads import FIELD, MADE, ArenaLoad, made, part_of
from tidegate_lab.arena.recorded import recorded_load
from tidegate_lab.experiments.datasets import recorded

WEEK_COMPRESS = 12.0
"""A day in two hours: an uncompressed week would take longer than everything else together."""
QUICK_COMPRESS = 60.0
QUICK_LOADS = ("cosine", "random-walk", "spikes")
_DAY_S = 86_400.0
_RECORDED_WEEKS = (
    ("taxi-week", "nab/data/realKnownCause/nyc_taxi.csv:value", 7 * _DAY_S),
    ("world-cup-week", "worldcup98/requests_per_minute.csv:count", 14 * _DAY_S),
)
"""Name, file and column, and where the week begins."""


def default_loads(query: str, seeds: int, compress: float | None, quick: bool) -> list[ArenaLoad]:
    """The field's loads with several seeds, and weeks. Recorded weeks are included if their data is available."""
    whole, weeks = compress or 1.0, compress or (QUICK_COMPRESS if quick else WEEK_COMPRESS)
    names = QUICK_LOADS if quick else FIELD
    loads = [made(name, query, seed, whole) for name in names for seed in range(1, seeds + 1)]
    loads.append(made("week", query, 1, weeks))
    return loads if quick else [*loads, *recorded_weeks(weeks)]


def recorded_weeks(compress: float) -> list[ArenaLoad]:
    found = []
    for name, spec, from_s in _RECORDED_WEEKS:
        path, _, column = spec.partition(":")
        file = recorded(path)
        if file is not None:
            whole = recorded_load(f"{file}:{column}", compress=compress)
            found.append(part_of(whole, from_s, 7 * _DAY_S, name))
    return found


def given_loads(
    specs: Sequence[str], query: str, seeds: int, compress: float | None, step_s: float | None
) -> list[ArenaLoad]:
    """Loads by name, once per seed, and CSV files. A file is also played with each seed of the plant's noise."""
    loads = []
    taken: set[str] = set()
    for spec in dict.fromkeys(specs):
        if spec in MADE:
            loads += [made(spec, query, seed, compress or 1.0) for seed in range(1, seeds + 1)]
            continue
        read = recorded_load(spec, step_s, compress or 1.0)
        name = next(name for name in (read.name, Path(spec).name, spec) if name not in taken)
        taken.add(name)
        loads += [replace(read, name=name, seed=seed) for seed in range(1, seeds + 1)]
    return loads
