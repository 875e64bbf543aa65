"""The result of a simulation: tables over time, and a summary of plain values."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tidegate.adapters.sim.plantstate import Floats


@dataclass(frozen=True, slots=True)
class ResultTable:
    """Numbers over time for several things of one kind. Unknown is NaN in the arrays and None in `to_dict`."""

    time_s: Floats
    names: tuple[str, ...]
    columns: dict[str, Floats]
    """Each records × names."""

    def of(self, name: str, column: str) -> Floats:
        """The numbers of one thing over time."""
        return np.asarray(self.columns[column][:, self.names.index(name)])

    def to_dict(self) -> dict[str, Any]:
        return {
            "time_s": self.time_s.tolist(),
            "names": list(self.names),
            "columns": {name: _plain(values.tolist()) for name, values in self.columns.items()},
        }


@dataclass(slots=True)
class Recorder:
    """Collects records until they become a table."""

    names: tuple[str, ...]
    _times_s: list[float] = field(default_factory=list)
    _columns: dict[str, list[Floats]] = field(default_factory=dict)

    def record(self, time_s: float, **columns: Floats) -> None:
        self._times_s.append(time_s)
        for name, values in columns.items():
            self._columns.setdefault(name, []).append(np.asarray(values, dtype=np.float64).copy())

    def latest(self, column: str) -> Floats:
        """The last record; zeros before the first."""
        return self._columns[column][-1] if self._columns.get(column) else np.zeros(len(self.names))

    def recent(self, column: str, records: int) -> Floats:
        """The last `records` records, or fewer if there are fewer."""
        return np.array(self._columns.get(column, [])[-records:]).reshape(-1, len(self.names))

    def table(self) -> ResultTable:
        columns = {
            name: np.array(values).reshape(len(values), len(self.names)) for name, values in self._columns.items()
        }
        return ResultTable(np.array(self._times_s), self.names, columns)


@dataclass(frozen=True, slots=True)
class SimulationResult:
    """A finished simulation."""

    summary: dict[str, Any]
    """Plain values, ready for JSON."""
    applications: ResultTable | None = None
    hosts: ResultTable | None = None
    pool_applications: ResultTable | None = None
    pool: ResultTable | None = None

    def to_dict(self) -> dict[str, Any]:
        """Summary and tables as plain values."""
        tables = {
            "applications": self.applications,
            "hosts": self.hosts,
            "pool_applications": self.pool_applications,
            "pool": self.pool,
        }
        return {
            "summary": _plain(self.summary),
            "tables": {name: table.to_dict() for name, table in tables.items() if table is not None},
        }


def _plain(value: Any) -> Any:
    """JSON has no NaN and no infinity, so they become None."""
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
