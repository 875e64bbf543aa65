"""Views of journals: panels, a page, metrics, an API, and one-file reports.

In: journals, read only, and the newest decision.
Out: pages, JSON, Prometheus metrics, alerts and reports.
Never touches: the controller. A view that fails does not disturb control.
"""
