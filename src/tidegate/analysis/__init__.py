"""Analysis of recorded metrics: correlations, factors, drivers, online learning, profiles, and the report.

In: a table of metrics.
Out: what drives the quality of service, as tables, figures and a page.
Never touches: live control; it needs the extra `[analysis]`.
"""
