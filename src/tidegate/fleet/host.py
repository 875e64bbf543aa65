"""A host of the fleet: one Spark application that runs the queries its agent is given."""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from pyspark.sql import SparkSession

from tidegate.domain import InvalidInput, Mode
from tidegate.domain.policy import Policy
from tidegate.fleet.agent import Agent
from tidegate.fleet.config import stored_config
from tidegate.fleet.figures import ApplicationFigures, OperatorFigures
from tidegate.fleet.folder import FleetFolder
from tidegate.fleet.local import HostStaff
from tidegate.fleet.protocol import read_token
from tidegate.fleet.recipe import load_build
from tidegate.fleet.state import ApplicationSpec, HostSpec
from tidegate.fleet.tenant import Figures
from tidegate.monitor.measurement import MeasurementPlan
from tidegate.spark.cluster import SparkCluster
from tidegate.spark.embedded import local_session
from tidegate.spark.queries import RestartableQuery
from tidegate.spark.settings import Settings
from tidegate.spark.source import TidegateSource

logger = logging.getLogger("tidegate")

_OBSERVE_S = 1.0
_BOUND_CHANGE = 0.2


class SparkQuery:
    """A query on Spark, as its tenant sees it; it may be restarted with other settings meanwhile."""

    def __init__(self, query: RestartableQuery) -> None:
        self.query = query
        self._turn = threading.RLock()  # in the middle of a restart the query looks as if it had ended
        self._over = False

    def failure(self) -> str | None:
        with self._turn:
            running = self.query.query
            if running.isActive:
                return None
            error = running.exception()
        return "the query has ended" if error is None else str(error).strip().splitlines()[0]

    def stop(self) -> None:
        with self._turn:
            self._over = True
            self.query.stop_at_boundary()

    def kill(self) -> None:
        self._over = True
        self.query.kill()
        with self._turn:  # a restart under way ends first
            self.query.kill()

    def restart(self, settings: Settings) -> float:
        """Go on with other settings; not where its tenant has stopped it. Returns the pause in seconds."""
        with self._turn:
            if self._over or not self.query.query.isActive:
                raise InvalidInput(f"{self.query.name} does not run here any more")
            return self.query.restart(settings)


class SparkQueries:
    """Runs queries in one session, watches them, and rescales their operators."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        spark.dataSource.register(TidegateSource)
        self._cluster = SparkCluster(spark, Policy(mode=Mode.OFF))
        self._figures: dict[str, ApplicationFigures] = {}
        self._handles: dict[str, SparkQuery] = {}
        self._plan = MeasurementPlan(_OBSERVE_S, ())
        threading.Thread(target=self._observe, name="tidegate-observe", daemon=True).start()

    def start(self, spec: ApplicationSpec, checkpoint: Path, gate: Path, tasks: Mapping[str, int]) -> SparkQuery:
        build = load_build(spec)
        settings = Settings(spec.name, str(gate), str(checkpoint), MappingProxyType(dict(tasks)))
        query = RestartableQuery(self._spark, build, settings)
        self._cluster.restartable[spec.name] = query
        self._figures[spec.name] = ApplicationFigures(asked=self._plan.asked_of(spec.name))
        self._handles[spec.name] = SparkQuery(query)
        return self._handles[spec.name]

    def figures(self, application: str) -> Figures:
        known = self._figures.get(application)
        return known.summary(time.time()) if known is not None else Figures()

    def measure(self, plan: MeasurementPlan) -> None:
        """Look as often as the plan says, and read what it asks for beyond what managers need."""
        self._plan = plan
        for name, figures in list(self._figures.items()):
            figures.asked = plan.asked_of(name)

    def operator(self, application: str, operator: str) -> OperatorFigures | None:
        """An operator's view, for the manager that watches it."""
        known = self._figures.get(application)
        return known.operator(operator, time.time()) if known is not None else None

    def tasks(self, application: str) -> dict[str, int]:
        """Tasks by operator as the query was last built."""
        query = self._cluster.restartable.get(application)
        return dict(query.settings.tasks) if query is not None else {}

    def rescale(self, application: str, operator: str, tasks: int) -> float:
        """Run an operator with so many tasks: a restart at a batch boundary. Returns the pause in seconds."""
        handle = self._handles.get(application)
        if handle is None:
            raise InvalidInput(f"{application} does not run here")
        settings = handle.query.settings.with_parallelism(operator, tasks)
        if settings == handle.query.settings:
            return 0.0
        return handle.restart(settings)

    def bound(self, application: str, rows_per_s: float, batch_s: float) -> None:
        """Let no batch take more rows than are done at this rate in so long, or in a trigger's interval."""
        query, figures = self._cluster.restartable.get(application), self._figures.get(application)
        admission = query.admission if query is not None else None
        if query is None or figures is None or admission is None:
            return
        rows = max(1, round(rows_per_s * max(batch_s, figures.interval_s)))
        if admission.rows_per_trigger is None or abs(rows - admission.rows_per_trigger) > _BOUND_CHANGE * rows:
            query.admit(replace(admission, rows_per_trigger=rows))

    def ended(self) -> bool:
        """Has Spark gone away under us?"""
        try:
            context = self._spark.sparkContext._jsc
            return context is None or bool(context.sc().isStopped())
        except Exception:  # nobody there to ask
            return True

    def _observe(self) -> None:
        while True:
            try:
                observation = self._cluster.observe()
                for sample in observation.applications:
                    if sample.name in self._figures:
                        self._figures[sample.name].take(sample, observation.time_s)
            except Exception as error:  # watching must not end the host
                if self._spark.sparkContext._jsc is None:
                    return
                logger.warning("the queries could not be watched: %s", (str(error) or repr(error)).splitlines()[0])
            time.sleep(self._plan.interval_s)


def host_session(
    name: str, slots: int, master: str | None, memory_mb: int, settings: Mapping[str, str]
) -> SparkSession:
    """Spark in one small JVM (`local[slots]`), or on the master that is given."""
    changelog = {"spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true"}
    return local_session(f"tidegate-{name}", slots, memory_mb, {**changelog, **settings}, master)


def serve(
    spec: HostSpec,
    folder: FleetFolder,
    spark: SparkSession,
    *,
    lease_s: float,
    bind: str = "127.0.0.1",
    port: int = 0,
    advertise: tuple[str, int] | None = None,
) -> None:
    """Serve until SIGTERM, Ctrl-C, or the centre's word; then stop every query at a batch boundary."""
    runner = SparkQueries(spark)
    agent = Agent(spec, folder, runner, lease_s=lease_s, bind=bind, port=port, advertise=advertise)
    config, token = stored_config(folder), read_token(folder.token)
    staff = HostStaff(agent.card, config, folder, token, runner, lambda: list(agent.status().tenancies))
    agent.managers = staff
    staff.begin()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: agent.end())
    while not agent.wait(_OBSERVE_S):
        if runner.ended():
            logger.error("Spark has ended, and this host with it")
            agent.end()
    try:
        staff.end()
    finally:
        agent.close()
