"""Nexmark's queries in PySpark: DataFrame in, DataFrame out, the same for streams and batches.

| query | what it does | state |
|---|---|---|
| q1 | prices of bids in another currency | none |
| q2 | bids on chosen auctions | none |
| q3 | who sells in category 10 in three states: a join without a time limit | grows |
| q5 | the auction with the most bids in each sliding window | windows |
| q8 | people who opened an auction in the window in which they registered | windows |
| q11 | bids of each person by session of activity | sessions |

`parse` reads the lines of `tidegate.load.Nexmark`. In a stream, windows close `LATENESS` after the newest event.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidegate_lab.workloads.nexmark_terms import CATEGORY, CHOSEN, EUROS_PER_DOLLAR, GAP_MS, SLIDE_MS, STATES, WINDOW_MS

WINDOW, SLIDE, GAP = (f"{span_ms} milliseconds" for span_ms in (WINDOW_MS, SLIDE_MS, GAP_MS))
LATENESS = "2 seconds"


class Events(NamedTuple):
    """The three streams of the auction site."""

    persons: DataFrame
    auctions: DataFrame
    bids: DataFrame


def parse(lines: DataFrame, lateness: str = LATENESS) -> Events:
    """From a frame with a column `value`."""
    parts = lines.select(F.split("value", r"\|").alias("part"))

    def column(place: int, kind: str, name: str) -> Column:
        return F.col("part")[place].cast(kind).alias(name)

    def of(mark: str, time_place: int, *columns: Column) -> DataFrame:
        time = (F.col("part")[time_place].cast("long") / 1000).cast("timestamp").alias("time")
        return parts.where(F.col("part")[0] == mark).select(*columns, time).withWatermark("time", lateness)

    return Events(
        persons=of(
            "P", 5, column(1, "long", "id"), column(2, "string", "name"), column(3, "string", "city"),
            column(4, "string", "state"),
        ),
        auctions=of(
            "A", 5, column(1, "long", "id"), column(2, "long", "seller"), column(3, "long", "category"),
            column(4, "long", "initial"),
        ),
        bids=of("B", 4, column(1, "long", "auction"), column(2, "long", "bidder"), column(3, "long", "price")),
    )  # fmt: skip


def q1(events: Events) -> DataFrame:
    """Currency conversion."""
    euros = (F.col("price") * EUROS_PER_DOLLAR).alias("price")
    return events.bids.select("auction", "bidder", euros, "time")


def q2(events: Events) -> DataFrame:
    """Selection."""
    return events.bids.where(F.col("auction") % CHOSEN == 0).select("auction", "price")


def q3(events: Events) -> DataFrame:
    """Local item suggestion. Both sides are kept forever, because a person may sell at any later time."""
    people = events.persons.where(F.col("state").isin(*STATES)).select("id", "name", "city", "state")
    sold = events.auctions.where(F.col("category") == CATEGORY).select(F.col("id").alias("auction"), "seller")
    return people.join(sold, people["id"] == sold["seller"]).select("name", "city", "state", "auction")


def q5(events: Events) -> DataFrame:
    """Hot items. Ties go to the auction with the smallest number."""
    counted = events.bids.groupBy(F.window("time", WINDOW, SLIDE), "auction").agg(F.count("*").alias("bids"))
    hottest = F.max(F.struct(F.col("bids"), (-F.col("auction")).alias("behind"))).alias("hot")
    return (
        counted.groupBy("window")
        .agg(hottest)
        .select(F.col("window.start").alias("start"), (-F.col("hot.behind")).alias("auction"), F.col("hot.bids"))
    )


def q8(events: Events) -> DataFrame:
    """Monitoring new users: each once per window, regardless of the number of auctions."""
    came = events.persons.select("id", "name", F.window("time", WINDOW).alias("came"))
    opened = (
        events.auctions.select("seller", F.window("time", WINDOW).alias("opened"))
        .groupBy("opened", "seller")
        .agg(F.count("*").alias("auctions"))
    )
    same = (came["id"] == opened["seller"]) & (came["came"] == opened["opened"])
    return came.join(opened, same).select("id", "name", F.col("came.start").alias("start"))


def q11(events: Events) -> DataFrame:
    """User sessions."""
    return (
        events.bids.groupBy(F.session_window("time", GAP), "bidder")
        .agg(F.count("*").alias("bids"))
        .select(
            "bidder", "bids", F.col("session_window.start").alias("start"), F.col("session_window.end").alias("end")
        )
    )


QUERIES: dict[str, Callable[[Events], DataFrame]] = {"q1": q1, "q2": q2, "q3": q3, "q5": q5, "q8": q8, "q11": q11}
