"""Profiles a service class: delays, late rows, and every time a window held more of them than the class may have.

Counts are kept in a ring of short buckets that together make one window, so memory is bounded and the share of late
rows is that of the last `window_s` at any time, not of some window that happens to begin at a round hour.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

from tidegate.domain import LatencySample
from tidegate.domain.qos import QosClassRule

_BUCKETS = 12
_BEYOND = (1.0, 0.5, 0.1, 0.01)
"""Rows above zero, the median, the 90th and the 99th percentile."""


@dataclass(slots=True)
class Bucket:
    """Rows that were done in one part of a window."""

    number: int
    rows: float = 0.0
    late_rows: float = 0.0
    worst_p99_s: float = 0.0


@dataclass(slots=True)
class ClassProfile:
    """What is remembered of a class: one window in detail, and totals since the start."""

    buckets: list[Bucket] = field(default_factory=list)
    rows: float = 0.0
    late_rows: float = 0.0
    worst_p99_s: float = 0.0
    worst_share: float = 0.0
    """The largest share of late rows that any window held."""
    incidents: int = 0
    """How often a window went over the bound."""
    over: bool = False
    last_incident_s: float | None = None
    latency_s: float = 0.0
    """The rule of the class when it last had rows: delay, bound on late rows, weight."""
    bound: float = 0.0
    weight: float = 0.0


@dataclass(frozen=True, slots=True)
class ClassReport:
    """A class as a user wants to read it."""

    name: str
    latency_s: float
    bound: float
    rows: float
    late_share: float
    window_share: float
    """In the last window."""
    worst_share: float
    worst_p99_s: float
    incidents: int
    last_incident_s: float | None

    @property
    def kept(self) -> bool:
        return self.incidents == 0


def record(profile: ClassProfile, time_s: float, latency: LatencySample, rule: QosClassRule) -> None:
    """Take in the rows of a batch that was committed at `time_s`; batches may come a little out of order.

    >>> profile, rule = ClassProfile(), QosClassRule(latency_s=1.0, violations=0.05, window_s=60)
    >>> record(profile, 10.0, LatencySample(100, 0.2, 0.4, 0.9, 1.0), rule)
    >>> record(profile, 15.0, LatencySample(100, 0.8, 1.2, 1.4, 1.5), rule)
    >>> profile.incidents, round(profile.late_rows)
    (1, 22)
    """
    profile.latency_s, profile.bound, profile.weight = rule.latency_s, rule.violations, rule.weight
    width_s = rule.window_s / _BUCKETS
    number = int(time_s // width_s)
    late = latency.rows * late_share(latency, rule.latency_s)
    bucket = next((known for known in reversed(profile.buckets) if known.number == number), None)
    if bucket is None:
        bucket = Bucket(number)
        profile.buckets.append(bucket)
    newest = max(known.number for known in profile.buckets)
    profile.buckets = [known for known in profile.buckets if known.number > newest - _BUCKETS]
    for counts in (bucket, profile):
        counts.rows += latency.rows
        counts.late_rows += late
        counts.worst_p99_s = max(counts.worst_p99_s, latency.p99_s)
    share = window_share(profile)
    profile.worst_share = max(profile.worst_share, share)
    if share > rule.violations and not profile.over:
        profile.incidents += 1
        profile.last_incident_s = time_s
    profile.over = share > rule.violations


def window_share(profile: ClassProfile) -> float:
    """The share of late rows in the last window."""
    rows = sum(bucket.rows for bucket in profile.buckets)
    return sum(bucket.late_rows for bucket in profile.buckets) / rows if rows else 0.0


def late_share(latency: LatencySample, bound_s: float) -> float:
    """The share of rows above the bound; between the quantiles that are known it falls exponentially, as tails do.

    >>> sample = LatencySample(rows=100, p50_s=1.0, p90_s=2.0, p99_s=3.0, max_s=4.0)
    >>> [round(late_share(sample, bound_s), 3) for bound_s in (0.5, 1.5, 3.0, 4.0)]
    [0.707, 0.224, 0.01, 0.0]
    """
    if bound_s >= latency.max_s:
        return 0.0
    if bound_s >= latency.p99_s:
        return _BEYOND[-1] * (latency.max_s - bound_s) / (latency.max_s - latency.p99_s)
    steps = zip(pairwise((0.0, latency.p50_s, latency.p90_s, latency.p99_s)), pairwise(_BEYOND), strict=True)
    for (low_s, high_s), (before, after) in steps:
        if bound_s < high_s:
            return float(before * (after / before) ** ((bound_s - low_s) / (high_s - low_s)))
    return 0.0


def report(profiles: dict[str, ClassProfile]) -> tuple[ClassReport, ...]:
    """Every class that has had rows, the most important first."""
    return tuple(
        ClassReport(
            name=name,
            latency_s=profile.latency_s,
            bound=profile.bound,
            rows=profile.rows,
            late_share=profile.late_rows / profile.rows,
            window_share=window_share(profile),
            worst_share=profile.worst_share,
            worst_p99_s=profile.worst_p99_s,
            incidents=profile.incidents,
            last_incident_s=profile.last_incident_s,
        )
        for name, profile in sorted(profiles.items(), key=lambda item: -item[1].weight)
        if profile.rows
    )
