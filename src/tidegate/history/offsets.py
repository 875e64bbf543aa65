"""Counts rows between two offsets of a streaming source, if the offsets count rows."""

from __future__ import annotations

import json
from typing import Any


def rows_between(before: Any, after: Any) -> int | None:
    """Return the rows between two offsets of Tidegate's source or Kafka; None if the offsets do not count rows.

    >>> rows_between({"row": 3, "start_ms": 5}, {"row": 10, "start_ms": 5})
    7
    >>> rows_between('{"t": {"0": 5, "1": 7}}', {"t": {"0": 8, "1": 9, "2": 4}})
    9
    >>> rows_between({"logOffset": 1}, {"logOffset": 2}) is None
    True
    """
    before, after = plain_offset(before), plain_offset(after)
    if not isinstance(after, dict) or not after:
        return None
    if isinstance(after.get("row"), int) and "start_ms" in after:
        first = before.get("row", 0) if isinstance(before, dict) else 0
        return max(0, after["row"] - first) if isinstance(first, int) else None
    if isinstance(before, dict) and all(isinstance(partitions, dict) for partitions in after.values()):
        return _kafka_rows(before, after)
    return None


MOST_PARTITIONS = 64


def lag_by_partition(before: Any, after: Any) -> list[tuple[str, int]]:
    """Return partitions and rows between two Kafka offsets, largest first, at most `MOST_PARTITIONS`.

    >>> lag_by_partition('{"t": {"0": 5, "1": 7}}', {"t": {"0": 8, "1": 9, "2": 4}})
    [('t-2', 4), ('t-0', 3), ('t-1', 2)]
    >>> lag_by_partition({"row": 3, "start_ms": 5}, {"row": 10, "start_ms": 5})
    []
    """
    before, after = plain_offset(before), plain_offset(after)
    if not isinstance(before, dict) or not isinstance(after, dict):
        return []
    found = []
    for topic, partitions in after.items():
        known = before.get(topic)
        if not isinstance(partitions, dict) or not isinstance(known, dict | None):
            return []
        for partition, end in partitions.items():
            start = (known or {}).get(partition, 0)
            if isinstance(end, int) and isinstance(start, int):
                found.append((f"{topic}-{partition}", max(0, end - start)))
    return sorted(found, key=lambda one: -one[1])[:MOST_PARTITIONS]


def _kafka_rows(before: dict[str, Any], after: dict[str, Any]) -> int | None:
    total = 0
    for topic, partitions in after.items():
        known = before.get(topic) or {}
        for partition, end in partitions.items():
            start = known.get(partition, 0) if isinstance(known, dict) else 0
            if not isinstance(end, int) or not isinstance(start, int):
                return None
            total += max(0, end - start)
    return total


def plain_offset(value: Any) -> Any:
    """Return an offset as an object, number, list or None. It may be JSON inside a string."""
    if isinstance(value, str):
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return None
    return value
