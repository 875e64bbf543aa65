"""A host of the fleet: one Spark application that runs the queries assigned to its agent."""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from tidegate.adapters.spark.backgroundrebalance import Note
from tidegate.adapters.spark.cluster import SparkCluster
from tidegate.adapters.spark.embedded import local_session
from tidegate.adapters.spark.gatefile import GateLimit
from tidegate.adapters.spark.restartablequery import RestartableQuery
from tidegate.adapters.spark.settings import Settings
from tidegate.adapters.spark.source import TidegateSource
from tidegate.control.journal import SqliteJournal
from tidegate.domain import EnvironmentUnfit, Mode, Observation, Receipt, Targets
from tidegate.domain.policy import Policy
from tidegate.evaluate.measurement import MeasurementPlan
from tidegate.fleet.agent import Agent
from tidegate.fleet.applicationfigures import ApplicationFigures
from tidegate.fleet.calls import Endpoint, fleet_wire
from tidegate.fleet.config import stored_config
from tidegate.fleet.folder import FleetFolder
from tidegate.fleet.hostcontrol import HostControl
from tidegate.fleet.ports import Ports
from tidegate.fleet.recipe import load_build
from tidegate.fleet.tenant import Figures, RunOrder
from tidegate.fleet.vocabulary import ApplicationSpec, HostSpec
from tidegate.fleet.watchdog import Handle

logger = logging.getLogger("tidegate")

_LOOK_S = 1.0
_CONTROL_WAIT_S = 30.0


class SparkQuery:
    """A query on Spark, as its tenant sees it. A rebalance may restart it with other settings meanwhile."""

    def __init__(self, query: RestartableQuery, ended: Callable[[], None] = lambda: None) -> None:
        """`ended` is called when nothing of it runs any more: until then it is controlled, with its objective."""
        self.query = query
        self._ended = ended

    def failure(self) -> str | None:
        if not self.query.has_ended():
            return None
        error = self.query.failure
        return "the query has ended" if error is None else str(error).strip().splitlines()[0]

    def stop(self) -> None:
        try:
            self.query.stop_at_boundary()
        finally:
            self._ended()

    def kill(self) -> None:
        """Nothing of it runs when this returns. A rebalance in progress ends first and starts nothing."""
        try:
            self.query.kill()
            self.query.await_rebalance()
            self.query.kill()
        finally:
            self._ended()


class SparkQueries:
    """Runs queries in one session under the fleet's leases. The host's controller observes and controls them."""

    def __init__(self, spark: SparkSession, policy: Policy, note: Note) -> None:
        self._spark = spark
        self._policy = policy
        with suppress(AnalysisException):  # another host in this process has registered it
            spark.dataSource.register(TidegateSource)
        self.cluster = SparkCluster(spark, policy, note, bound_first_batches=True)
        self.control: HostControl | None = None
        self._controlled = threading.Event()
        self._figures: dict[str, ApplicationFigures] = {}
        self._plan = MeasurementPlan(1.0, ())

    def steered_by(self, control: HostControl) -> None:
        """From now on queries may start: the controller must know each of them before its first batch."""
        self.control = control
        self._controlled.set()

    def start(self, spec: ApplicationSpec, order: RunOrder) -> SparkQuery:
        if not self._controlled.wait(_CONTROL_WAIT_S) or self.control is None:
            raise EnvironmentUnfit("the control of this host has not started; the query is tried again later")
        name = spec.name
        settings = Settings(
            name,
            str(order.gate),
            str(order.checkpoint),
            pool=(self._policy.class_name(name) or "") if self._policy.mode is Mode.APPLY else "",
            epoch=order.epoch,
            lease=str(order.lease),
        )
        batch_rows = self.control.began(spec)
        first = None
        if batch_rows is not None:  # whichever of the two its source obeys
            first = GateLimit(batch_rows)
            self.cluster.limits.limit(name, batch_rows)
        query = RestartableQuery(self._spark, load_build(spec), settings, self.cluster.limits, first)
        self.cluster.restartable[name] = query
        self._figures[name] = ApplicationFigures(asked=self._plan.asked_of(name))
        return SparkQuery(query, lambda: self._ended(name))

    def clear(self, application: str) -> None:
        """The driver may have started the query although the call failed. Stop it by name until it is gone."""
        for query in self._spark.streams.active:
            if query.name == application:
                query.stop()

    def figures(self, application: str) -> Figures:
        known = self._figures.get(application)
        if known is None:
            return Figures()
        alone = self.control.changes_alone(application) if self.control is not None else 0
        return replace(known.summary(time.time()), changes_alone=alone)

    def measure(self, plan: MeasurementPlan) -> None:
        """Also read the metrics that the plan needs in addition to those of the planners."""
        self._plan = plan
        for name, figures in list(self._figures.items()):
            figures.asked = plan.asked_of(name)

    def ended(self) -> bool:
        """Has Spark stopped?"""
        try:
            context = self._spark.sparkContext._jsc
            return context is None or bool(context.sc().isStopped())
        except Exception:  # the JVM does not answer
            return True

    # the `Cluster` port

    def observe(self) -> Observation:
        return self.cluster.observe()

    def converge(self, targets: Targets) -> Receipt:
        return self.cluster.converge(targets)

    def release(self) -> None:
        self.cluster.release()

    def seen(self, observation: Observation) -> None:
        for sample in observation.applications:
            if sample.name in self._figures:
                self._figures[sample.name].take(sample, observation.time_s)

    def _ended(self, application: str) -> None:
        if self.control is not None:
            self.control.ended(application)


def host_session(
    name: str, slots: int, master: str | None, memory_mb: int, settings: Mapping[str, str]
) -> SparkSession:
    """Spark in one small JVM (`local[slots]`), or on the given master."""
    changelog = {"spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true"}
    return local_session(f"tidegate-{name}", slots, memory_mb, {**changelog, **settings}, master)


def serve(spec: HostSpec, folder: FleetFolder, spark: SparkSession, *, lease_s: float, endpoint: Endpoint) -> None:
    """Serve until SIGTERM, Ctrl-C, or a request of the centre. Then stop every query at a batch boundary."""
    config = stored_config(folder)
    journal = SqliteJournal(folder.host_journal(spec.name))
    runner = SparkQueries(spark, config.policy, lambda event, text: journal.note(time.time(), event, text))
    wire = fleet_wire(folder, config, endpoint)
    ports = Ports(wire, Handle(os.getpgrp()))
    agent = Agent(spec, folder, runner, ports, lease_s=lease_s, advertise=endpoint.advertise)
    control = HostControl(agent.card, config, folder, wire, runner, journal)
    agent.control = control
    control.begin()
    runner.steered_by(control)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: agent.end())
    while not agent.wait(_LOOK_S):
        if runner.ended():
            logger.error("Spark has stopped, so this host stops too")
            agent.end()
    try:
        control.end()
    finally:
        agent.close()
