"""Metrics pushed to an OpenTelemetry collector, read back with the protocol's own messages."""

from __future__ import annotations

import gzip
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from tidegate.view.library import Library

messages = pytest.importorskip(
    "opentelemetry.proto.collector.metrics.v1.metrics_service_pb2", reason="pip install 'tidegate[otel]'"
)


def test_a_collector_gets_what_a_scraper_gets(journal: Path) -> None:
    from tidegate.view.otlp import Exporter

    told: list[bytes] = []

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            told.append(gzip.decompress(body) if self.headers.get("content-encoding") == "gzip" else body)
            assert self.path == "/v1/metrics"
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            return

    server = HTTPServer(("127.0.0.1", 0), Collector)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    library = Library([journal])
    library.open()
    try:
        exporter = Exporter(library, f"http://127.0.0.1:{server.server_port}", every_s=600)
        exporter.close()  # pushes a last time
    finally:
        library.close()
        server.shutdown()
        server.server_close()
    request = messages.ExportMetricsServiceRequest.FromString(told[-1])
    metrics = {one.name: one for one in request.resource_metrics[0].scope_metrics[0].metrics}
    backlog = {
        next(label.value.string_value for label in point.attributes if label.key == "application"): point.as_double
        for point in metrics["tidegate_backlog_rows"].gauge.data_points
    }
    assert backlog == {"orders": 100, "clicks": 0}
    assert metrics["tidegate_backlog_seconds"].unit == "s"
    decisions = metrics["tidegate_decisions"].sum
    assert decisions.is_monotonic
    assert sum(point.as_double for point in decisions.data_points) == 260
    latency = metrics["tidegate_row_latency_seconds"].gauge.data_points
    assert {label.value.string_value for point in latency for label in point.attributes if label.key == "quantile"} == {
        "0.5", "0.9", "0.99",
    }  # fmt: skip
