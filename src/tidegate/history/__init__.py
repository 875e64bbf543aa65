"""Recorded histories: the metrics catalogue, the table of metrics, and its readers and writers.

Nothing is imported here: the live path needs only the parser of progress reports.

In: progress reports, event logs and journals.
Out: tables of metrics, as rows, CSV or Parquet.
Never touches: live jobs: it reads what was recorded.
"""
