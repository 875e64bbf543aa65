"""Profiles a service class: delays, rows over the objective, and windows in which their share exceeded the bound.

Counts are kept in a ring of short buckets that together make one window. So memory is bounded, and the share always
refers to the last `window_s`, not to a window that starts at a round hour.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tidegate.domain.serviceclasses import QosClass

_BUCKETS = 12


@dataclass(slots=True)
class Bucket:
    """Rows committed in one part of a window."""

    number: int
    rows: float = 0.0
    late_rows: float = 0.0
    worst_p99_s: float = 0.0


@dataclass(slots=True)
class ClassProfile:
    """Memory of a class: one window in detail, and totals since the start."""

    buckets: list[Bucket] = field(default_factory=list)
    rows: float = 0.0
    late_rows: float = 0.0
    worst_p99_s: float = 0.0
    worst_share: float = 0.0
    """The largest share of rows over the objective in any window."""
    incidents: int = 0
    """How often a window exceeded the bound."""
    over: bool = False
    last_incident_s: float | None = None
    latency_s: float = 0.0
    """The rule of the class when it last had rows: delay, bound on the share of rows over it, weight."""
    bound: float = 0.0
    weight: float = 0.0


@dataclass(frozen=True, slots=True)
class ClassCounts:
    """Rows of a class in one step, and those over its objective."""

    rows: float
    late_rows: float
    worst_p99_s: float


@dataclass(frozen=True, slots=True)
class ClassReport:
    """A class in a form for users."""

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


def record(profile: ClassProfile, time_s: float, counts: ClassCounts, rule: QosClass) -> None:
    """Add rows of a class that were committed up to `time_s`.

    >>> profile, rule = ClassProfile(), QosClass(latency_s=1.0, violations=0.05, window_s=60)
    >>> record(profile, 10.0, ClassCounts(rows=100, late_rows=0, worst_p99_s=0.9), rule)
    >>> record(profile, 15.0, ClassCounts(rows=100, late_rows=22, worst_p99_s=1.4), rule)
    >>> profile.incidents, profile.late_rows
    (1, 22.0)
    """
    profile.latency_s, profile.bound, profile.weight = rule.latency_s, rule.violations, rule.weight
    number = int(time_s // (rule.window_s / _BUCKETS))
    bucket = next((known for known in reversed(profile.buckets) if known.number == number), None)
    if bucket is None:
        bucket = Bucket(number)
        profile.buckets.append(bucket)
    newest = max(known.number for known in profile.buckets)
    profile.buckets = [known for known in profile.buckets if known.number > newest - _BUCKETS]
    for kept in (bucket, profile):
        kept.rows += counts.rows
        kept.late_rows += counts.late_rows
        kept.worst_p99_s = max(kept.worst_p99_s, counts.worst_p99_s)
    share = window_share(profile)
    profile.worst_share = max(profile.worst_share, share)
    if share > rule.violations and not profile.over:
        profile.incidents += 1
        profile.last_incident_s = time_s
    profile.over = share > rule.violations


def window_share(profile: ClassProfile) -> float:
    """The share of rows over the objective in the last window."""
    rows = sum(bucket.rows for bucket in profile.buckets)
    return sum(bucket.late_rows for bucket in profile.buckets) / rows if rows else 0.0


def report(profiles: dict[str, ClassProfile]) -> tuple[ClassReport, ...]:
    """Every class that has had rows, most important first."""
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
