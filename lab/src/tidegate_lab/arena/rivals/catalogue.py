"""All rivals with their published defaults, and the settings from which the best per load is chosen afterwards.

The table was fixed before Tidegate was tuned on the arena's loads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tidegate_lab.arena.rivals.amadeus import Amadeus
from tidegate_lab.arena.rivals.daedalus import Daedalus
from tidegate_lab.arena.rivals.dhalion import Dhalion
from tidegate_lab.arena.rivals.ds2 import Ds2
from tidegate_lab.arena.rivals.dstreams import DStreams
from tidegate_lab.arena.rivals.dynamic_allocation import DynamicAllocation
from tidegate_lab.arena.rivals.flink import Flink, FlinkMinute
from tidegate_lab.arena.rivals.hpa import HpaCpu
from tidegate_lab.arena.rivals.hpa_varga import HpaVarga
from tidegate_lab.arena.rivals.keda import KedaLag
from tidegate_lab.arena.rivals.rival import Rival


@dataclass(frozen=True, slots=True)
class Entry:
    """How a rival is created, and its alternative settings."""

    make: Callable[..., Rival]
    grid: tuple[Mapping[str, Any], ...]

    @property
    def settings(self) -> tuple[Mapping[str, Any], ...]:
        """Defaults first."""
        return ({}, *self.grid)


RIVALS: dict[str, Entry] = {
    "spark-dra": Entry(DynamicAllocation, ({"idle_timeout_s": 10.0}, {"backlog_timeout_s": 5.0})),
    "dstreams": Entry(DStreams, ({"up": 0.95, "down": 0.6}, {"up": 2.0, "down": 0.9}, {"up": 4.0, "down": 1.0})),
    "amadeus": Entry(Amadeus, ({"up": 2.0, "down": 1.0}, {"up": 4.0, "down": 1.0}, {"smoothing": 0.2})),
    "hpa-cpu": Entry(
        HpaCpu,
        ({"target": 0.6}, {"target": 0.7}, {"target": 0.9}, {"target": 0.7, "down_window_s": 60.0}),
    ),
    "hpa-varga": Entry(HpaVarga, ({"target": 0.7, "lag_s": 10.0}, {"lag_s": 10.0}, {"target": 0.9, "lag_s": 5.0})),
    "keda-lag": Entry(
        KedaLag,
        ({"threshold_s": 0.5}, {"threshold_s": 1.0}, {"threshold_s": 2.0}, {"threshold_s": 4.0}),
    ),
    "dhalion": Entry(Dhalion, ({"shrink": 0.9}, {"slack": 0.6}, {"shrink": 0.9, "slack": 2.0})),
    "ds2": Entry(Ds2, ({"overprovision": 0.0}, {"overprovision": 0.1}, {"overprovision": 0.4}, {"period_s": 30.0})),
    "flink": Entry(
        Flink.with_changes,
        (
            {"utilisation": 0.8, "boundary": 0.2},
            {"window_s": 300.0, "down_interval_s": 600.0},
            {"boundary": 0.1, "down_interval_s": 900.0},
        ),
    ),
    "flink-1min": Entry(
        FlinkMinute.with_changes,
        ({"utilisation": 0.8}, {"utilisation": 0.6}, {"down_interval_s": 60.0}, {"stabilisation_s": 0.0}),
    ),
    "daedalus": Entry(Daedalus, ({"busy": 0.8}, {"pause_s": 120.0}, {"busy": 0.95, "pause_s": 300.0})),
}


def make(name: str, settings: Mapping[str, Any] | None = None) -> Rival:
    return RIVALS[name].make(**(settings or {}))
