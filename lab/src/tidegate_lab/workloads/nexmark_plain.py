"""Nexmark's queries as plain loops over lines, the reference for Spark's results."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator

from tidegate_lab.workloads.nexmark_terms import CATEGORY, CHOSEN, EUROS_PER_DOLLAR, GAP_MS, SLIDE_MS, STATES, WINDOW_MS

Row = tuple[object, ...]


def _of(mark: str, lines: Iterable[str]) -> Iterator[list[str]]:
    return (parts[1:] for line in lines if (parts := line.split("|"))[0] == mark)


def q1(lines: list[str]) -> list[Row]:
    return [
        (int(auction), int(bidder), round(int(price) * EUROS_PER_DOLLAR, 6), int(time))
        for auction, bidder, price, time in _of("B", lines)
    ]


def q2(lines: list[str]) -> list[Row]:
    return [(int(auction), int(price)) for auction, _, price, _ in _of("B", lines) if int(auction) % CHOSEN == 0]


def q3(lines: list[str]) -> list[Row]:
    people = {person[0]: tuple(person[1:4]) for person in _of("P", lines) if person[3] in STATES}
    return [
        (*people[seller], int(auction))
        for auction, seller, category, _, _ in _of("A", lines)
        if int(category) == CATEGORY and seller in people
    ]


def q5(lines: list[str]) -> list[Row]:
    windows: dict[int, Counter[int]] = defaultdict(Counter)
    for auction, _, _, time in _of("B", lines):
        newest = int(time) // SLIDE_MS * SLIDE_MS
        for start in range(newest, newest - WINDOW_MS, -SLIDE_MS):
            windows[start][int(auction)] += 1
    found: list[Row] = []
    for start, counts in windows.items():
        hottest, bids = min(counts.items(), key=lambda item: (-item[1], item[0]))
        found.append((start, hottest, bids))
    return found


def q8(lines: list[str]) -> list[Row]:
    opened = {(seller, int(time) // WINDOW_MS) for _, seller, _, _, time in _of("A", lines)}
    return [
        (int(person), name, int(time) // WINDOW_MS * WINDOW_MS)
        for person, name, _, _, time in _of("P", lines)
        if (person, int(time) // WINDOW_MS) in opened
    ]


def q11(lines: list[str]) -> list[Row]:
    """A session ends `GAP_MS` after its last bid. A bid at exactly that time starts another one."""
    times: dict[int, list[int]] = defaultdict(list)
    for _, bidder, _, time in _of("B", lines):
        times[int(bidder)].append(int(time))
    found: list[Row] = []
    for person, bids in times.items():
        bids.sort()
        first, count = bids[0], 0
        for place, bid_ms in enumerate(bids):
            if place and bid_ms >= bids[place - 1] + GAP_MS:
                found.append((person, count, first, bids[place - 1] + GAP_MS))
                first, count = bid_ms, 0
            count += 1
        found.append((person, count, first, bids[-1] + GAP_MS))
    return found


QUERIES = {"q1": q1, "q2": q2, "q3": q3, "q5": q5, "q8": q8, "q11": q11}
