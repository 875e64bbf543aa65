"""The source that workloads share: replayable rows of a load, gated, with measured latency."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from tidegate.adapters.spark.settings import Settings
from tidegate.adapters.spark.topology import track_latency
from tidegate.load import LoadProfile
from tidegate.load.profile import profile_to_json


@dataclass(frozen=True, slots=True)
class Replay:
    """The options of a `format("tidegate")` source."""

    load: LoadProfile
    content: str
    rows: int | None = None
    """The load ends after this many rows."""
    start_ms: int | None = None
    tasks: int = 2

    def frame(self, spark: SparkSession, settings: Settings) -> DataFrame:
        options = {
            "load": profile_to_json(self.load),
            "content": self.content,
            "partitions": self.tasks,
            "gate": settings.gate,
            "rows": self.rows,
            "start_ms": self.start_ms,
        }
        given = {name: str(value) for name, value in options.items() if value is not None}
        return track_latency(spark.readStream.format("tidegate").options(**given).load(), "event_time")
