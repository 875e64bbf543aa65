"""Anti-saturation: when co-located applications slow each other down, admitting less work at a time gets more done.

Abnormal use of memory bandwidth means that applications on a host interfere with each other (Q-Flink, section IV-F). If
bandwidth cannot be read, pressure stalls stand in for it. Either counts only together with its effect on rows: service
times above the learned ones. The total demand is then capped: quickly down, slowly up again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from tidegate.domain import HostSignal, Reason
from tidegate.evaluate.table import Flags
from tidegate.evaluate.workload import Loads

_INFLATED = 1.15
MUCH_INFLATED = 1.5
"""Without a known cause, service times must exceed the learned ones by this factor: waiting for a processor also makes
rows slower, and does no harm while the processors are fully used.
"""
_CPU_PRESSURE = 0.6
_MEMORY_PRESSURE = 0.1
_ABNORMAL = 3.0
"""In deviations above the usual bandwidth."""
_YOUNG = 30
"""Readings until the usual bandwidth is known."""
_PACE = 0.05
_LEARN_DOWN, _LEARN_UP = 0.2, 0.005
"""The cost of a row is its undisturbed cost: lower costs are believed at once, higher ones over minutes."""
_STEP_DOWN, _STEP_UP = 0.9, 0.01
_LEAST_CAP = 0.5
_MOST_WATCHED = 16
"""Maximum number of applications whose row costs are compared with the learned ones."""


@dataclass(slots=True)
class SaturationMemory:
    """Learned values: the undisturbed cost of rows, and the usual bandwidth."""

    row_s: dict[str, float] = field(default_factory=dict)
    readings: int = 0
    bandwidth: float = 0.0
    deviation: float = 0.0
    cap: float = 1.0


@dataclass(frozen=True, slots=True)
class Saturation:
    """The verdict: the share of the host that may be used, and why."""

    cap: float
    inflation: float
    reason: Reason | None = None


def largest(names: tuple[str, ...], usable: Flags, loads: Loads) -> dict[str, tuple[float, float]]:
    """Row cost and rate of the largest applications, in which saturation of the host shows."""
    places = usable.nonzero()[0]
    if len(places) > _MOST_WATCHED:
        load = loads.arrival[places] * loads.row_s[places]
        places = np.sort(places[np.argpartition(load, -_MOST_WATCHED)[-_MOST_WATCHED:]])
    return {names[place]: (loads.row_s.item(place), loads.arrival.item(place)) for place in places.tolist()}


def judge(memory: SaturationMemory, costs: Mapping[str, tuple[float, float]], signal: HostSignal | None) -> Saturation:
    """Judge from the row cost and rate of every application, and a reading of the host.

    >>> memory = SaturationMemory()
    >>> calm, crowded = HostSignal("pressure", cpu_pressure=0.1), HostSignal("pressure", cpu_pressure=0.9)
    >>> judge(memory, {"words": (0.005, 100.0)}, calm).cap
    1.0
    >>> judge(memory, {"words": (0.008, 100.0)}, crowded).cap  # rows take 1.6 times as long, and processes wait
    0.9
    >>> judge(memory, {"words": (0.008, 100.0)}, calm).cap
    0.91
    """
    inflation = _inflation(memory, costs)
    pressed = _pressed(memory, signal)
    if pressed and inflation > pressed[1]:
        memory.cap = max(_LEAST_CAP, memory.cap * _STEP_DOWN)
        text = f"rows take {inflation:.2f} times as long as learned, {pressed[0]}: demand capped at {memory.cap:.0%}"
        return Saturation(memory.cap, inflation, Reason("saturated", text))
    memory.cap = min(1.0, round(memory.cap + _STEP_UP, 6))
    return Saturation(memory.cap, inflation)


def _inflation(memory: SaturationMemory, costs: Mapping[str, tuple[float, float]]) -> float:
    """Current work relative to learned work, over all applications."""
    now = usual = 0.0
    for name, (row_s, rows_per_s) in costs.items():
        learned = memory.row_s.get(name, row_s)
        now += row_s * rows_per_s
        usual += learned * rows_per_s
        pace = _LEARN_DOWN if row_s < learned else _LEARN_UP
        memory.row_s[name] = learned + pace * (row_s - learned)
    for gone in memory.row_s.keys() - costs.keys():
        del memory.row_s[gone]
    return now / usual if usual > 0 else 1.0


def _pressed(memory: SaturationMemory, signal: HostSignal | None) -> tuple[str, float] | None:
    """The evidence for saturation, in words, and the inflation of service times from which it counts."""
    if signal is None:
        return "and nothing else is known of the host", MUCH_INFLATED
    if signal.bandwidth_bytes_per_s is not None:
        abnormal = _abnormal(memory, signal.bandwidth_bytes_per_s, signal.source)
        return (abnormal, _INFLATED) if abnormal else None
    if signal.memory_pressure is not None and signal.memory_pressure > _MEMORY_PRESSURE:
        return f"{signal.memory_pressure:.0%} of the time some process waits for memory ({signal.source})", _INFLATED
    if signal.cpu_pressure is not None and signal.cpu_pressure > _CPU_PRESSURE:
        return f"{signal.cpu_pressure:.0%} of the time some process waits for a CPU ({signal.source})", MUCH_INFLATED
    return None


def _abnormal(memory: SaturationMemory, bandwidth: float, source: str) -> str | None:
    beyond = bandwidth - memory.bandwidth
    abnormal = memory.readings >= _YOUNG and beyond > _ABNORMAL * max(memory.deviation, 0.02 * memory.bandwidth)
    if abnormal:
        return f"memory bandwidth is {bandwidth / max(memory.bandwidth, 1.0):.1f} times the usual ({source})"
    pace = max(_PACE, 1 / (1 + memory.readings))
    memory.readings += 1
    memory.bandwidth += pace * beyond
    memory.deviation += pace * (abs(beyond) - memory.deviation)
    return None
