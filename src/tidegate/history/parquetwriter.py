"""Writes a history as Parquet: partitioned by application and day, rotated by size, with a size limit on disk.

At every flush the current part is rewritten as a whole and renamed into place, so no reader sees half a file, even
after a crash. Parts are small (a few thousand samples), so rewriting one takes milliseconds.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING
from urllib.parse import quote

from tidegate.domain import InvalidInput, Observation
from tidegate.domain.python310 import UTC
from tidegate.history.batchrecords import ObservationFlattener
from tidegate.history.metrictable import MetricRecord

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(slots=True)
class _Part:
    path: Path
    records: list[MetricRecord] = field(default_factory=list)
    unwritten: int = 0


class HistoryWriter:
    """Appends observations to `folder`. Close it, or use it in a `with` statement, to write the last samples.

    A part is closed after `samples_per_part` samples or at the end of its (UTC) day. The oldest parts are deleted when
    the total size exceeds `most_bytes`.
    """

    def __init__(
        self, folder: Path, *, flush_samples: int = 60, samples_per_part: int = 5000, most_bytes: int = 2**30
    ) -> None:
        if not 1 <= flush_samples <= samples_per_part or most_bytes < 1:
            raise InvalidInput("a history needs 1 ≤ flush_samples ≤ samples_per_part and most_bytes above 0")
        try:
            import pyarrow  # noqa: F401
        except ModuleNotFoundError:
            raise InvalidInput("recording a history needs pyarrow: install tidegate[spark], or do not record") from None
        self.folder = folder
        self._flush_samples, self._samples_per_part, self._most_bytes = flush_samples, samples_per_part, most_bytes
        self._flattener = ObservationFlattener()
        self._parts: dict[str, _Part] = {}

    def __enter__(self) -> HistoryWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def observe(self, observation: Observation) -> None:
        """Add the batches of an observation."""
        for application, record in self._flattener.records(observation):
            self.add(application, record)

    def add(self, application: str, record: MetricRecord) -> None:
        """Add one record. It is on disk after the next flush."""
        part = self._part_for(application, record)
        part.records.append(record)
        part.unwritten += 1
        if part.unwritten >= self._flush_samples or len(part.records) >= self._samples_per_part:
            self._write(part)

    def flush(self) -> None:
        """Write all records added so far."""
        for part in self._parts.values():
            self._write(part)

    def close(self) -> None:
        self.flush()
        self._parts.clear()

    def _part_for(self, application: str, record: MetricRecord) -> _Part:
        day = datetime.fromtimestamp(record.time_s, UTC).strftime("%Y-%m-%d")
        folder = self.folder / f"application={quote(application, safe='')}" / f"day={day}"
        part = self._parts.get(application)
        if part is None or part.path.parent != folder or len(part.records) >= self._samples_per_part:
            if part is not None:
                self._write(part)
            part = self._parts[application] = _Part(folder / f"part-{_next_number(folder):06d}.parquet")
        return part

    def _write(self, part: _Part) -> None:
        if not part.unwritten:
            return
        part.path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = part.path.with_name(f".{part.path.name}.unfinished")
        import pyarrow.parquet as pq

        pq.write_table(_arrow(part.records), unfinished, compression="zstd")
        unfinished.replace(part.path)
        part.unwritten = 0
        self._make_room(keep=part.path)

    def _make_room(self, keep: Path) -> None:
        """Delete the oldest parts until the limit is met, but never the current one."""
        parts = [
            (entry.stat().st_mtime, entry.stat().st_size, entry) for entry in self.folder.glob("*/*/part-*.parquet")
        ]
        total = sum(size for _, size, _ in parts)
        open_paths = {part.path for part in self._parts.values()} | {keep}
        for _, size, path in sorted(parts):
            if total <= self._most_bytes:
                return
            if path not in open_paths:
                path.unlink(missing_ok=True)
                total -= size


def _next_number(folder: Path) -> int:
    numbers = [path.stem.removeprefix("part-") for path in folder.glob("part-*.parquet")]
    return max((int(number) for number in numbers if number.isdigit()), default=-1) + 1


def _arrow(records: list[MetricRecord]) -> pa.Table:
    import pyarrow as pa

    names = sorted({name for record in records for name in record.metrics})
    columns = {
        "time_s": pa.array([record.time_s for record in records], pa.float64()),
        "batch_id": pa.array([record.batch_id for record in records], pa.int64()),
    }
    columns |= {name: pa.array([record.metrics.get(name) for record in records], pa.float64()) for name in names}
    return pa.table(columns)
