"""Recurring time spans: a cron line in a time zone gives the start, a duration the length.

Cron lines are parsed here. The controller only needs to know whether a span is open at a given time. The cron packages
(croniter, cronsim) do not answer that directly, and a job's driver should not need one more dependency.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass
from datetime import date, datetime, timedelta, tzinfo
from difflib import get_close_matches
from functools import lru_cache
from zoneinfo import ZoneInfo, available_timezones

from tidegate.domain.python310 import UTC

_UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*([smhd])")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_LONGEST_MONTH = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_LEAP_CYCLE_DAYS = 8 * 366 + 1
"""29 February recurs within eight years, even around 2100, which is not a leap year."""
_MOST_LINKS = 10_000
_FORESEEN_S = 400 * 86400.0
"""An unbroken chain of spans longer than a year counts as endless."""


def parse_duration_s(text: str | float) -> float:
    """Return the seconds of a duration such as `90s`, `15m`, `3h`, `2d` or `1h 30m`; a bare number is seconds.

    >>> [parse_duration_s(text) for text in ("90s", "15m", "3h", "1h 30m", 45)]
    [90.0, 900.0, 10800.0, 5400.0, 45.0]
    """
    if isinstance(text, int | float) and not isinstance(text, bool):
        return float(text)
    parts = _DURATION.findall(str(text).strip())
    if not parts or _DURATION.sub("", str(text)).strip():
        raise ValueError(f"{text!r} is not a duration: write 90s, 15m, 3h or 2d")
    return float(sum(float(number) * _UNITS_S[unit] for number, unit in parts))


def duration_text(seconds: float) -> str:
    """Format a duration in its largest whole unit.

    >>> [duration_text(seconds) for seconds in (90, 900, 10800, 172800, 0.5)]
    ['90s', '15m', '3h', '2d', '0.5s']
    """
    for unit in ("d", "h", "m"):
        if seconds and seconds % _UNITS_S[unit] == 0:
            return f"{seconds / _UNITS_S[unit]:g}{unit}"
    return f"{seconds:.15g}s"


@lru_cache(maxsize=16)
def time_zone(name: str) -> tzinfo:
    """Return the time zone with this name. UTC needs no time zone database."""
    if name == "UTC":
        return UTC
    known = available_timezones()
    if name in known:
        return ZoneInfo(name)
    close = get_close_matches(name, sorted(known), n=1)
    meant = f"; did you mean {close[0]}?" if close else ": write a name such as Europe/Berlin"
    raise ValueError(f"unknown time zone {name!r}{meant}")


@dataclass(frozen=True, slots=True)
class Cron:
    """The five fields of a cron line as sets of numbers.

    As in Vixie cron, a day matches when its day of the month *or* its day of the week does, if both are restricted.

    >>> weekdays = Cron.parse("0,30 7-8 * * mon-fri")
    >>> sorted(weekdays.minutes), sorted(weekdays.hours), sorted(weekdays.weekdays)
    ([0, 30], [7, 8], [1, 2, 3, 4, 5])
    >>> Cron.parse("61 * * * *")
    Traceback (most recent call last):
    ValueError: cron '61 * * * *': minute 61 is outside 0 to 59
    """

    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    """Sunday is 0."""
    either_day: bool
    """Day of the month and day of the week are both restricted, so either of them is enough."""

    @classmethod
    def parse(cls, line: str) -> Cron:
        """Parse `minute hour day-of-month month day-of-week`: numbers, names, `*`, lists, ranges and steps."""
        fields = line.split()
        if len(fields) != 5:
            raise ValueError(
                f"cron {line!r}: needs five fields (minute hour day-of-month month day-of-week), not {len(fields)}"
            )
        try:
            weekdays = _field(fields[4], "day of the week", 0, 7, _WEEKDAYS, 0)
            cron = cls(
                minutes=_field(fields[0], "minute", 0, 59),
                hours=_field(fields[1], "hour", 0, 23),
                days=_field(fields[2], "day of the month", 1, 31),
                months=_field(fields[3], "month", 1, 12, _MONTHS, 1),
                weekdays=frozenset(weekday % 7 for weekday in weekdays),
                either_day=not fields[2].startswith("*") and not fields[4].startswith("*"),
            )
        except ValueError as error:
            raise ValueError(f"cron {line!r}: {error}") from None
        if not cron.either_day and all(min(cron.days) > _LONGEST_MONTH[month - 1] for month in cron.months):
            raise ValueError(f"cron {line!r}: no month in it has {min(cron.days)} days, so it never starts")
        return cron

    def on(self, day: date) -> bool:
        """Return whether a span can start on this day."""
        if day.month not in self.months:
            return False
        by_month, by_week = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        return (by_month or by_week) if self.either_day else (by_month and by_week)


def _field(
    text: str, name: str, least: int, most: int, names: tuple[str, ...] = (), first_name: int = 0
) -> frozenset[int]:
    """Return the numbers that one field matches."""

    def number(written: str) -> int:
        if written.lower() in names:
            return names.index(written.lower()) + first_name
        if not written.isascii() or not written.isdigit():
            known = f" or one of {', '.join(names)}" if names else ""
            raise ValueError(f"{name} {written!r} is not a number{known}")
        if not least <= int(written) <= most:
            raise ValueError(f"{name} {int(written)} is outside {least} to {most}")
        return int(written)

    found: set[int] = set()
    for part in text.split(","):
        span, slash, step = part.partition("/")
        if slash and (not step.isascii() or not step.isdigit() or int(step) == 0):
            raise ValueError(f"{name} {part!r}: a step must be a number above 0")
        low, dash, high = span.partition("-")
        if span == "*":
            first, last = least, most
        else:
            first = number(low)
            last = number(high) if dash else (most if slash else first)
        if last < first:
            raise ValueError(f"{name} {part!r}: a range must rise; write two ranges with a comma")
        found.update(range(first, last + 1, int(step) if slash else 1))
    return frozenset(found)


@dataclass(frozen=True, slots=True)
class Recurrence:
    """Spans of `lasts_s` elapsed seconds, each opened by a cron line in a time zone. Adjacent spans form one span.

    A start that the clock skips in spring happens at the jump. A start that occurs twice in autumn happens twice.

    >>> nights = Recurrence("0 22 * * *", 8 * 3600, "Europe/Berlin")
    >>> noon_s = datetime(2024, 7, 1, 12, tzinfo=UTC).timestamp()
    >>> nights.active(noon_s), nights.active(noon_s + 12 * 3600)
    (False, True)
    >>> opens_s = nights.next_change_s(noon_s)
    >>> str(datetime.fromtimestamp(opens_s, UTC))
    '2024-07-01 20:00:00+00:00'
    """

    cron: str
    lasts_s: float
    zone: str = "UTC"

    def active(self, time_s: float) -> bool:
        """Return whether a span is open at this instant. The start belongs to the span, the end does not."""
        start_s = self.last_start_s(time_s)
        return start_s is not None and time_s < start_s + self.lasts_s

    def last_start_s(self, time_s: float) -> float | None:
        """Return the latest start of a span that could still be open at `time_s`, or None."""
        day, oldest = self._day(time_s), self._day(time_s - self.lasts_s) - timedelta(days=1)
        while day >= oldest:
            starts = _starts(self.cron, self.zone, day)
            if place := bisect_right(starts, time_s):
                return starts[place - 1]
            day -= timedelta(days=1)
        return None

    def next_change_s(self, time_s: float) -> float | None:
        """Return when `active` next changes, or None if no change is foreseeable."""
        if self.active(time_s):
            return self._end_s(time_s)
        day = self._day(time_s)
        for _ in range(_LEAP_CYCLE_DAYS):
            starts = _starts(self.cron, self.zone, day)
            if (place := bisect_right(starts, time_s)) < len(starts):
                return starts[place]
            day += timedelta(days=1)
        return None

    def _end_s(self, time_s: float) -> float | None:
        """Return the end of the chain of adjacent spans."""
        end_s = time_s
        for _ in range(_MOST_LINKS):
            start_s = self.last_start_s(end_s)
            if start_s is None or start_s + self.lasts_s <= end_s:
                return end_s
            end_s = start_s + self.lasts_s
            if end_s > time_s + _FORESEEN_S:
                break
        return None

    def _day(self, time_s: float) -> date:
        return datetime.fromtimestamp(time_s, time_zone(self.zone)).date()


_QUARTER_S = 900.0


def day_start_s(time_s: float, zone: str) -> float:
    """Return the midnight before this instant in the time zone."""
    # Time zone offsets are multiples of 15 minutes, so the result is constant within a quarter of an hour. This lets
    # the
    # cache serve a caller that asks every second.
    return _day_start_s(time_s // _QUARTER_S * _QUARTER_S, zone)


@lru_cache(maxsize=64)
def _day_start_s(time_s: float, zone: str) -> float:
    day = datetime.fromtimestamp(time_s, time_zone(zone)).date()
    return _instants(datetime(day.year, day.month, day.day), time_zone(zone))[0]


def day_end_s(time_s: float, zone: str) -> float:
    """Return the midnight after this instant in the time zone. Days last 23 to 25 hours when clocks change."""
    day = datetime.fromtimestamp(time_s, time_zone(zone)).date() + timedelta(days=1)
    return _instants(datetime(day.year, day.month, day.day), time_zone(zone))[0]


@lru_cache(maxsize=1024)
def _starts(line: str, zone: str, day: date) -> tuple[float, ...]:
    """Return all starts of the cron line on one day of the time zone, in order."""
    cron, where = _parsed(line), time_zone(zone)
    if not cron.on(day):
        return ()
    midnight = datetime(day.year, day.month, day.day)
    times_s = sorted(hour * 3600.0 + minute * 60.0 for hour in cron.hours for minute in cron.minutes)
    start_s, end_s = (_instants(one, where)[0] for one in (midnight, midnight + timedelta(days=1)))
    if end_s - start_s == _UNITS_S["d"]:  # clocks do not change on this day
        return tuple(start_s + time_s for time_s in times_s)
    walls = (midnight + timedelta(seconds=time_s) for time_s in times_s)
    return tuple(sorted({instant for wall in walls for instant in _instants(wall, where)}))


@lru_cache(maxsize=256)
def _parsed(line: str) -> Cron:
    return Cron.parse(line)


def _instants(wall: datetime, zone: tzinfo) -> tuple[float, ...]:
    """Return when clocks in the zone show this time: once, twice if they go back, or at the jump that skips it."""
    first_s, second_s = (wall.replace(tzinfo=zone, fold=fold).timestamp() for fold in (0, 1))
    if first_s == second_s:
        return (first_s,)
    if first_s < second_s:
        return (first_s, second_s)
    # Skipped: before the jump clocks stand at the second reading, after it at the first (PEP 495).
    low_s, high_s = int(second_s), int(first_s)
    while high_s - low_s > 1:
        middle_s = (low_s + high_s) // 2
        jumped = datetime.fromtimestamp(middle_s, zone).replace(tzinfo=None) > wall
        low_s, high_s = (low_s, middle_s) if jumped else (middle_s, high_s)
    return (float(high_s),)
