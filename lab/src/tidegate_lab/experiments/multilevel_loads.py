"""The five recorded loads on which the local policies are compared, chosen before any of them was run.

All of them count arrivals: requests, rides, tweets. Series of CPU or disk usage are no loads and were left out. Each is
trained on three days and judged on three later ones.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np

from tidegate.adapters.sim.fleet_kernel import Floats
from tidegate.domain.errors import InvalidInput
from tidegate.domain.python310 import iso_time
from tidegate_lab.experiments.datasets import recorded


@dataclass(frozen=True, slots=True)
class RecordedLoad:
    """A series of counts, the days to learn from, and the days to be judged on."""

    name: str
    path: str
    training: datetime
    judged: datetime
    days: int = 3

    def find(self) -> Path | None:
        """The file, or None if the recorded data is not here."""
        return recorded(self.path)


WORLD_CUP = "worldcup98/requests_per_minute.csv"
LOADS = (
    RecordedLoad("worldcup-late-may", WORLD_CUP, datetime(1998, 5, 18), datetime(1998, 5, 25)),
    RecordedLoad("worldcup-early-may", WORLD_CUP, datetime(1998, 5, 4), datetime(1998, 5, 11)),
    RecordedLoad("taxi-rides", "nab/data/realKnownCause/nyc_taxi.csv", datetime(2014, 7, 8), datetime(2014, 7, 15)),
    RecordedLoad(
        "load-balancer",
        "nab/data/realAWSCloudwatch/elb_request_count_8c0756.csv",
        datetime(2014, 4, 11),
        datetime(2014, 4, 15),
    ),
    RecordedLoad("tweets", "nab/data/realTweets/Twitter_volume_AMZN.csv", datetime(2015, 3, 3), datetime(2015, 3, 10)),
)


def read_minutes(path: Path, first: datetime, days: int) -> Floats:
    """Read counts of whole days by the minute. Between recorded times, and where few are missing, interpolate."""
    times_s, counts = [], []
    with path.open(newline="", encoding="utf-8") as file:
        for time, count in list(csv.reader(file))[1:]:
            at = iso_time(time)
            if first <= at < first + timedelta(days=days):
                times_s.append((at - first).total_seconds())
                counts.append(float(count))
    steps = np.diff(times_s)
    due = days * 86_400.0 / float(np.median(steps)) if len(steps) else np.inf
    if len(counts) < 0.9 * due:
        raise InvalidInput(f"{path}: {len(counts)} counts from {first:%d %B %Y} on; {due:.0f} are needed")
    minutes: Floats = np.interp(60.0 * np.arange(days * 1440), times_s, counts)
    return minutes
