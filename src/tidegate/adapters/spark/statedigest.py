"""A digest of a query's state: the number of rows and an order-independent hash, to compare before and after a move."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import MapType, StructType

Store = tuple[int, str]
"""Operator id and the name of one of its stores; joins have several."""
_WITH_VARIABLES = "transformWithState"


@dataclass(frozen=True, slots=True)
class StateDigest:
    """Rows and hash of every store that can be read."""

    stores: dict[Store, tuple[int, int]]
    unread: tuple[str, ...] = ()
    """Operators whose state cannot be read completely."""

    @property
    def rows(self) -> int:
        return sum(rows for rows, _ in self.stores.values())


def state_digests(spark: SparkSession, checkpoint: str, batches: tuple[int, ...]) -> tuple[StateDigest, ...]:
    """Digests of the state as it was after each of these batches, in one job."""
    stores: list[Store] = []
    unread: list[str] = []
    for row in spark.read.format("state-metadata").load(checkpoint).collect():
        if _WITH_VARIABLES in row.operatorName:
            unread.append(f"{row.operatorName} {row.operatorId}")
        else:
            stores.append((int(row.operatorId), str(row.stateStoreName)))
    if not stores:
        return tuple(StateDigest({}, tuple(unread)) for _ in batches)
    parts = [_hashed(spark, checkpoint, batch, store) for batch in batches for store in stores]
    found: dict[int, dict[Store, tuple[int, int]]] = {batch: dict.fromkeys(stores, (0, 0)) for batch in batches}
    for row in reduce(DataFrame.unionAll, parts).collect():
        found[row.batch][row.operator, row.store] = (int(row.rows), int(row.hash or 0))
    return tuple(StateDigest(found[batch], tuple(unread)) for batch in batches)


def _hashed(spark: SparkSession, checkpoint: str, batch: int, store: Store) -> DataFrame:
    reader = spark.read.format("statestore").option("batchId", batch).option("operatorId", store[0])
    if store[1] != "default":
        reader = reader.option("storeName", store[1])
    state = reader.load(checkpoint)
    columns = [name for name in ("key", "value") if name in state.columns]
    # Maps have no order and therefore no hash; their JSON text has one.
    hashed = F.xxhash64(F.to_json(F.struct(*columns))) if _has_map(state.schema) else F.xxhash64(*columns)
    return (
        state.select(hashed.alias("hash"))
        .groupBy(F.lit(batch).alias("batch"), F.lit(store[0]).alias("operator"), F.lit(store[1]).alias("store"))
        .agg(F.count(F.lit(1)).alias("rows"), F.bit_xor("hash").alias("hash"))
    )


def _has_map(schema: StructType) -> bool:
    return MapType.typeName() in schema.simpleString()
