"""Taxi rides as lines of text: `driver,pickup,dropoff,from,to,passengers,distance,payment,fare,tip,total`.

Both kinds use this format. `Rides` generates synthetic rides. `RecordedRides` replays a file of New York's Taxi and
Limousine Commission (TLC). TLC files do not name drivers, so rides are assigned to drivers in turn, in order of
pick-up.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from pathlib import Path

import numpy as np

from tidegate.domain.errors import InvalidInput
from tidegate.domain.python310 import iso_time
from tidegate.load.mixing import mixed, seeded

FIELDS = "driver,pickup,dropoff,from,to,passengers,distance,payment,fare,tip,total"
_BEGIN = datetime(2019, 3, 1)
_ZONES = 263
_TURN_S = 1800
"""A synthetic driver takes one ride per half hour."""
_DIRTY = 0.02
_CYCLE = timedelta(days=31)
_COLUMNS = (
    "tpep_pickup_datetime",
    "tpep_dropoff_datetime",
    "PULocationID",
    "DOLocationID",
    "passenger_count",
    "trip_distance",
    "payment_type",
    "fare_amount",
    "tip_amount",
    "total_amount",
)


@dataclass(frozen=True, slots=True)
class Rides:
    """Synthetic rides: drivers take turns, no driver has two rides at once, and one line in fifty is malformed.

    >>> Rides().texts(0, 1)[0].split(",")[:2]
    ['d0000', '2019-03-01 00:03:09']
    """

    drivers: int = 200
    seed: int = 0

    def texts(self, first: int, end: int) -> list[str]:
        rows = np.arange(first, end, dtype=np.uint64)
        draws = mixed(seeded(rows, self.seed))
        # Six numbers of ten bits out of one word; a ride waits up to a quarter turn and lasts a quarter to a half.
        parts = [((draws >> np.uint64(10 * k)) & np.uint64(1023)).astype(np.int64).tolist() for k in range(6)]
        return [self._line(row, draw) for row, draw in zip(range(first, end), zip(*parts, strict=True), strict=True)]

    def _line(self, row: int, draw: tuple[int, ...]) -> str:
        wait, length, start, goal, extra, luck = draw
        turn, driver = divmod(row, self.drivers)
        pickup = _BEGIN + timedelta(seconds=turn * _TURN_S + wait * _TURN_S // 4096)
        ride_s = _TURN_S // 4 + length * _TURN_S // 4096
        distance = round(ride_s / 200 + extra / 500, 2)
        if luck < _DIRTY * 1024:
            distance = -distance  # a cleaning step must remove these
        fare, tip = round(2.5 + 2.5 * abs(distance), 2), round(extra / 200, 2)
        return (
            f"d{driver:04d},{pickup},{pickup + timedelta(seconds=ride_s)},{1 + start % _ZONES},{1 + goal % _ZONES},"
            f"{1 + extra % 4},{distance},{1 + luck % 2},{fare},{tip},{fare + tip:.2f}"
        )


@dataclass(frozen=True, slots=True)
class RecordedRides:
    """Rides of a TLC file, repeated; every pass through the file is a month later."""

    path: str
    drivers: int = 24

    def texts(self, first: int, end: int) -> list[str]:
        rides = _recorded(self.path)
        lines = []
        for row in range(first, end):
            turn, ride = divmod(row, len(rides))
            pickup, dropoff, rest = rides[ride]
            later = turn * _CYCLE
            lines.append(f"d{row % self.drivers:04d},{pickup + later},{dropoff + later},{rest}")
        return lines


@lru_cache(maxsize=2)
def _recorded(path: str) -> list[tuple[datetime, datetime, str]]:
    try:
        with Path(path).open(newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file)
            missing = set(_COLUMNS) - set(reader.fieldnames or ())
            if missing:
                raise InvalidInput(f"rides {path}: no column {min(missing)!r}; a file of TLC yellow-taxi rides has it")
            rides = [_ride([row[column] for column in _COLUMNS]) for row in reader]
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"rides {path}: cannot be read ({error})") from None
    except ValueError as error:
        raise InvalidInput(f"rides {path}: a pick-up or drop-off is not a valid time ({error})") from None
    if not rides:
        raise InvalidInput(f"rides {path}: has no rides")
    return sorted(rides, key=lambda ride: ride[0])


def _ride(fields: list[str]) -> tuple[datetime, datetime, str]:
    return iso_time(fields[0]), iso_time(fields[1]), ",".join(fields[2:])
