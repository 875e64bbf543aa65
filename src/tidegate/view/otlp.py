"""Pushes the metrics of `/metrics` to an OpenTelemetry collector (OTLP over HTTP).

Names, labels and bounds are those of `/metrics`. The journals are read once per export, on the reading thread.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from functools import partial
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from tidegate.domain import EnvironmentUnfit
from tidegate.view.library import Library
from tidegate.view.openmetrics import JournalMetrics

if TYPE_CHECKING:
    from prometheus_client.core import Metric

_EXPORT_EVERY_S = 15.0
_FRESH_S = 2.0


class Exporter:
    """Pushes metrics until it is closed. If the collector does not answer, the SDK logs it and nothing else happens."""

    def __init__(self, library: Library, endpoint: str, every_s: float = _EXPORT_EVERY_S) -> None:
        try:
            from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
            from opentelemetry.sdk.metrics import MeterProvider
            from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
            from opentelemetry.sdk.resources import Resource
        except ImportError as error:
            raise EnvironmentUnfit(f"otlp_endpoint needs {error.name}: pip install 'tidegate[otel]'") from None
        self._library = library
        self._seen: dict[str, Metric] = {}
        self._read_at = float("-inf")
        exporter = OTLPMetricExporter(endpoint=f"{endpoint.rstrip('/')}/v1/metrics")
        reader = PeriodicExportingMetricReader(exporter, export_interval_millis=every_s * 1000)
        resource = Resource.create({"service.name": "tidegate", "service.version": version("tidegate")})
        self._provider = MeterProvider([reader], resource=resource)
        meter = self._provider.get_meter("tidegate")
        for name, family in self._families().items():
            make: Callable[..., Any] = (
                meter.create_observable_counter if family.type == "counter" else meter.create_observable_gauge
            )
            unit = "s" if name.endswith("_seconds") else "1"
            make(name, [partial(self._observations, name)], unit=unit, description=family.documentation)

    def close(self) -> None:
        """Push the latest values and stop."""
        self._provider.shutdown()

    def _observations(self, name: str, _: Any) -> Iterable[Any]:
        from opentelemetry.metrics import Observation

        family = self._families().get(name)
        return [] if family is None else [Observation(float(one.value), dict(one.labels)) for one in family.samples]

    def _families(self) -> dict[str, Metric]:
        """All instruments share one read of the journals."""
        if time.monotonic() - self._read_at > _FRESH_S:
            try:
                self._seen = self._library.run(self._read).result()
            except RuntimeError:  # the library has closed
                self._seen = {}
            self._read_at = time.monotonic()
        return self._seen

    def _read(self) -> dict[str, Metric]:
        self._library.poll()
        return {family.name: family for family in JournalMetrics(self._library.books.values()).collect()}
