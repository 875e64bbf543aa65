"""`format("tidegate")`: an open-loop load that can be replayed row by row, behind a gate that can be changed live.

The text and arrival time of row i depend only on i. Rows arrive whether or not the query keeps up, so backlog and
latency are realistic, and every row can be checked afterwards. Options:

| option | meaning | default |
|---|---|---|
| load | profile as JSON, or a rate in rows per second | required |
| content | `sentences`, `text:PATH`, or JSON `{"kind": "sentences", "words": …}` | sentences |
| partitions | tasks that read a batch | 2 |
| rows_per_trigger | maximum rows per batch, until the gate sets another limit | no limit |
| gate | path of the gate's file (`settings.gate` in `gate.start`) | no gate |
| rows | the load ends after this many rows | no end |
| start_ms | when row 0 is due, in ms since the epoch | the first start of the query |
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from tidegate.adapters.spark.gatefile import GateLimit, InForce, check_fence, read_request, write_answer
from tidegate.domain import InvalidInput
from tidegate.load import Timeline, content_from_spec, profile_from_spec

if TYPE_CHECKING:
    import pyarrow as pa

SCHEMA = "index BIGINT, event_time TIMESTAMP, value STRING"
_ROWS_PER_ARROW_BATCH = 10_000
_BOUNDLESS = 2**62
_OPTIONS = {"load", "content", "partitions", "rows_per_trigger", "gate", "rows", "start_ms"}


class TidegateSource(DataSource):
    """Register it with `spark.dataSource.register(TidegateSource)`; `tidegate.attach` does so."""

    @classmethod
    def name(cls) -> str:
        return "tidegate"

    def schema(self) -> str:
        return SCHEMA

    def streamReader(self, schema: Any) -> LoadReader:
        return LoadReader({key.lower(): value for key, value in self.options.items()})


class RowRange(InputPartition):
    """Rows `first` … `end - 1` for one task."""

    def __init__(self, first: int, end: int, start_ms: int) -> None:
        super().__init__(None)
        self.first, self.end, self.start_ms = first, end, start_ms


class LoadReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Offsets are `{"row": next row, "start_ms": when row 0 was due}`."""

    def __init__(self, options: dict[str, str]) -> None:
        unknown = sorted(set(options) - _OPTIONS)
        if unknown:
            raise InvalidInput(f"format tidegate: unknown option {unknown[0]!r}; it has {', '.join(sorted(_OPTIONS))}")
        if "load" not in options:
            raise InvalidInput("format tidegate: give .option('load', …): a rate, or a load profile as JSON")
        self._load = options["load"]
        self._content = options.get("content", "sentences")
        self._partitions = _whole(options, "partitions", least=1) or 2
        self._limit = _whole(options, "rows_per_trigger", least=1)
        self._most_rows = _whole(options, "rows", least=0)
        self._gate = Path(options["gate"]) if options.get("gate") else None
        self._start_ms = _whole(options, "start_ms", least=0)
        self._released_s = 0.0
        self._ends = False
        self._target: int | None = None
        self._origin_ms = 0
        timeline_of(self._load)
        content_from_spec(self._content)

    def initialOffset(self) -> dict[str, int]:
        return {"row": 0, "start_ms": self._start_ms if self._start_ms is not None else int(time.time() * 1000)}

    def getDefaultReadLimit(self) -> ReadLimit:
        """Without a gate, the source declares that it counts rows, so that it can be limited like any other."""
        return ReadAllAvailable() if self._gate is not None else ReadMaxRows(self._limit or _BOUNDLESS)

    def latestOffset(self, start: dict[str, int], limit: ReadLimit | None = None) -> dict[str, int]:
        if self._gate is not None:
            check_fence(self._gate)
        self._origin_ms = start["start_ms"]
        available = self._arrived(self._origin_ms)
        now = self._in_force(available, limit)
        if self._ends and self._target is None:
            self._target = available
        if self._target is not None:
            return {"row": max(start["row"], min(available, self._target)), "start_ms": self._origin_ms}
        admission = now.admission
        if now.closed or time.time() - self._released_s < admission.interval_s:
            return start  # with an unchanged offset, the trigger is skipped
        end = available if admission.rows_per_trigger is None else start["row"] + admission.rows_per_trigger
        end = max(start["row"], min(end, available))
        if end > start["row"]:
            self._released_s = time.time()
        return {"row": end, "start_ms": self._origin_ms}

    def reportLatestOffset(self) -> dict[str, int] | None:
        if not self._origin_ms:
            return None
        return {"row": self._arrived(self._origin_ms), "start_ms": self._origin_ms}

    def prepareForTriggerAvailableNow(self) -> None:
        self._ends = True  # the first request for offsets sets the target, because it knows when the load started

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[RowRange]:
        edges = np.linspace(start["row"], end["row"], self._partitions + 1).astype(int)
        return [RowRange(first, last, end["start_ms"]) for first, last in pairwise(edges.tolist()) if last > first]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa  # imported on the executors, where Spark needs it for this

        assert isinstance(partition, RowRange)
        schema = pa.schema(
            [("index", pa.int64()), ("event_time", pa.timestamp("us", tz="UTC")), ("value", pa.string())]
        )
        timeline, content = timeline_of(self._load), content_from_spec(self._content)
        for first in range(partition.first, partition.end, _ROWS_PER_ARROW_BATCH):
            end = min(first + _ROWS_PER_ARROW_BATCH, partition.end)
            arrived_us = partition.start_ms * 1000 + (timeline.arrivals_s(first, end) * 1e6).astype(np.int64)
            columns = [
                pa.array(np.arange(first, end, dtype=np.int64)),
                pa.array(arrived_us).cast(pa.timestamp("us", tz="UTC")),
                pa.array(content.texts(first, end)),
            ]
            yield pa.RecordBatch.from_arrays(columns, schema=schema)

    def _arrived(self, start_ms: int) -> int:
        rows = timeline_of(self._load).rows_by(time.time() - start_ms / 1000)
        return rows if self._most_rows is None else min(rows, self._most_rows)

    def _in_force(self, arrived_rows: int, limit: ReadLimit | None) -> InForce:
        """Apply the gate's request and answer with what is in force; without a gate, apply Spark's limit."""
        now_s = time.time()
        if self._gate is None:
            most = limit.max_rows if isinstance(limit, ReadMaxRows) else self._limit
            return InForce(GateLimit(most), now_s, arrived_rows, closed=most == 0)
        request = read_request(self._gate)
        admission = request.admission or GateLimit(self._limit)
        answer = InForce(admission, now_s, arrived_rows, closed=now_s < request.closed_until_s)
        with contextlib.suppress(OSError):  # the answer is optional, so a full disk must not end the query
            write_answer(self._gate, answer)
        return answer


@lru_cache(maxsize=8)
def timeline_of(load: str) -> Timeline:
    """Tabulated once per process, because every task of a batch needs the same timeline."""
    return Timeline(profile_from_spec(load))


def _whole(options: dict[str, str], name: str, least: int) -> int | None:
    text = options.get(name)
    if text is None or text == "":
        return None
    try:
        value = int(text)
    except ValueError:
        raise InvalidInput(f"format tidegate: {name} is {text!r}, not a whole number") from None
    if value < least:
        raise InvalidInput(f"format tidegate: {name} is {value}; the minimum is {least}")
    return value
