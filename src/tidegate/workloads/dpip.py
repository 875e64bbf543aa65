"""A data pipeline over taxi rides (DPIP): parse → clean → zone join → windowed aggregate → sink.

Two queries share the pipeline: `fares` by borough and window, and `breaks`, the time each driver spends without a
passenger. Windows are in the time of the rides, which runs faster than the clock on the wall.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamWriter

from tidegate.adapters.spark.settings import Settings
from tidegate.load import LoadProfile
from tidegate.load.rides import FIELDS
from tidegate.workloads.gsm import stretched
from tidegate.workloads.replay import Replay
from tidegate.workloads.topic import Topic

DpipQuery = Literal["fares", "breaks"]
WINDOW = "8 hours"
_LATENESS = "1 hour"
_TYPES = {
    "pickup": "timestamp",
    "dropoff": "timestamp",
    "from": "int",
    "to": "int",
    "passengers": "int",
    "distance": "double",
    "fare": "double",
    "tip": "double",
    "total": "double",
}
_BOROUGHS = ("Manhattan", "Queens", "Brooklyn", "Bronx", "Staten Island", "EWR")


@dataclass(frozen=True, slots=True)
class Dpip:
    """The recipe of one query; `build` is what `gate.start` wants."""

    query: DpipQuery
    load: LoadProfile
    rows: int | None = None
    start_ms: int | None = None
    rides: str | None = None
    """A file of recorded TLC rides; without it the rides are made up."""
    zones: str | None = None
    """A file of zones (LocationID, zone, borough); without it zone numbers are dealt to the boroughs."""
    rounds: int = 1
    """How often a driver's name is digested before it is stored: what a pseudonym costs."""
    source_tasks: int = 2
    trigger_s: float = 5.0
    topic: Topic | None = None
    """Where the rows come from, if not from the load itself."""

    def build(self, spark: SparkSession, settings: Settings) -> DataStreamWriter:
        replay = Replay(self.load, content(self.rides), self.rows, self.start_ms, self.source_tasks)
        rides = cleaned(parsed((self.topic or replay).frame(spark, settings)), self.rounds)
        spark.conf.set("spark.sql.shuffle.partitions", "1")  # taken over by the query when it starts
        counted = fares(rides, zone_table(spark, self.zones)) if self.query == "fares" else breaks(rides)
        return (
            counted.writeStream.outputMode("update")
            .format("noop")
            .trigger(**settings.trigger(self.trigger_s))
            .option("checkpointLocation", settings.checkpoint)
        )


def content(rides: str | None) -> str:
    """What the rows say: recorded rides where there is a file of them."""
    return "rides" if rides is None else f"rides:{rides}"


def parsed(lines: DataFrame) -> DataFrame:
    """Fields out of the line; what cannot be read as its type is null."""
    parts = lines.select(F.split("value", ",").alias("part"))
    fields = [F.get("part", F.lit(position)).alias(name) for position, name in enumerate(FIELDS.split(","))]
    named = parts.select(*fields)
    return named.select(*(F.col(name).try_cast(_TYPES.get(name, "string")).alias(name) for name in named.columns))


def cleaned(rides: DataFrame, rounds: int = 1) -> DataFrame:
    """Rides that can have happened, with the driver under a pseudonym."""
    possible = rides.where(
        "dropoff > pickup AND distance > 0 AND fare >= 0 AND `from` IS NOT NULL AND `to` IS NOT NULL"
    )
    return possible.withColumn("driver", stretched(F.col("driver"), rounds))


def fares(rides: DataFrame, zones: DataFrame) -> DataFrame:
    """Rides (of known drivers), distance and takings by borough of departure and window."""
    at = rides.join(F.broadcast(zones), rides["from"] == zones["zone_id"])
    return (
        at.withWatermark("pickup", _LATENESS)
        .groupBy(F.window("pickup", WINDOW), "borough")
        .agg(F.count("driver").alias("rides"), F.sum("distance").alias("miles"), F.sum("total").alias("takings"))
    )


def breaks(rides: DataFrame) -> DataFrame:
    """Per driver and window: from the first pick-up to the last drop-off, what was not spent in a ride."""
    span_s = F.unix_timestamp(F.max("dropoff")) - F.unix_timestamp(F.min("pickup"))
    ride_s = F.sum(F.unix_timestamp("dropoff") - F.unix_timestamp("pickup"))
    return (
        rides.withWatermark("pickup", _LATENESS)
        .groupBy(F.window("pickup", WINDOW), "driver")
        .agg(F.count(F.lit(1)).alias("rides"), (span_s - ride_s).alias("break_s"))
    )


def zone_table(spark: SparkSession, path: str | None) -> DataFrame:
    """`zone_id` → `borough`."""
    if path is not None:
        table = spark.read.csv(path, header=True, schema="LocationID INT, zone STRING, borough STRING")
        # Collected once: a file scan in the join would be a job of its own in every batch.
        found = [(row.LocationID, row.borough) for row in table.select("LocationID", "borough").collect()]
    else:
        found = [(zone, _BOROUGHS[zone % len(_BOROUGHS)]) for zone in range(1, 266)]
    return spark.createDataFrame(found, "zone_id INT, borough STRING")
