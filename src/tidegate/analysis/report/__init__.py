"""The report of an analysis: one page with its pictures inside."""

from tidegate.analysis.report.page import write_report

__all__ = ["write_report"]
