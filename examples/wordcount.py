"""A streaming job that Tidegate may restart with other settings: tidegate run examples/wordcount.py --duration 60"""

from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamWriter

from tidegate import Settings, Topology

LOAD = '{"kind": "burst", "base": 200, "peak": 600, "start_s": 30, "duration_s": 60}'


def build(spark: SparkSession, settings: Settings) -> DataStreamWriter:
    lines = spark.readStream.format("tidegate").option("load", LOAD).option("gate", settings.gate).load()
    flow = (
        Topology.source("lines", lines, event_time="event_time", settings=settings)
        .operator("split", lambda rows: rows.select(F.explode(F.split("value", " ")).alias("word")), parallelism=2)
        .stateful("count", lambda words: words.groupBy("word").count())
    )
    return (
        flow.frame.writeStream.outputMode("update")
        .format("noop")
        .option("checkpointLocation", settings.checkpoint)
        .trigger(**settings.trigger(1.0))
    )
