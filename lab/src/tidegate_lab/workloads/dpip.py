"""A data pipeline over taxi rides (DPIP): parse → clean → zone join → windowed aggregate → sink.

Two queries share the pipeline: `fares` by borough and window, and `breaks`, the time each driver spends without a
passenger. Windows use the event time of the rides, which runs faster than real time.
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
from tidegate_lab.workloads.gsm import stretched
from tidegate_lab.workloads.replay_source import Replay
from tidegate_lab.workloads.topic import Topic

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
    """The recipe of one query; pass `build` to `gate.start`."""

    query: DpipQuery
    load: LoadProfile
    rows: int | None = None
    start_ms: int | None = None
    rides: str | None = None
    """A file of recorded TLC rides; by default rides are synthetic."""
    zones: str | None = None
    """A file of zones (LocationID, zone, borough); by default zone numbers are assigned to boroughs in turn."""
    rounds: int = 1
    """Number of hash rounds for a driver's pseudonym: scales the cost of a row."""
    source_tasks: int = 2
    trigger_s: float = 5.0
    topic: Topic | None = None
    """The Kafka topic to read instead of generating the load."""

    def build(self, spark: SparkSession, settings: Settings) -> DataStreamWriter:
        replay = Replay(self.load, content(self.rides), self.rows, self.start_ms, self.source_tasks)
        rides = cleaned(parsed((self.topic or replay).frame(spark, settings)), self.rounds)
        spark.conf.set("spark.sql.shuffle.partitions", "1")  # used by the query when it starts
        counted = fares(rides, zone_table(spark, self.zones)) if self.query == "fares" else breaks(rides)
        return (
            counted.writeStream.outputMode("update")
            .format("noop")
            .trigger(**settings.trigger(self.trigger_s))
            .option("checkpointLocation", settings.checkpoint)
        )


def content(rides: str | None) -> str:
    """Return the content of the rows: recorded rides if there is a file, otherwise synthetic ones."""
    return "rides" if rides is None else f"rides:{rides}"


def parsed(lines: DataFrame) -> DataFrame:
    """Parse the fields of a line. Fields that cannot be parsed are null."""
    parts = lines.select(F.split("value", ",").alias("part"))
    fields = [F.get("part", F.lit(position)).alias(name) for position, name in enumerate(FIELDS.split(","))]
    named = parts.select(*fields)
    return named.select(*(F.col(name).try_cast(_TYPES.get(name, "string")).alias(name) for name in named.columns))


def cleaned(rides: DataFrame, rounds: int = 1) -> DataFrame:
    """Return plausible rides, with the driver replaced by a pseudonym."""
    possible = rides.where(
        "dropoff > pickup AND distance > 0 AND fare >= 0 AND `from` IS NOT NULL AND `to` IS NOT NULL"
    )
    return possible.withColumn("driver", stretched(F.col("driver"), rounds))


def fares(rides: DataFrame, zones: DataFrame) -> DataFrame:
    """Return rides (of known drivers), distance and revenue by borough of departure and window."""
    at = rides.join(F.broadcast(zones), rides["from"] == zones["zone_id"])
    return (
        at.withWatermark("pickup", _LATENESS)
        .groupBy(F.window("pickup", WINDOW), "borough")
        .agg(F.count("driver").alias("rides"), F.sum("distance").alias("miles"), F.sum("total").alias("takings"))
    )


def breaks(rides: DataFrame) -> DataFrame:
    """Return, per driver and window, the time from first pick-up to last drop-off that was not spent on rides."""
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
        # Collected once, because a file scan in the join would be a separate job in every batch.
        found = [(row.LocationID, row.borough) for row in table.select("LocationID", "borough").collect()]
    else:
        found = [(zone, _BOROUGHS[zone % len(_BOROUGHS)]) for zone in range(1, 266)]
    return spark.createDataFrame(found, "zone_id INT, borough STRING")
