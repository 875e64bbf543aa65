"""Chaos run: stateful jobs on real executors, from a Kafka broker to a transactional sink, under injected faults.

The run has two parts: a driver with two jobs under `tidegate.attach` with the default policy and, if the run is long
enough, one application on a fleet of two hosts. Afterwards every row is checked in the sinks, by key and by id.
"""

from __future__ import annotations

import json
import random
import shutil
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pyspark

from tidegate.adapters.spark.java import require_java
from tidegate.domain import EnvironmentUnfit, InvalidInput
from tidegate_lab.experiments.chaos_disk import SmallDisk
from tidegate_lab.experiments.chaos_driver import COUNT, UNIQUE, Orders
from tidegate_lab.experiments.chaos_faults import FAULTS, Scene
from tidegate_lab.experiments.chaos_feed import ROWS_PER_S, Feed
from tidegate_lab.experiments.chaos_fleet import APPLICATION, KINDS, ChaosFleet
from tidegate_lab.experiments.chaos_network import Network
from tidegate_lab.experiments.chaos_play import Part, Play, Told, await_rows, judge_counts, judge_ids, overlaps
from tidegate_lab.experiments.chaos_processes import DriverProcess
from tidegate_lab.experiments.chaos_sink import Sink
from tidegate_lab.experiments.chaos_watch import SAMPLE_S, Watch
from tidegate_lab.experiments.kafka_broker import VERSION, Broker, available, connector_jars, create_topic

Thing = TypeVar("Thing", Network, SmallDisk)
TOPIC_PARTITIONS = 4
FLEET_FROM_MINUTES = 6.0
_FLEET_SHARE = 0.35


@dataclass(frozen=True, slots=True)
class Plan:
    """Length, order and kinds of faults."""

    minutes: float
    seed: int
    kinds: tuple[str, ...] = tuple(FAULTS)

    @property
    def fleet_s(self) -> float:
        """Seconds for the fleet's faults; 0 for a short run."""
        return 60.0 * self.minutes * _FLEET_SHARE if self.minutes >= FLEET_FROM_MINUTES else 0.0


@dataclass(frozen=True, slots=True)
class Stage:
    """The environment of the run."""

    folder: Path
    broker: Broker
    disk: SmallDisk | None
    network: Network | None
    chance: random.Random
    told: Told


def run(plan: Plan, folder: Path, told: Told) -> dict[str, Any]:
    """Run everything and return the document that `tidegate chaos --json` prints."""
    missing = available()
    if missing is not None:
        raise EnvironmentUnfit(missing)
    require_java()
    if (folder / "job").exists():
        raise InvalidInput(f"{folder}: contains an earlier run with its checkpoints; remove it")
    folder = folder.resolve()
    left_out: dict[str, str] = {}
    with ExitStack() as open_things:
        network = _where_permitted(open_things, Network(), "network-cut", left_out)
        disk = _where_permitted(open_things, SmallDisk(folder / "journal"), "journal-disk-full", left_out)
        told("starting the broker", 0.0)
        broker = open_things.enter_context(
            Broker(folder / "broker", network.host, network.within) if network else Broker(folder / "broker")
        )
        stage = Stage(folder, broker, disk, network, random.Random(plan.seed), told)
        kinds = [kind for kind in plan.kinds if kind not in left_out]
        job_s = 60.0 * plan.minutes - plan.fleet_s
        parts = [_play_job(stage, kinds, job_s)]
        _write(_document(plan, parts, left_out), folder)  # kept, even if the rest fails
        if plan.fleet_s:
            parts.append(_play_fleet(stage, plan.fleet_s, job_s))
        else:
            reason = f"the fleet's faults need {FLEET_FROM_MINUTES:g} minutes or more"
            left_out |= dict.fromkeys(KINDS, reason)
    document = _document(plan, parts, left_out)
    _write(document, folder)
    return document


def _write(document: dict[str, Any], folder: Path) -> None:
    (folder / "chaos.json").write_text(json.dumps(document, indent=2))


def _where_permitted(stack: ExitStack, thing: Thing, kind: str, left_out: dict[str, str]) -> Thing | None:
    try:
        stack.enter_context(thing)
    except EnvironmentUnfit as error:
        left_out[kind] = str(error)
        return None
    return thing


def _play_job(stage: Stage, kinds: list[str], seconds: float) -> Part:
    """Run the jobs under `attach` and their faults."""
    broker, disk, chance = stage.broker, stage.disk, stage.chance
    place = stage.folder / "job"
    place.mkdir(parents=True)
    journal = (disk.folder if disk is not None else place) / "journal.db"
    orders = Orders(broker.address, "rows", str(place), str(journal), 0, ",".join(connector_jars()))
    create_topic(broker.address, orders.topic, TOPIC_PARTITIONS)
    sinks = {name: Sink(orders.sink(name)) for name in (COUNT, UNIQUE)}
    feed = Feed(broker.address, orders.topic)

    def behind_s() -> Mapping[str, float]:
        due = {COUNT: feed.rows, UNIQUE: feed.ids}
        return {name: (due[name] - sink.total()) / ROWS_PER_S for name, sink in sinks.items()}

    with DriverProcess(orders) as driver:
        scene = Scene(driver, broker, journal, disk, stage.network, chance)
        strikes = {kind: partial(FAULTS[kind], scene) for kind in kinds}
        feed.start()
        with Watch(behind_s, lambda: driver.steps) as watch:
            play = Play(watch, chance, stage.told, driver.ensure)
            play.warm_up()
            struck = play.faults(strikes, seconds)
            stage.told("waiting for the last rows", seconds)
            feed.finish()
            await_rows(lambda: sinks[COUNT].total() >= feed.rows and sinks[UNIQUE].total() >= feed.ids, driver.ensure)
            driver.stop()
            if disk is not None:  # removed after this run
                shutil.copy(journal, place / "journal.db")
        began_s = driver.began_s
    rows = {
        COUNT: judge_counts(feed.expected(), sinks[COUNT].counts()),
        UNIQUE: judge_ids(feed.ids, sinks[UNIQUE].copies()),
    }
    return Part(struck, rows, sum(overlaps(sink, began_s) for sink in sinks.values()), driver.failures)


def _play_fleet(stage: Stage, seconds: float, before_s: float) -> Part:
    """Run an application on a fleet and the faults of hosts and centre."""
    broker = stage.broker
    place = stage.folder / "fleet"
    place.mkdir(parents=True)
    topic = "fleet-rows"
    create_topic(broker.address, topic, TOPIC_PARTITIONS)
    feed = Feed(broker.address, topic)
    stage.told("starting a fleet", before_s)
    with ChaosFleet(place, broker.address, topic) as fleet:
        feed.start()

        def behind_s() -> Mapping[str, float]:
            return {APPLICATION: (feed.rows - fleet.sink.total()) / ROWS_PER_S}

        def centre_steps() -> int:
            return round(time.monotonic() / SAMPLE_S) if fleet.centre_alive() else 0

        with Watch(behind_s, centre_steps) as watch:
            play = Play(watch, stage.chance, stage.told, ready=fleet.whole)
            play.warm_up()
            struck = play.faults(fleet.strikes(), seconds, before_s)
            stage.told("waiting for the last rows", before_s + seconds)
            feed.finish()
            await_rows(lambda: fleet.sink.total() >= feed.rows)
            fleet.withdraw()
        rows = {APPLICATION: judge_counts(feed.expected(), fleet.sink.counts())}
        return Part(struck, rows, overlaps(fleet.sink, fleet.began_s()), [])


def _document(plan: Plan, parts: list[Part], left_out: Mapping[str, str]) -> dict[str, Any]:
    rows = [judged for part in parts for judged in part.rows.values()]
    return {
        "faults": [asdict(fault) for part in parts for fault in part.struck],
        "rows_in": sum(job.rows_in for job in rows),
        "rows_lost": sum(job.rows_lost for job in rows),
        "rows_doubled": sum(job.rows_doubled for job in rows),
        "overlaps": sum(part.overlaps for part in parts),
        "jobs": {name: asdict(judged) for part in parts for name, judged in part.rows.items()},
        "restarts": [text for part in parts for text in part.restarts],
        "left_out": dict(left_out),
        "minutes": plan.minutes,
        "seed": plan.seed,
        "spark": pyspark.__version__,
        "kafka": VERSION,
    }
