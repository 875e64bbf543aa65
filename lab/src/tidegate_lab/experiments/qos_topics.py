"""The QoS experiments' rows through Kafka: a topic for each application, fed on time by a separate process."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from multiprocessing import get_context
from typing import Any

from tidegate.domain import EnvironmentUnfit
from tidegate.load import Timeline
from tidegate.load.content import content_from_spec
from tidegate_lab.experiments.qos_plan import APPLICATIONS, QosPlan
from tidegate_lab.workloads.topic import Topic

_TICK_S = 0.05
_END_S = 10.0


class Topics:
    """Topics on one broker; every run has its own."""

    def __init__(self, address: str) -> None:
        self._address = address

    def create(self, run: str) -> dict[str, Topic]:
        """An empty topic of one partition for each application."""
        from confluent_kafka.admin import AdminClient
        from confluent_kafka.cimpl import NewTopic

        topics = {one.name: Topic(self._address, f"{run}-{one.name}-{int(time.time())}") for one in APPLICATIONS}
        admin = AdminClient({"bootstrap.servers": self._address})
        for answer in admin.create_topics([NewTopic(topic.name, 1) for topic in topics.values()]).values():
            answer.result(30)
        return topics

    @contextmanager
    def fed(self, topics: Mapping[str, Topic], plan: QosPlan, start_s: float) -> Iterator[None]:
        """Produce the plan's rows from `start_s` on, whether or not they are read."""
        process = get_context("spawn").Process(target=_feed, args=(dict(topics), plan, start_s), daemon=True)
        process.start()
        try:
            yield
            if process.exitcode not in {None, 0}:
                raise EnvironmentUnfit("the process that feeds the topics has failed; its error is on stderr")
        finally:
            process.terminate()
            process.join(_END_S)


def _feed(topics: Mapping[str, Topic], plan: QosPlan, start_s: float) -> None:
    from confluent_kafka import Producer

    address = next(iter(topics.values())).address
    producer: Any = Producer({"bootstrap.servers": address, "linger.ms": 20, "queue.buffering.max.messages": 1_000_000})
    timelines = {one: Timeline(plan.load(one.qos_class)) for one in APPLICATIONS}
    contents = {one: content_from_spec(plan.content(one)) for one in APPLICATIONS}
    sent = dict.fromkeys(APPLICATIONS, 0)
    while (at_s := time.time() - start_s) < plan.end_s + _TICK_S:
        for one, first in sent.items():
            due = min(timelines[one].rows_by(max(0.0, at_s)), plan.rows(one.qos_class))
            for text in contents[one].texts(first, due):
                producer.produce(topics[one.name].name, value=text.encode())
            sent[one] = due
        producer.poll(0)
        time.sleep(_TICK_S)
    producer.flush()
