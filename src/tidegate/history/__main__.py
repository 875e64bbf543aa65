"""`python -m tidegate.history` prints docs/metrics.md, the metrics catalogue."""

from tidegate.history.metriccatalogue import catalogue_page

print(catalogue_page(), end="")
