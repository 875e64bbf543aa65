"""Exact latency of every row from a journal, because batches are known by their rows' indices.

A row that is unfinished at the end of the run counts at its age. Leaving it out would favour slow runs.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from tidegate.control.journal import Entry

Floats = npt.NDArray[np.float64]


def row_latencies(
    entries: Iterable[Entry], application: str, arrivals_s: Floats, start_s: float, end_s: float
) -> tuple[Floats, int]:
    """Latencies of all rows, and how many were committed by `end_s`; `arrivals_s` count from `start_s`."""
    latencies_s = (end_s - start_s) - arrivals_s
    first = 0
    for entry in entries:
        for sample in entry.observation.applications if entry.observation else ():
            for batch in sample.batches if sample.name == application else ():
                if batch.committed_s > end_s:
                    return latencies_s, first
                end = first + batch.rows
                latencies_s[first:end] = batch.committed_s - start_s - arrivals_s[first:end]
                first = end
    return latencies_s, first


def rows_committed(entries: Iterable[Entry], application: str) -> int:
    """Return all committed rows, including those of a batch that ended after the run."""
    return sum(
        batch.rows
        for entry in entries
        for sample in (entry.observation.applications if entry.observation else ())
        if sample.name == application
        for batch in sample.batches
    )
