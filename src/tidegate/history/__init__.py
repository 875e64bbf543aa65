"""Recorded histories: the metrics catalogue, the table of metrics, and its readers and writers."""

from tidegate.history.catalogue import METRICS, Kind, Level, Metric, catalogue_page, metric_of, operator_column
from tidegate.history.flatten import ObservationFlattener
from tidegate.history.notes import Notes
from tidegate.history.read import History, holds_parquet, read_history
from tidegate.history.table import MetricRecord, MetricTable
from tidegate.history.writer import HistoryWriter

__all__ = [
    "METRICS",
    "History",
    "HistoryWriter",
    "Kind",
    "Level",
    "Metric",
    "MetricRecord",
    "MetricTable",
    "Notes",
    "ObservationFlattener",
    "catalogue_page",
    "holds_parquet",
    "metric_of",
    "operator_column",
    "read_history",
]
