"""A run as recorded in Spark's event log, which shows less than a journal.

The log contains batches with their tasks, and when executors registered and left. It contains neither the latency of
rows nor the trigger's interval nor when executors were requested, and of the arrivals only what the progress reports
count. The interval is inferred from the batches that waited for their trigger.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import multimode

from tidegate.domain import InvalidInput
from tidegate.history.eventlog import EventLog, ExecutorSpan
from tidegate.history.notes import Notes
from tidegate.history.read import holds_parquet, read_event_logs
from tidegate.history.triggers import interval_s
from tidegate.twin.calibrate import USUAL_STARTUP_S
from tidegate.twin.recordedrun import RecordedQuery, Recording


def from_event_log(path: Path) -> Recording:
    """Read the streaming queries of one application."""
    notes = Notes()
    logs = [] if holds_parquet(path) else read_event_logs(path, notes)
    streaming = [log for log in logs if log.batches()]
    if not streaming:
        raise InvalidInput(f"{path}: {_why_none(notes)}")
    if len(streaming) > 1:
        raise InvalidInput(f"{path}: contains {len(streaming)} logs with streaming queries; give one of them")
    return _recording(path, streaming[0], notes)


def _why_none(notes: Notes) -> str:
    if notes.spark_version is not None:
        return "contains no batches of a streaming query; give the event log of a streaming job, or a journal"
    said = "".join(f" ({sentence})" for sentence in notes.sentences()[:1])
    return f"neither a journal nor a Spark event log{said}; give one of them"


def _recording(path: Path, log: EventLog, notes: Notes) -> Recording:
    queries = {name: [one.sample for one in batches] for name, batches in log.batches().items()}
    start_s = min(batches[0].started_s for batches in queries.values())
    end_s = max(batch.committed_s for batches in queries.values() for batch in batches)
    executors = [one for one in log.executors() if one.slots]
    registered = pool_sizes(executors, start_s, end_s)
    if not any(count for _, count in registered):
        raise InvalidInput(f"{path}: shows no executors while batches ran; give the complete event log, or a journal")
    waiting = all(batch.backlog_rows is not None for batches in queries.values() for batch in batches)
    missing = (
        f"an event log shows neither row latency nor how long executors take to start ({USUAL_STARTUP_S:g} s are "
        f"assumed); of the arrivals it shows only the rows that batches read{' or left waiting' if waiting else ''}"
    )
    return Recording(
        start_s=start_s,
        end_s=end_s,
        queries={name: RecordedQuery(name, interval_s(batches), batches) for name, batches in queries.items()},
        requested=(),
        registered=registered,
        slots_per_executor=max(multimode(one.slots for one in executors)),
        notes=(missing, *notes.sentences()),
    )


def pool_sizes(executors: Sequence[ExecutorSpan], start_s: float, end_s: float) -> tuple[tuple[float, int], ...]:
    """Return how many executors were registered, and the times from which it was that many.

    >>> pool_sizes([ExecutorSpan(0, 50, 2), ExecutorSpan(0, 90, 2), ExecutorSpan(20, 90, 2)], start_s=10, end_s=80)
    ((10, 2), (20, 3), (50, 2))
    """
    changes = {edge_s for one in executors for edge_s in (one.since_s, one.until_s) if start_s < edge_s < end_s}
    sizes: list[tuple[float, int]] = []
    for time_s in (start_s, *sorted(changes)):
        count = sum(one.since_s <= time_s < one.until_s for one in executors)
        if not sizes or sizes[-1][1] != count:
            sizes.append((time_s, count))
    return tuple(sizes)
