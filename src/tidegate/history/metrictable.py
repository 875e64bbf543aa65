"""A table of metrics over time: one row per sample, one column per metric."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class MetricRecord:
    """The measured metrics of one batch."""

    time_s: float
    batch_id: int
    metrics: Mapping[str, float]


@dataclass(frozen=True, slots=True, eq=False)
class MetricTable:
    """Samples × metrics, oldest first. Only in `values`, NaN means "not measured".

    >>> records = [MetricRecord(2.0, 1, {"rows": 7.0}), MetricRecord(1.0, 0, {"rows": 5.0, "gc_s": 0.1})]
    >>> table = MetricTable.from_records("words", records)
    >>> table.names, table.column("rows").tolist(), table.column("gc_s").tolist()
    (('gc_s', 'rows'), [5.0, 7.0], [0.1, nan])
    """

    application: str
    names: tuple[str, ...]
    times_s: Floats
    values: Floats
    batch_ids: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    def __post_init__(self) -> None:
        if self.values.shape != (len(self.times_s), len(self.names)):
            raise ValueError(f"{len(self.times_s)} times and {len(self.names)} names, values {self.values.shape}")
        if len(set(self.names)) != len(self.names):
            raise ValueError("a metric occurs twice")
        if not np.isfinite(self.times_s).all() or (np.diff(self.times_s) < 0).any():
            raise ValueError("times must be finite and must not decrease")
        if np.isinf(self.values).any():
            raise ValueError("a metric must be finite or missing")
        if not len(self.batch_ids):
            object.__setattr__(self, "batch_ids", np.arange(len(self.times_s), dtype=np.int64))

    def __len__(self) -> int:
        return len(self.times_s)

    @classmethod
    def from_records(cls, application: str, records: Iterable[MetricRecord]) -> MetricTable:
        """Build a table sorted by time. If a batch was recorded twice, the last record is kept."""
        latest = {(record.batch_id, record.time_s): record for record in records}
        ordered = sorted(latest.values(), key=lambda record: (record.time_s, record.batch_id))
        names = tuple(sorted({name for record in ordered for name in record.metrics}))
        place = {name: column for column, name in enumerate(names)}
        values = np.full((len(ordered), len(names)), np.nan)
        for row, record in enumerate(ordered):
            for name, value in record.metrics.items():
                values[row, place[name]] = value
        values[np.isinf(values)] = np.nan
        return cls(
            application=application,
            names=names,
            times_s=np.array([record.time_s for record in ordered], dtype=np.float64),
            values=values,
            batch_ids=np.array([record.batch_id for record in ordered], dtype=np.int64),
        )

    def has(self, name: str) -> bool:
        """Return whether the column exists and has at least one value."""
        return name in self.names and bool(np.isfinite(self.column(name)).any())

    def column(self, name: str) -> Floats:
        return np.asarray(self.values[:, self.names.index(name)])

    def select(self, names: Sequence[str]) -> MetricTable:
        """Return the same samples with only these columns."""
        places = [self.names.index(name) for name in names]
        return MetricTable(self.application, tuple(names), self.times_s, self.values[:, places], self.batch_ids)
