"""The plan of the QoS experiments: nine applications in three classes, phases of load, and the shared session.

Rates are the paper's (100, 400 and 1600 rows/s for low, middle and high traffic) divided by five. The work of a row is
such that two processors are busy with it on any machine: a fast one does more of it. Objectives are in the seconds that
micro-batches take.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, cast, get_args

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tidegate.adapters.spark.embedded import embedded_session, local_session
from tidegate.adapters.spark.restartablequery import Build
from tidegate.domain import Mode
from tidegate.domain.policy import Policy
from tidegate.load import Burst, LoadProfile, Sum, Timeline
from tidegate_lab.experiments.datasets import recorded
from tidegate_lab.workloads import dpip, gsm
from tidegate_lab.workloads.dpip import Dpip, DpipQuery
from tidegate_lab.workloads.gsm import Gsm, GsmStep
from tidegate_lab.workloads.topic import Topic

CLASSES = ("q1", "q2", "q3")
SLOTS = 2
WEIGHTS = {"q1": 6.0, "q2": 3.0, "q3": 1.0}
OBJECTIVES_S = {"q1": 12.0, "q2": 20.0, "q3": 40.0}
ROUNDS = {"grep": 150, "sort": 105, "md5": 430, "fares": 380, "breaks": 380}
"""Work of a row that costs about the same for every kind."""
ROW_CPU_S = 0.00045
"""What this work should cost."""
_MEASURED_ROWS, _MEASUREMENTS = 2000, 6
_SETTINGS = {
    "spark.scheduler.mode": "FAIR",
    "spark.sql.shuffle.partitions": "1",
    # A few thousand keys: the default store spends less on a batch than RocksDB.
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
    ),
}


@dataclass(frozen=True, slots=True)
class QosApplication:
    """One query and its class."""

    qos_class: str
    kind: str
    """grep, sort or md5 (GSM); fares or breaks (DPIP)."""

    @property
    def name(self) -> str:
        return f"{self.qos_class}-{self.kind}"


APPLICATIONS = tuple(
    QosApplication(qos_class, kind)
    for qos_class, kinds in (
        ("q1", ("grep", "md5", "breaks")),
        ("q2", ("grep", "sort", "fares")),
        ("q3", ("sort", "md5", "breaks")),
    )
    for kind in kinds
)


@dataclass(frozen=True, slots=True)
class Phase:
    """A stretch of time with one rate for every application of a class."""

    name: str
    duration_s: float
    rows_per_s: Mapping[str, float]


def even(name: str, duration_s: float, rows_per_s: float) -> Phase:
    """Return a phase with the same rate for all classes."""
    return Phase(name, duration_s, dict.fromkeys(CLASSES, rows_per_s))


@dataclass(frozen=True)
class QosPlan:
    """Phases one after the other; every run of a plan sees the same rows."""

    phases: tuple[Phase, ...]
    trigger_s: float = 5.0
    work: float = 1.0
    """Work of a row relative to `ROUNDS`, from `work_here`."""

    @cached_property
    def spans_s(self) -> dict[str, tuple[float, float]]:
        """When each phase begins and ends, from the start of the load."""
        spans, at_s = {}, 0.0
        for phase in self.phases:
            spans[phase.name] = (at_s, at_s + phase.duration_s)
            at_s += phase.duration_s
        return spans

    @property
    def end_s(self) -> float:
        return sum(phase.duration_s for phase in self.phases)

    def load(self, qos_class: str) -> LoadProfile:
        """Return the load of one application of a class."""
        spans = self.spans_s
        return Sum(
            tuple(
                Burst(0.0, phase.rows_per_s[qos_class], spans[phase.name][0], phase.duration_s) for phase in self.phases
            )
        )

    def rows(self, qos_class: str) -> int:
        return Timeline(self.load(qos_class)).rows_by(self.end_s)

    def content(self, application: QosApplication) -> str:
        """Return the content of an application's rows."""
        return gsm.CONTENT if application.kind in get_args(GsmStep) else dpip.content(recorded_rides()[0])

    def recipes(
        self, applications: Iterable[QosApplication], start_s: float, topics: Mapping[str, Topic] | None = None
    ) -> dict[QosApplication, Build]:
        """How the query of each application is built; its load begins at `start_s`, or is in its topic."""
        return {one: self.recipe(one, int(start_s * 1000), (topics or {}).get(one.name)) for one in applications}

    def recipe(self, application: QosApplication, start_ms: int, topic: Topic | None = None) -> Build:
        """How the query of an application is built; its load begins at `start_ms`, or is in a topic."""
        shared: dict[str, Any] = {
            "load": self.load(application.qos_class),
            "rows": self.rows(application.qos_class),
            "start_ms": start_ms,
            "rounds": round(self.work * ROUNDS[application.kind]),
            "source_tasks": 1,
            "trigger_s": self.trigger_s,
            "topic": topic,
        }
        if application.kind in get_args(GsmStep):
            return Gsm(cast(GsmStep, application.kind), **shared).build
        rides, zones = recorded_rides()
        return Dpip(cast(DpipQuery, application.kind), rides=rides, zones=zones, **shared).build


_BASE = {"q1": 80.0, "q2": 100.0, "q3": 600.0}
_BURST = {**_BASE, "q3": 3000.0}
_OWN_BASE = {"q1": 790.0, "q2": 210.0, "q3": 170.0}
"""With CPUs shared by weight, equal shares harm q1 only if it needs more than a third of them."""
_OWN_BURST = {**_OWN_BASE, "q3": 680.0}
PLANS = {
    "full": QosPlan(
        (
            even("low", 20, 20),
            even("middle", 20, 80),
            even("high", 30, 320),
            Phase("before", 20, _BASE),
            Phase("burst", 75, _BURST),
            Phase("after", 20, _BASE),
        )
    ),
    "quick": QosPlan((Phase("before", 40, _BASE), Phase("burst", 50, _BURST), Phase("after", 5, _BASE))),
    "warm-up": QosPlan((even("warm-up", 15, 100),)),
    "processes": QosPlan(
        (Phase("before", 45, _OWN_BASE), Phase("burst", 75, _OWN_BURST), Phase("after", 10, _OWN_BASE))
    ),
}


def policy(mode: Mode, store: Path) -> Policy:
    """Three classes with the paper's weights."""
    return Policy.model_validate(
        {
            "mode": mode,
            "classes": {
                name: {"latency_s": OBJECTIVES_S[name], "weight": WEIGHTS[name], "floor": 0.1} for name in CLASSES
            },
            "applications": {one.name: {"class": one.qos_class} for one in APPLICATIONS},
            "journal": {"path": str(store)},
        }
    )


def work_here(spark: SparkSession) -> float:
    """How many times `ROUNDS` a row costs `ROW_CPU_S` on this machine, measured once the JVM has compiled the work."""
    rows = spark.range(0, _MEASURED_ROWS, 1, 1).select(gsm.stretched(F.col("id").cast("string"), ROUNDS["md5"]))
    took_s = []
    for _ in range(_MEASUREMENTS):
        began_s = time.perf_counter()
        rows.write.format("noop").mode("overwrite").save()
        took_s.append(time.perf_counter() - began_s)
    return round(ROW_CPU_S * _MEASURED_ROWS / min(took_s), 3)


def recorded_rides() -> tuple[str | None, str | None]:
    """Return the files of recorded rides and zones, or None if not available."""
    rides, zones = (recorded(f"nyc_taxi_rides/{name}") for name in ("taxis_raw.csv", "taxi_zones.csv"))
    return (str(rides), str(zones)) if rides and zones else (None, None)


def shared_session(name: str, settings: Mapping[str, str] | None = None) -> SparkSession:
    """One executor with two slots for all classes."""
    chosen = {**_SETTINGS, **(settings or {})}
    return embedded_session(name, executors=1, most_executors=1, slots=SLOTS, memory_mb=1536, settings=chosen)


def own_session(name: str, memory_mb: int = 1024) -> SparkSession:
    """Spark inside one process: one of several applications on a host."""
    return local_session(name, SLOTS, memory_mb, _SETTINGS)
