"""Metrics in OpenMetrics: base units, labels for journal and application, and a bounded number of labels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from importlib.metadata import version

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import choose_encoder

from tidegate.view.book import Book
from tidegate.view.now import applications_now, pool_now
from tidegate.view.panels import ApplicationNow
from tidegate.view.ranges import operators

MOST_APPLICATIONS = 200
"""If there are more, only those with the least error budget left are exported; `tidegate_applications` counts all."""
_MOST_OPERATED, _MOST_OPERATORS = 20, 20
"""Maximum number of applications with exported operators, and of operators per application."""
_MOST_REASONS = 60
"""Maximum number of exported pairs of action and reason. The rarest beyond that are counted as `other`."""
_OPERATOR_WINDOW_S = 300.0

_OF_APPLICATIONS: dict[str, tuple[str, str]] = {
    "tidegate_backlog_rows": ("backlog_rows", "Rows that have arrived and are not in a batch yet."),
    "tidegate_backlog_seconds": ("backlog_s", "How long the backlog took to arrive."),
    "tidegate_catch_up_seconds": ("catch_up_s", "Time until the backlog is gone at the current load and capacity."),
    "tidegate_watermark_gap_seconds": ("watermark_gap_s", "Start of the last batch minus the event-time watermark."),
    "tidegate_objective_seconds": ("objective_s", "Latency objective of rows."),
    "tidegate_error_budget_remaining": ("budget_left", "Share of the error budget left: 1 untouched, 0 spent."),
    "tidegate_arrival_rows_per_second": ("arrival_rows_per_s", "Arrival rate."),
    "tidegate_forecast_rows_per_second": ("expected_rows_per_s", "Arrivals expected when a change would take effect."),
    "tidegate_capacity_rows_per_second": ("capacity_rows_per_s", "Rows that the slots available to it could process."),
    "tidegate_predicted_latency_seconds": ("predicted_p99_s", "99th percentile that the last decision predicted."),
    "tidegate_state_rows": ("state_rows", "Rows of state."),
    "tidegate_admission_limit_rows": ("admission_rows", "Maximum rows per trigger."),
}
_OPEN_METRICS = "application/openmetrics-text; version=1.0.0"
_QUANTILES = {"0.5": "latency_p50_s", "0.9": "latency_p90_s", "0.99": "latency_p99_s"}


class JournalMetrics:
    """Collects from the journals at every scrape."""

    def __init__(self, books: Iterable[Book]) -> None:
        self._books = list(books)

    def collect(self) -> Iterator[Metric]:
        told = [(book, _told(book)) for book in self._books]
        yield from _applications(told)
        yield from _operators(told)
        yield from _pools(self._books)
        yield from _control(self._books)


def exposition(books: Iterable[Book], accept: str) -> tuple[bytes, str]:
    """Metrics of these journals and their content type: OpenMetrics, unless only the older format is accepted."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(JournalMetrics(books))
    encoder, kind = choose_encoder(accept if accept.startswith("text/plain") else _OPEN_METRICS)
    return encoder(registry), kind


def _told(book: Book) -> list[ApplicationNow]:
    found = applications_now(book)
    worst = sorted(found, key=lambda one: 1.0 if one.budget_left is None else one.budget_left)
    return worst[:MOST_APPLICATIONS]


def _applications(told: list[tuple[Book, list[ApplicationNow]]]) -> Iterator[Metric]:
    labels = ["journal", "application"]
    for name, (field, words) in _OF_APPLICATIONS.items():
        family = GaugeMetricFamily(name, words, labels=labels)
        for book, applications in told:
            for one in applications:
                value = getattr(one, field)
                if value is not None:
                    family.add_metric([book.name, one.application], float(value))
        yield family
    latency = Metric("tidegate_row_latency_seconds", "Row latencies of the newest batch, arrival to commit.", "summary")
    for book, applications in told:
        for one in applications:
            for quantile, field in _QUANTILES.items():
                value = getattr(one, field)
                if value is not None:
                    own = {"journal": book.name, "application": one.application, "quantile": quantile}
                    latency.add_sample("tidegate_row_latency_seconds", own, value)
    yield latency
    running = GaugeMetricFamily("tidegate_application_running", "1 while the query runs.", labels=labels)
    for book, applications in told:
        for one in applications:
            running.add_metric([book.name, one.application], float(one.running))
    yield running


def _operators(told: list[tuple[Book, list[ApplicationNow]]]) -> Iterator[Metric]:
    labels = ["journal", "application", "operator"]
    arrival = GaugeMetricFamily(
        "tidegate_operator_arrival_rows_per_second", "Rows that reach the operator, mean over 5 minutes.", labels=labels
    )
    capacity = GaugeMetricFamily(
        "tidegate_operator_capacity_rows_per_second", "Rows that its tasks could process.", labels=labels
    )
    load = GaugeMetricFamily("tidegate_operator_load_ratio", "Busy share of the slots it can use.", labels=labels)
    for book, applications in told:
        end_s = (book.span_s or (0.0, 0.0))[1]
        for one in applications[:_MOST_OPERATED]:
            for seen in operators(book, one.application, end_s - _OPERATOR_WINDOW_S, end_s)[:_MOST_OPERATORS]:
                own = [book.name, one.application, seen.operator]
                for family, value in (
                    (arrival, seen.rows_in_per_s),
                    (capacity, seen.capacity_rows_per_s),
                    (load, seen.load),
                ):
                    if value is not None:
                        family.add_metric(own, value)
    yield from (arrival, capacity, load)


def _pools(books: list[Book]) -> Iterator[Metric]:
    executors = GaugeMetricFamily("tidegate_executors", "Executors by state.", labels=["journal", "state"])
    budget = GaugeMetricFamily(
        "tidegate_disruption_budget_remaining", "Shrinks and restarts left in this hour.", labels=["journal"]
    )
    bounds = GaugeMetricFamily("tidegate_executors_bound", "Bounds of the policy.", labels=["journal", "bound"])
    for book in books:
        pool = pool_now(book, book.policy())
        if pool is None:
            continue
        for state in ("wanted", "requested", "registered"):
            executors.add_metric([book.name, state], getattr(pool, state))
        if pool.disruptions_left is not None:
            budget.add_metric([book.name], pool.disruptions_left)
        for bound, value in (("min", pool.least), ("max", pool.most)):
            if value is not None:
                bounds.add_metric([book.name, bound], value)
    yield from (executors, budget, bounds)


def _control(books: list[Book]) -> Iterator[Metric]:
    decisions = CounterMetricFamily(
        "tidegate_decisions", "Decisions in the journal, by action and reason.", labels=["journal", "action", "reason"]
    )
    applications = GaugeMetricFamily("tidegate_applications", "Number of observed applications.", labels=["journal"])
    last = GaugeMetricFamily(
        "tidegate_last_step_timestamp_seconds", "Time of the controller's last step.", labels=["journal"]
    )
    for book in books:
        for (action, reason), count in _bounded(book.counts).items():
            decisions.add_metric([book.name, action, reason], count)
        applications.add_metric([book.name], len(applications_now(book)))
        if book.newest is not None:
            last.add_metric([book.name], book.newest["t"])
    build = GaugeMetricFamily("tidegate_build_info", "Version.", labels=["version"])
    build.add_metric([version("tidegate")], 1)
    yield from (decisions, applications, last, build)


def _bounded(counts: Counter[tuple[str, str]]) -> Counter[tuple[str, str]]:
    """Bound the number of labels, because plugged-in parts may have many reasons.

    >>> _bounded(Counter({("hold", f"reason-{number}"): 1 for number in range(100)}))["hold", "other"]
    40
    """
    found: Counter[tuple[str, str]] = Counter()
    for place, ((action, reason), count) in enumerate(counts.most_common()):
        found[action, reason if place < _MOST_REASONS else "other"] += count
    return found
