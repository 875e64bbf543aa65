"""Correlations of metrics: coefficients, their uncertainty, and the table of pairs."""

from tidegate.analysis.correlation.coefficients import Coefficients, pearson, spearman
from tidegate.analysis.correlation.correlations import (
    CorrelationMatrix,
    Correlations,
    Engine,
    Measured,
    Pair,
    correlate,
    judge,
)
from tidegate.analysis.correlation.significance import CORRECTIONS, Correction, adjust, effective_samples, p_values

__all__ = [
    "CORRECTIONS",
    "Coefficients",
    "Correction",
    "CorrelationMatrix",
    "Correlations",
    "Engine",
    "Measured",
    "Pair",
    "adjust",
    "correlate",
    "effective_samples",
    "judge",
    "p_values",
    "pearson",
    "spearman",
]
