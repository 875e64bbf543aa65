"""Nexmark's query 5 as a stream under Tidegate: tidegate run examples/nexmark.py --duration 60

Set QUERY to q1, q2, q3, q5, q8 or q11.
"""

import os

from pyspark.sql import SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from tidegate import Settings
from tidegate_lab.workloads.nexmark import QUERIES, parse

LOAD = '{"kind": "sinusoid", "baseline": 1500, "amplitude": 1000, "period_s": 120}'
QUERY = os.environ.get("QUERY", "q5")


def build(spark: SparkSession, settings: Settings) -> DataStreamWriter:
    source = spark.readStream.format("tidegate").option("load", LOAD).option("content", "nexmark")
    lines = source.option("gate", settings.gate).load()
    return (
        QUERIES[QUERY](parse(lines))
        .writeStream.outputMode("append")
        .format("noop")
        .option("checkpointLocation", settings.checkpoint)
        .trigger(**settings.trigger(1.0))
    )
