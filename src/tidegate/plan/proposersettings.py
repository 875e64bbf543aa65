"""Parameters of the proposers: how they meet the objectives of a policy. A policy cannot change them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class OperatorSettings:
    """How the operators proposer finds bottlenecks and rescales operators."""

    rule: Literal["auto", "level", "parameter"] = "auto"
    """Who gets free slots: by bottleneck level, by parameter plan, or chosen from the spread of bottleneck times."""
    phi: float = 1.0
    """Executors added per bottleneck level (parameter plan)."""
    interval_s: float = 60.0
    """A bottleneck must recur within this time."""
    recurrences: int = 3
    """How often it must occur in that time."""
    comfort: float = 0.7
    """Latency above this share of the objective calls for an adjustment."""
    full: float = 0.85
    """Rising arrivals above this share of what the operators sustain call for one before rows pile up."""
    accuracy: float = 0.3
    """A latency that exceeds its usual line by this share is a bottleneck value."""
    slow_watch_s: float = 30.0
    """How often a stable application is examined."""
    task_overhead_s: float = 0.02
    """Maximum slot-seconds that a task costs in addition to its rows."""
    payback_s: float = 600.0
    """A pause must pay for itself within this time."""


@dataclass(frozen=True, slots=True)
class PredictiveSettings:
    """How the classes proposer looks ahead. It steps once per policy `interval_s`."""

    horizon: int = 5
    """Steps ahead (κ)."""
    reference_s: float = 5.0
    """Time constant of the return to the set-point (T_ref)."""
    set_point: float = 0.5
    """Share of a class's delay to aim at. The rest is for errors of the model."""
    utilisation: float = 0.9
    """Utilisation of a host's slots up to which needs are granted in full."""
    fill: float = 1.0
    """Utilisation that waiting rows may fill beyond the needs: a short host is never left idle."""
    change: float = 0.1
    """An admission limit or a share is changed only if it is off by more than this."""
