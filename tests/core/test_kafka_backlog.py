"""Arrivals, backlog and latency of Kafka queries with several sources, without a broker."""

from __future__ import annotations

import pytest

from tidegate.adapters.spark.kafkabacklog import KafkaBacklog


def two_topics() -> KafkaBacklog:
    """Ten rows a second into `orders`, one a second into `payments`, for ten seconds."""
    backlog = KafkaBacklog([0, 1], 2)
    for second in range(11):
        for place, (topic, rate) in enumerate((("orders", 10), ("payments", 1))):
            backlog.sources[place].curves.add(100.0 + second, {topic: {"0": rate * second, "1": 0}})
    return backlog


def test_the_backlogs_of_all_sources_add_up() -> None:
    backlog = two_topics()
    backlog.plan([(None, {"orders": {"0": 70, "1": 0}}), (None, {"payments": {"0": 2, "1": 0}})])
    arrival = backlog.arrival()
    assert arrival is not None
    assert (arrival.time_s, arrival.arrived_rows, arrival.waiting_rows) == (110.0, 110, 38)
    assert arrival.oldest_s == pytest.approx(102.0), "the oldest row waits in the topic with the smaller backlog"
    lags, partitions = backlog.lags()
    assert ([(lag.partition, lag.rows) for lag in lags], partitions) == ([("orders-0", 30), ("payments-0", 8)], 4)


def test_two_sources_may_read_the_same_topic() -> None:
    backlog = KafkaBacklog([0, 1], 2)
    for source in backlog.sources.values():
        source.curves.add(100.0, {"orders": {"0": 10, "1": 10}})
    backlog.plan([(None, {"orders": {"0": 4, "1": 10}}), (None, {"orders": {"0": 8, "1": 10}})])
    arrival, (lags, partitions) = backlog.arrival(), backlog.lags()
    assert arrival is not None
    assert arrival.waiting_rows == 8
    assert ([(lag.partition, lag.rows) for lag in lags], partitions) == ([("orders-0", 8)], 2)


def test_nothing_is_said_before_every_broker_has_answered_and_every_source_is_planned() -> None:
    backlog = KafkaBacklog([0, 1], 2)
    backlog.sources[0].curves.add(100.0, {"orders": {"0": 10}})
    assert backlog.arrival() is None
    backlog.sources[1].curves.add(101.0, {"payments": {"0": 5}})
    backlog.plan([(None, {"orders": {"0": 4}}), (None, None)])
    arrival = backlog.arrival()
    assert arrival is not None
    assert (arrival.time_s, arrival.arrived_rows, arrival.waiting_rows, arrival.oldest_s) == (100.0, 15, None, None)
    assert backlog.lags() == ((), None)


def test_the_row_that_is_deleted_first_counts_for_retention_not_the_oldest_one() -> None:
    backlog = two_topics()
    backlog.plan([(None, {"orders": {"0": 70, "1": 0}}), (None, {"payments": {"0": 2, "1": 0}})])
    backlog.sources[0].retention_s, backlog.sources[1].retention_s = {"orders": 60.0}, {"payments": 3600.0}
    arrival = backlog.arrival()
    assert arrival is not None
    assert (arrival.oldest_s, arrival.expiring_s) == (pytest.approx(102.0), pytest.approx(107.0))
    assert arrival.retention_s == 60.0
    backlog.sources[1].retention_s = {"payments": 20.0}
    arrival = backlog.arrival()
    assert arrival is not None
    assert (arrival.expiring_s, arrival.retention_s) == (None, 20.0), "the oldest row itself"


def test_rows_that_are_kept_for_ever_do_not_expire_with_those_of_another_topic() -> None:
    backlog = two_topics()
    ends = backlog.sources[1].curves
    backlog.plan([(None, {"orders": {"0": 70, "1": 0}}), (None, {"payments": ends.ends["payments"]})])
    backlog.sources[0].retention_s, backlog.sources[1].retention_s = {}, {"payments": 20.0}
    arrival = backlog.arrival()
    assert arrival is not None
    assert (arrival.expiring_s, arrival.retention_s) == (None, None)


def test_a_batch_has_the_latency_of_the_rows_of_all_sources() -> None:
    before = ({"orders": {"0": 0, "1": 0}}, {"payments": {"0": 0, "1": 0}})
    after = ({"orders": {"0": 100, "1": 0}}, {"payments": {"0": 0, "1": 0}})
    latency = two_topics().latency(dict(enumerate(zip(before, after, strict=True))), committed_s=112.0)
    assert latency is not None
    assert (latency.rows, round(latency.max_s)) == (100, 12)
    both = two_topics().latency({0: (before[0], after[0]), 1: (before[1], {"payments": {"0": 10, "1": 0}})}, 112.0)
    assert both is not None
    assert both.rows == 110


def test_a_batch_with_rows_that_cannot_be_dated_has_no_latency() -> None:
    backlog = KafkaBacklog([0, 1], 2)
    backlog.sources[0].curves.add(100.0, {"orders": {"0": 10}})
    spans = {0: ({"orders": {"0": 0}}, {"orders": {"0": 10}}), 1: ({"payments": {"0": 0}}, {"payments": {"0": 5}})}
    assert backlog.latency(spans, 112.0) is None


def test_beside_files_only_the_age_of_the_rows_in_kafka_is_known() -> None:
    backlog = KafkaBacklog([1], 2)
    backlog.sources[1].curves.add(90.0, {"orders": {"0": 4}}, looked_up=True)
    backlog.sources[1].curves.add(100.0, {"orders": {"0": 10}})
    backlog.sources[1].retention_s = {"orders": 60.0}
    backlog.plan([(None, {"logOffset": 3}), (None, {"orders": {"0": 4}})])
    arrival = backlog.arrival()
    assert arrival is not None
    assert (arrival.arrived_rows, arrival.waiting_rows) == (None, None)
    assert (arrival.oldest_s, arrival.retention_s) == (90.0, 60.0)
    assert backlog.lags() == ((), None)
    assert backlog.latency({1: ({"orders": {"0": 0}}, {"orders": {"0": 4}})}, 112.0) is None
