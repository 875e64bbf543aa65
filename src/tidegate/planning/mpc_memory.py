"""What the mpc planner remembers of arrivals, backlogs, slots and classes, and what it expects from that."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, field
from math import exp

import numpy as np

from tidegate.domain.policy import Policy
from tidegate.forecast import ArimaBank
from tidegate.monitor.saturation import SaturationMemory
from tidegate.monitor.violations import ClassProfile, record
from tidegate.planning.planner import Situation

_MOST_RATES = 64
_LEAST_RATES = 16
"""Counts from which a forecast is tried; before, the workload's own trend stands for it."""
_BUSY_PERIODS, _LEAST_PERIOD_S = 4.0, 5.0
"""How far back the use of the slots is looked at: in triggers, none of them taken for shorter than this."""
_RESTART_MEMORY_S = 3600.0


@dataclass(slots=True)
class MpcMemory:
    """What the planner remembers, in plain values."""

    counts: dict[str, tuple[float, int]] = field(default_factory=dict)
    """Rows that had ever arrived, when last told: `(time_s, rows)`."""
    rates: dict[str, list[float]] = field(default_factory=dict)
    """Arrival rates between those counts, newest last."""
    backlogs: dict[str, tuple[float, float]] = field(default_factory=dict)
    """`(time_s, rows)` behind, falling slowly: what is pending swings with every trigger."""
    busy: list[tuple[float, float, str]] = field(default_factory=list)
    """Slot-seconds of committed batches: `(committed_s, busy_s, application)`."""
    restarts: dict[str, tuple[float, float | None]] = field(default_factory=dict)
    """When a limit was last given to a source that takes it through a restart, and how long it paused."""
    shares: dict[str, float] = field(default_factory=dict)
    """Pool shares as last asked for."""
    trim: float = 1.0
    proven: bool = False
    """Too little for all was not only expected but seen."""
    classes: dict[str, ClassProfile] = field(default_factory=dict)
    saturation: SaturationMemory = field(default_factory=SaturationMemory)


def remember(memory: MpcMemory, situation: Situation) -> None:
    """Counts of arrivals, slot-seconds of batches, and what each class has delivered."""
    policy = situation.policy
    longest_s = max((known.sample.interval_s for known in situation.applications), default=1.0)
    for known in situation.applications:
        sample, name = known.sample, known.sample.name
        group = class_name(policy, name)
        for batch in sample.batches:
            if batch.busy_s is not None:
                memory.busy.append((batch.committed_s, batch.busy_s, name))
            if batch.latency is not None and not batch.warming:
                profile = memory.classes.setdefault(group, ClassProfile())
                record(profile, batch.committed_s, batch.latency, policy.class_of(name))
        if sample.rebalance is not None and name in memory.restarts:
            memory.restarts[name] = (memory.restarts[name][0], sample.rebalance.pause_s)
        if sample.arrival is not None:
            _count(memory, name, sample.arrival.time_s, sample.arrival.arrived_rows)
    since_s = situation.time_s - _BUSY_PERIODS * max(longest_s, _LEAST_PERIOD_S)
    memory.busy = [entry for entry in memory.busy if entry[0] >= since_s]
    present = {known.sample.name for known in situation.applications}
    for by_name in (memory.counts, memory.rates, memory.backlogs):
        for gone in by_name.keys() - present:
            del by_name[gone]
    # A query is away for a moment while it restarts: what that cost must not be forgotten with it.
    for name, (asked_s, _) in list(memory.restarts.items()):
        if name not in present and asked_s < situation.time_s - _RESTART_MEMORY_S:
            del memory.restarts[name]


def _count(memory: MpcMemory, name: str, time_s: float, rows: int) -> None:
    last = memory.counts.get(name)
    if last is not None and time_s <= last[0]:
        return
    memory.counts[name] = (time_s, rows)
    if last is None or rows < last[1]:
        memory.rates.pop(name, None)  # a source that was started anew counts from zero again
        return
    rates = memory.rates.setdefault(name, [])
    rates.append((rows - last[1]) / (time_s - last[0]))
    del rates[:-_MOST_RATES]


def busy_slots(memory: MpcMemory, now_s: float, period_s: float, applications: Container[str] | None = None) -> float:
    """Slots that were kept busy over the last few triggers, by all applications or by these."""
    window_s = _BUSY_PERIODS * max(period_s, _LEAST_PERIOD_S)
    spent = (
        busy_s
        for at_s, busy_s, name in memory.busy
        if at_s > now_s - window_s and (applications is None or name in applications)
    )
    return sum(spent) / window_s


def smooth_backlog(memory: MpcMemory, name: str, now_s: float, behind: float, period_s: float) -> float:
    """A backlog is believed at once when it grows, and over a period when it shrinks."""
    before_s, before = memory.backlogs.get(name, (now_s, 0.0))
    smooth = max(behind, behind + (before - behind) * exp(-max(0.0, now_s - before_s) / period_s))
    memory.backlogs[name] = (now_s, smooth)
    return smooth


def forecasts(memory: MpcMemory, horizon: int) -> dict[str, float]:
    """The highest rate ahead of every application whose forecast has proved better than the last value."""
    rates = {name: seen for name, seen in memory.rates.items() if len(seen) >= _LEAST_RATES}
    if not rates:
        return {}
    bank = ArimaBank(len(rates), horizon)
    # Histories of different lengths end together; what came before a short one is missing.
    history = np.full((max(map(len, rates.values())), len(rates)), np.nan)
    for column, seen in enumerate(rates.values()):
        history[-len(seen) :, column] = seen
    for values in history:
        bank.observe(values)
    forecast = bank.forecast()
    return {name: float(forecast.mean[column].max()) for column, name in enumerate(rates) if forecast.trusted[column]}


def class_name(policy: Policy, application: str) -> str:
    """The class of an application, or the application itself where it has none."""
    rule = policy.applications.get(application)
    return rule.qos_class if rule and rule.qos_class else application
