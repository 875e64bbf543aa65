"""Bottlenecks of operators: metrics, bottleneck times, thresholds, levels, and remedies."""

from tidegate.evaluate.bottleneck.diagnosis import LEAST_GAIN, Cause, Diagnosis, diagnose
from tidegate.evaluate.bottleneck.latencyline import (
    ThresholdModel,
    add_latency,
    fit_latency_line,
    reference_bottleneck_s,
    refit,
    same_order,
)
from tidegate.evaluate.bottleneck.levels import bottleneck_levels
from tidegate.evaluate.bottleneck.links import Links, learn_links
from tidegate.evaluate.bottleneck.metrics import ApplicationMetrics, OperatorMetrics, aggregate, held_slots
from tidegate.evaluate.bottleneck.scaling import (
    Rescaling,
    StageScaling,
    TaskLimits,
    best_rescaling,
    row_gain_s,
    stage_scaling,
)
from tidegate.evaluate.bottleneck.times import BottleneckKind, BottleneckTime, bottleneck_time, worst_operator

__all__ = [
    "LEAST_GAIN",
    "ApplicationMetrics",
    "BottleneckKind",
    "BottleneckTime",
    "Cause",
    "Diagnosis",
    "Links",
    "OperatorMetrics",
    "Rescaling",
    "StageScaling",
    "TaskLimits",
    "ThresholdModel",
    "add_latency",
    "aggregate",
    "best_rescaling",
    "bottleneck_levels",
    "bottleneck_time",
    "diagnose",
    "fit_latency_line",
    "held_slots",
    "learn_links",
    "reference_bottleneck_s",
    "refit",
    "row_gain_s",
    "same_order",
    "stage_scaling",
    "worst_operator",
]
