"""Admission for sources without a gate: Spark's own limits, which a query takes over only when it starts.

`format("tidegate")` needs none of this: its gate turns while the query runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

SourceKind = Literal["file", "kafka"]


def limit_options(kind: SourceKind, rows_per_trigger: int | None, rows_per_file: float = 1.0) -> Mapping[str, str]:
    """The reader options that bound a batch; Kafka counts rows, files are counted whole, at least one.

    >>> limit_options("kafka", 500), limit_options("file", 500, rows_per_file=200), limit_options("kafka", None)
    ({'maxOffsetsPerTrigger': '500'}, {'maxFilesPerTrigger': '2'}, {})
    """
    if rows_per_trigger is None:
        return {}
    if kind == "kafka":
        return {"maxOffsetsPerTrigger": str(rows_per_trigger)}
    return {"maxFilesPerTrigger": str(max(1, int(rows_per_trigger / rows_per_file)))}
