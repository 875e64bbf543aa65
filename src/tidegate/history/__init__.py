"""Recorded histories: the metrics catalogue, the table of metrics, and its readers and writers.

Nothing is imported here: the live path needs only the parser of progress reports.
"""
