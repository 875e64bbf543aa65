"""Bottlenecks of operators: metrics, bottleneck times, thresholds, levels, and what would help."""

from tidegate.analysis.bottleneck.diagnosis import LEAST_GAIN, Cause, Diagnosis, diagnose
from tidegate.analysis.bottleneck.levels import bottleneck_levels
from tidegate.analysis.bottleneck.metrics import ApplicationMetrics, OperatorMetrics, aggregate, held_slots
from tidegate.analysis.bottleneck.scaling import Rescaling, StageScaling, best_rescaling, row_gain_s, stage_scaling
from tidegate.analysis.bottleneck.threshold import (
    ThresholdModel,
    add_latency,
    fit_line,
    reference_bottleneck_s,
    refit,
    same_order,
)
from tidegate.analysis.bottleneck.times import BottleneckTime, Kind, bottleneck_time, worst_operator

__all__ = [
    "LEAST_GAIN",
    "ApplicationMetrics",
    "BottleneckTime",
    "Cause",
    "Diagnosis",
    "Kind",
    "OperatorMetrics",
    "Rescaling",
    "StageScaling",
    "ThresholdModel",
    "add_latency",
    "aggregate",
    "best_rescaling",
    "bottleneck_levels",
    "bottleneck_time",
    "diagnose",
    "fit_line",
    "held_slots",
    "reference_bottleneck_s",
    "refit",
    "row_gain_s",
    "same_order",
    "stage_scaling",
    "worst_operator",
]
