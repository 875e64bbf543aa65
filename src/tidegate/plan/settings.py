"""Parameters of the proposers: how they meet the objectives that a policy states. No policy changes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class OperatorSettings:
    """How the operators proposer finds bottlenecks and rescales operators."""

    rule: Literal["auto", "level", "parameter"] = "auto"
    """Who gets free slots: by bottleneck level, by parameter plan, or chosen by the spread of bottleneck times."""
    phi: float = 1.0
    """Executors that a bottleneck level adds (parameter plan)."""
    interval_s: float = 60.0
    """A bottleneck has to recur within this time."""
    recurrences: int = 3
    """How often it has to occur in that time."""
    comfort: float = 0.7
    """Latency above this share of the objective asks for an adjustment."""
    full: float = 0.85
    """Rising arrivals above this share of what its operators sustain ask for one before rows pile up."""
    accuracy: float = 0.3
    """A latency that exceeds its usual line by this share is a bottleneck value."""
    slow_watch_s: float = 30.0
    """How often a stable application is looked at."""
    task_overhead_s: float = 0.02
    """Slot-seconds that a task costs beside its rows, at most."""
    payback_s: float = 600.0
    """A pause has to be earned back within this time."""


@dataclass(frozen=True, slots=True)
class PredictiveSettings:
    """How the classes proposer looks ahead; it steps once in the policy's `interval_s`."""

    horizon: int = 5
    """Steps ahead (κ)."""
    reference_s: float = 5.0
    """Time constant of the way back to the set-point (T_ref)."""
    set_point: float = 0.5
    """Share of a class's delay to aim at; the rest is for what no model sees."""
    utilisation: float = 0.9
    """Busy share of a host's slots up to which needs are granted in full."""
    fill: float = 1.0
    """Busy share that waiting rows may fill beyond the needs: short hosts are never left idle."""
    change: float = 0.1
    """An admission limit or a share is moved only when it is off by more."""
