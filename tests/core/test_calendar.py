"""Recurring times: cron lines as they are written, and spans against a walk over every minute, jumps included."""

from datetime import datetime, timedelta
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.domain.calendar import (
    Cron,
    Recurrence,
    day_end_s,
    day_start_s,
    duration_text,
    parse_duration_s,
    time_zone,
)
from tidegate.domain.python310 import UTC

HOUR_S = 3600
JUMPS = {
    "Europe/Berlin": [datetime(2024, 3, 31, tzinfo=UTC), datetime(2024, 10, 27, tzinfo=UTC)],
    "America/New_York": [datetime(2024, 3, 10, tzinfo=UTC), datetime(2024, 11, 3, tzinfo=UTC)],
    "Australia/Lord_Howe": [datetime(2024, 4, 6, tzinfo=UTC), datetime(2024, 10, 5, tzinfo=UTC)],
    "UTC": [datetime(2024, 2, 29, tzinfo=UTC), datetime(2023, 12, 31, tzinfo=UTC)],
}
"""Days around which clocks change (by half an hour on Lord Howe), and for UTC days at which calendars do."""


def field(least: int, most: int) -> st.SearchStrategy[str]:
    number = st.integers(least, most)
    span = st.tuples(number, number).map(lambda pair: f"{min(pair)}-{max(pair)}")
    step = st.tuples(st.one_of(st.just("*"), span), st.integers(1, 20)).map(lambda pair: f"{pair[0]}/{pair[1]}")
    return st.one_of(
        st.just("*"), st.lists(st.one_of(number.map(str), span, step), min_size=1, max_size=2).map(",".join)
    )


crons = st.tuples(field(0, 59), field(0, 23), field(1, 28), field(1, 12), field(0, 7)).map(" ".join)


@cache
def field_holds(text: str, value: int, least: int, most: int) -> bool:
    for part in text.split(","):
        span, _, step = part.partition("/")
        low, _, high = (f"{least}-{most}" if span == "*" else span).partition("-")
        last = int(high) if high else most if step else int(low)
        if int(low) <= value <= last and (value - int(low)) % int(step or 1) == 0:
            return True
    return False


def matches(cron: str, wall: datetime) -> bool:
    """The same rule, written down a second time: field by field, without sets."""
    minute, hour, day, month, weekday = cron.split()
    if not field_holds(minute, wall.minute, 0, 59) or not field_holds(hour, wall.hour, 0, 23):
        return False
    by_day = field_holds(day, wall.day, 1, 31)
    by_week = any(field_holds(weekday, value, 0, 7) for value in {wall.isoweekday(), wall.isoweekday() % 7})
    days = (by_day or by_week) if day[0] != "*" and weekday[0] != "*" else (by_day and by_week)
    return days and field_holds(month, wall.month, 1, 12)


def walked_starts(cron: str, zone: str, since_s: float, until_s: float) -> list[float]:
    """Every start, by looking at the clock of the zone at every minute and at all it shows or skips."""
    found = []
    before = datetime.fromtimestamp(since_s - 60, time_zone(zone)).replace(tzinfo=None)
    for time_s in range(int(since_s), int(until_s), 60):
        shown = datetime.fromtimestamp(time_s, time_zone(zone)).replace(tzinfo=None)
        skipped = [before + timedelta(minutes=i) for i in range(1, int((shown - before).total_seconds() // 60))]
        if any(matches(cron, wall) for wall in (*skipped, shown)):
            found.append(float(time_s))
        before = shown
    return found


@settings(max_examples=25, deadline=None)
@given(
    cron=crons,
    zone=st.sampled_from(sorted(JUMPS)),
    jump=st.integers(0, 1),
    lasts_min=st.one_of(st.integers(1, 90), st.integers(1, 24 * 60)),
    asked_min=st.lists(st.integers(0, 36 * 60), min_size=1, max_size=8),
)
def test_spans_are_those_of_a_walk_over_every_minute(
    cron: str, zone: str, jump: int, lasts_min: int, asked_min: list[int]
) -> None:
    begin_s = JUMPS[zone][jump].timestamp() - 6 * HOUR_S
    lasts_s = lasts_min * 60
    starts = walked_starts(cron, zone, begin_s - lasts_s - 60, begin_s + 40 * HOUR_S)
    covered = {start_s + 60 * minute for start_s in starts for minute in range(lasts_min)}
    spans = Recurrence(cron, lasts_s, zone)

    def walked(time_s: float) -> bool:
        return time_s in covered

    for minute in asked_min:
        time_s = begin_s + 60 * minute
        now = walked(time_s)
        assert spans.active(time_s) == now
        change_s = spans.next_change_s(time_s)
        minutes = range(minute + 1, 40 * 60)
        expected = next((begin_s + 60 * m for m in minutes if walked(begin_s + 60 * m) != now), None)
        if expected is None:
            assert change_s is None or change_s >= begin_s + 40 * HOUR_S
        else:
            assert change_s == expected


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("0 7 * *", "needs five fields"),
        ("60 * * * *", "minute 60 is outside 0 to 59"),
        ("* * 0 * *", "day of the month 0 is outside 1 to 31"),
        ("* * * foo *", "month 'foo' is not a number or one of jan"),
        ("*/0 * * * *", "a step must be a number above 0"),
        ("* * * * fri-mon", "a range must rise"),
        ("* -3 * * *", "hour '' is not a number"),
        ("0 0 31 feb,apr *", "never starts"),
        ("0 0 30 2 *", "never starts"),
    ],
)
def test_what_is_no_cron_line(line: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Cron.parse(line)


def test_names_steps_and_both_sundays() -> None:
    assert Cron.parse("5/20 * * JAN-mar sun").minutes == {5, 25, 45}
    assert Cron.parse("0 0 * jan-mar *").months == {1, 2, 3}
    assert Cron.parse("0 0 * * 7").weekdays == Cron.parse("0 0 * * 0").weekdays == {0}
    assert Cron.parse("0 0 * * 5-7").weekdays == {5, 6, 0}


def test_two_restricted_days_mean_either() -> None:
    first_or_friday = Recurrence("0 0 1 * fri", 60)
    starts = [datetime(2024, 3, day, tzinfo=UTC).timestamp() for day in (1, 8, 15, 22, 29)]
    starts.append(datetime(2024, 4, 1, tzinfo=UTC).timestamp())
    assert all(first_or_friday.active(start_s) for start_s in starts)
    assert not first_or_friday.active(datetime(2024, 3, 2, tzinfo=UTC).timestamp())


def test_a_start_that_clocks_skip_comes_with_the_jump() -> None:
    skipped = Recurrence("30 2 * * *", 600, "Europe/Berlin")
    jump_s = datetime(2024, 3, 31, 1, tzinfo=UTC).timestamp()
    assert [skipped.active(jump_s + offset_s) for offset_s in (-1, 0, 599, 600)] == [False, True, True, False]


def test_a_weekend_and_the_leap_day() -> None:
    weekend = Recurrence("0 18 * * 5", 62 * HOUR_S)
    friday = datetime(2024, 6, 7, 18, tzinfo=UTC)
    assert weekend.next_change_s((friday - timedelta(hours=1)).timestamp()) == friday.timestamp()
    assert weekend.next_change_s(friday.timestamp()) == (friday + timedelta(hours=62)).timestamp()
    leap_day = Recurrence("0 0 29 2 *", 60)
    after_s, next_s = (datetime(*day, tzinfo=UTC).timestamp() for day in ((2096, 3, 1), (2104, 2, 29)))
    assert leap_day.next_change_s(after_s) == next_s


def test_what_never_ends_has_no_next_change() -> None:
    assert Recurrence("0 0 * * *", 24 * HOUR_S).next_change_s(0.0) is None


def test_days_are_as_long_as_clocks_make_them() -> None:
    jump_s = datetime(2024, 3, 31, 12, tzinfo=UTC).timestamp()
    assert day_end_s(jump_s, "Europe/Berlin") - day_start_s(jump_s, "Europe/Berlin") == 23 * HOUR_S
    assert day_end_s(jump_s, "UTC") - day_start_s(jump_s, "UTC") == 24 * HOUR_S


@pytest.mark.parametrize("text", ["3", "h", "3 hours", "-3h", "", "3h and more", "1e3s"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration: write 90s"):
        parse_duration_s(text)


@given(st.integers(1, 10**7))
def test_a_duration_survives_being_written_down(seconds: int) -> None:
    assert parse_duration_s(duration_text(seconds)) == seconds


def test_a_time_zone_that_is_misspelt() -> None:
    with pytest.raises(ValueError, match="unknown time zone 'Europe/Berln'; did you mean Europe/Berlin"):
        time_zone("Europe/Berln")
