"""Events of the Nexmark benchmark as lines of text: persons, auctions and bids of an auction site, 1 : 3 : 46.

Event i depends only on i and the seed, and its event time is i ÷ `events_per_s`, so any run can be verified:

    P|id|name|city|state|time_ms          A|id|seller|category|initial|time_ms          B|auction|bidder|price|time_ms

As in the original generator (Tucker et al., as in Beam), half of the bids go to one hot auction in a hundred, and
a quarter of the bids come from a hot bidder; sellers are hot in the same way.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tidegate.load.mixing import Words, mixed, seeded

PERSONS, AUCTIONS, EPOCH = 1, 3, 50
"""Of the 50 events of an epoch, the first is a person, the next three are auctions, and the others are bids."""
STATES = ("AZ", "CA", "ID", "OR", "WA", "WY")
CITIES = ("Phoenix", "Los Angeles", "Boise", "Portland", "Seattle", "Cheyenne")
_NAMES = ("Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah", "Deiter", "Walter")
CATEGORIES = 5
FIRST_CATEGORY = 10
_ACTIVE_PERSONS, _OPEN_AUCTIONS = 1000, 100
_HOT = 100
"""The hot auction, seller or bidder is the newest one whose number is a multiple of this."""


@dataclass(frozen=True, slots=True)
class Nexmark:
    """The events, starting from any index.

    >>> [line.split("|")[0] for line in Nexmark().texts(0, 6)]
    ['P', 'A', 'A', 'A', 'B', 'B']
    >>> Nexmark().texts(120, 122) == Nexmark().texts(100, 150)[20:22]
    True
    """

    events_per_s: int = 1000
    seed: int = 0

    def texts(self, first: int, end: int) -> list[str]:
        cells = np.arange(first * 4, end * 4, dtype=np.uint64)
        drawn: Words = mixed(seeded(cells, self.seed)).reshape(-1, 4)
        words = drawn.tolist()
        return [self._text(index, words[index - first]) for index in range(first, end)]

    def _text(self, index: int, drawn: list[int]) -> str:
        epoch, place = divmod(index, EPOCH)
        time_ms = index * 1000 // self.events_per_s
        if place < PERSONS:
            home = drawn[0] % len(STATES)
            name = _NAMES[drawn[1] % len(_NAMES)]
            return f"P|{epoch}|{name} {drawn[2] % 1000}|{CITIES[home]}|{STATES[home]}|{time_ms}"
        if place < PERSONS + AUCTIONS:
            number = epoch * AUCTIONS + place - PERSONS
            seller = _hot_or(epoch, drawn[0], drawn[1], 4, _ACTIVE_PERSONS)
            category = FIRST_CATEGORY + drawn[2] % CATEGORIES
            return f"A|{number}|{seller}|{category}|{_price(drawn[3])}|{time_ms}"
        auction = _hot_or((epoch + 1) * AUCTIONS - 1, drawn[0], drawn[1], 2, _OPEN_AUCTIONS)
        bidder = _hot_or(epoch, drawn[1] >> 32, drawn[2], 4, _ACTIVE_PERSONS)
        return f"B|{auction}|{bidder}|{_price(drawn[3])}|{time_ms}"


def _hot_or(newest: int, coin: int, drawn: int, one_in: int, among: int) -> int:
    """Return the hot number once in `one_in`, otherwise one of the newest `among`."""
    if coin % one_in == 0:
        return newest // _HOT * _HOT
    return newest - drawn % min(newest + 1, among)


def _price(drawn: int) -> int:
    """Return a price in cents, spread evenly over six orders of magnitude."""
    return round(100 * math.pow(10.0, drawn / 2.0**64 * 6))
