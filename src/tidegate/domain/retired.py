"""What to write instead of removed settings."""

from __future__ import annotations

from tidegate.domain.section import Retired

_SIZING = "sizing follows from the objective. Remove it."
_OPERATORS = "operators are rescaled when it pays for the objective. Remove it."
_SHARING = "sharing follows from classes.NAME.weight and .floor. Remove it."
_STEP = "the size of a step follows from the load. Remove it."

RETIRED: Retired = {
    "planner": "no longer needed; Tidegate chooses the knob. Remove it.",
    "capacity": {
        "utilisation": _SIZING,
        "catch_up_s": _SIZING,
        "lead_s": _SIZING,
        "window_s": _SIZING,
        "shrink_after_s": "write guards: {cool_down_down_s: {value}} to shrink later",
        "shrink_margin": _SIZING,
        "batch_share": _SIZING,
    },
    "operators": {
        "rule": _OPERATORS,
        "phi": _OPERATORS,
        "interval_s": _OPERATORS,
        "recurrences": _OPERATORS,
        "comfort": _OPERATORS,
        "accuracy": _OPERATORS,
        "slow_watch_s": _OPERATORS,
        "task_overhead_s": _OPERATORS,
        "payback_s": "Tidegate weighs a pause against its gain. Write knobs: {parallelism: false} to forbid it",
    },
    "predictive": {
        "horizon": _SHARING,
        "reference_s": _SHARING,
        "set_point": _SHARING,
        "utilisation": _SHARING,
        "fill": _SHARING,
        "change": _SHARING,
    },
    "store": "write journal: {path: {value}}",
    "history": "write journal: {history: {value}}",
}
RETIRED_OF_EXECUTORS: Retired = {"step_up": _STEP, "step_down": _STEP}
RETIRED_OF_APPLICATIONS: Retired = {"qos_class": "write class: {value}"}
