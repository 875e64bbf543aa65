"""Names the operators of a query, and gives each its own parallelism and row counts.

An operator is what runs between two exchanges. `Topology` writes exchange, counter, body, in this order. Without the
counter right after the exchange, Spark would move filters, even Python ones, in front of it, into the operator before.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidegate.adapters.spark.latency import EDGES_S
from tidegate.adapters.spark.settings import Settings
from tidegate.adapters.spark.sparkfeatures import has_sketches
from tidegate.domain import InvalidInput
from tidegate.history.progress import IN_METRIC, LATENCY_METRIC, ORDER_METRIC, OUT_METRIC

Body = Callable[[DataFrame], DataFrame]


def track_latency(rows: DataFrame, event_time: str) -> DataFrame:
    """Measure the latency of the rows: a sketch of their event time per batch, read when the batch commits.

    Without sketches, Spark counts how many rows are older than each of several ages.
    """
    seconds = f"(unix_micros(`{event_time}`) / 1e6D)"
    if has_sketches():
        return rows.observe(LATENCY_METRIC, F.expr(f"kll_sketch_agg_double({seconds})").alias("arrived"))
    # In a stream, the current time is that of the batch. It must be an observed column: 3.5 refuses it as an argument.
    planned = "tidegate_planned_s"
    figures = {"rows": f"count({seconds})", "oldest": f"min({seconds})", "newest": f"max({seconds})"}
    figures["planned"] = f"max({planned})"
    figures |= {f"older{at}": f"count_if({planned} - {seconds} > {edge!r}D)" for at, edge in enumerate(EDGES_S)}
    dated = rows.withColumn(planned, F.expr("unix_micros(current_timestamp()) / 1e6D"))
    return dated.observe(LATENCY_METRIC, *(F.expr(text).alias(name) for name, text in figures.items())).drop(planned)


@dataclass(frozen=True, slots=True)
class Topology:
    """A query under construction, operator by operator. `frame` is the DataFrame to write.

    ::

        flow = (
            Topology.source("lines", lines, event_time="event_time", settings=settings)
            .operator("lookup", look_up, parallelism=12)
            .stateful("count", lambda words: words.groupBy("word").count())
        )
        return flow.frame.writeStream…
    """

    rows: DataFrame
    names: tuple[str, ...]
    settings: Settings

    @classmethod
    def source(
        cls, name: str, rows: DataFrame, event_time: str | None = None, settings: Settings | None = None
    ) -> Topology:
        """Start with a source. With `event_time`, the latency of its rows is measured."""
        _check_name(name, ())
        counted = _counted(rows, IN_METRIC, name)
        return cls(track_latency(counted, event_time) if event_time else counted, (name,), settings or Settings(name))

    @property
    def frame(self) -> DataFrame:
        """The DataFrame so far. Its last counter is named after all operators, in the order of Spark's stages."""
        return _counted(self.rows, ORDER_METRIC, ",".join(self.names))

    def operator(self, name: str, body: Body, parallelism: int, key: str | None = None) -> Topology:
        """An operator without state, with its own parallelism. Rows with the same `key` stay together."""
        tasks = self.settings.parallelism(name, parallelism)
        exchanged = self.rows.repartition(tasks, F.col(key)) if key else self.rows.repartition(tasks)
        return self._grown(name, body(_counted(exchanged, IN_METRIC, name)))

    def stateful(self, name: str, body: Body) -> Topology:
        """An operator with state. Spark creates its exchange, and all of them in a query share one parallelism."""
        return self._grown(name, _counted(body(self.rows), OUT_METRIC, name))

    def join(self, name: str, other: Topology, body: Callable[[DataFrame, DataFrame], DataFrame]) -> Topology:
        """Join two flows; `body` gets both frames."""
        names = self.names + other.names
        if twice := sorted(set(self.names) & set(other.names)):
            raise InvalidInput(f"topology: both sides of {name!r} have an operator {twice[0]!r}; rename one")
        joined = replace(self, names=names)
        return joined._grown(name, _counted(body(self.rows, other.rows), OUT_METRIC, name))

    def _grown(self, name: str, rows: DataFrame) -> Topology:
        _check_name(name, self.names)
        return replace(self, rows=rows, names=(*self.names, name))


def _counted(rows: DataFrame, metric: str, name: str) -> DataFrame:
    return rows.observe(metric + name, F.count(F.lit(1)).alias("rows"))


def _check_name(name: str, taken: tuple[str, ...]) -> None:
    if not re.fullmatch(r"[A-Za-z0-9_-]+", name):
        raise InvalidInput(f"topology: {name!r} cannot name an operator; use letters, digits, dashes and underscores")
    if name in taken:
        raise InvalidInput(f"topology: two operators are named {name!r}; rename one")
