"""Roll-ups of steps past the retention period, one per minute."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain, groupby
from statistics import fmean

from tidegate.control.journal.entry import ApplicationRollUp, Entry, RollUp
from tidegate.domain import BatchSample
from tidegate.domain.resolution import told

_MINUTE_S = 60.0


def roll_up(entries: Iterable[Entry]) -> list[RollUp]:
    """One summary for every minute that has an observation."""
    seen = sorted((entry for entry in entries if entry.observation is not None), key=lambda entry: entry.time_s)
    minutes = groupby(seen, key=lambda entry: entry.time_s // _MINUTE_S)
    return [_minute(number * _MINUTE_S, list(steps)) for number, steps in minutes]


def _minute(time_s: float, steps: Sequence[Entry]) -> RollUp:
    observations = [entry.observation for entry in steps if entry.observation is not None]
    names = dict.fromkeys(sample.name for each in observations for sample in each.applications)
    return RollUp(
        time_s,
        len(steps),
        round(fmean(each.pool.requested for each in observations), 2),
        round(fmean(each.pool.registered for each in observations), 2),
        tuple(_application(name, steps) for name in names),
    )


def _application(name: str, steps: Sequence[Entry]) -> ApplicationRollUp:
    batches = _batches(name, steps)
    decisions = [entry.decision for entry in steps if entry.decision is not None]
    assessed = chain.from_iterable(decision.assessments for decision in decisions)
    arrivals = [
        one.arrival_rows_per_s for one in assessed if one.application == name and one.arrival_rows_per_s is not None
    ]
    readings = chain.from_iterable(decision.qos for decision in decisions)
    kept = [one.score for one in readings if one.application == name and one.met is not None and one.score is not None]
    latencies = [batch.latency for batch in batches if batch.latency is not None]
    latency_rows = sum(latency.rows for latency in latencies)
    return ApplicationRollUp(
        application=name,
        rows=sum(batch.rows for batch in batches),
        arrival_rows_per_s=told(fmean(arrivals)) if arrivals else None,
        latency_p50_s=told(sum(one.rows * one.p50_s for one in latencies) / latency_rows) if latencies else None,
        latency_p99_s=told(max(one.p99_s for one in latencies)) if latencies else None,
        over_objective=told(1.0 - min(kept)) if kept else None,
        backlog_rows=next((batch.backlog_rows for batch in reversed(batches) if batch.backlog_rows is not None), None),
        slot_s=round(sum(batch.busy_s or 0.0 for batch in batches), 1),
    )


def _batches(name: str, steps: Sequence[Entry]) -> list[BatchSample]:
    return [
        batch
        for entry in steps
        if entry.observation is not None
        for sample in entry.observation.applications
        if sample.name == name
        for batch in sample.batches
    ]
