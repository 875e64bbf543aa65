"""What Tidegate does with a plain job, checked on the Spark and the cluster that this process is given.

Run by `python -m tests.versions` in an environment of every version; it needs nothing but Tidegate and PySpark. The
last line of its output is a JSON document: one entry per check, in order.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

import tidegate
from tidegate.adapters.spark import applications
from tidegate.adapters.spark import limits as live_limits
from tidegate.adapters.spark.attach import Gate
from tidegate.adapters.spark.embedded import prepare_start
from tidegate.adapters.spark.sparkfeatures import Features, probe
from tidegate.control.journal import read_entries
from tidegate.domain import ApplicationSample, MoveState, Outcome, SetAdmission, SetParallelism, Targets

KEYS = 10
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
PROVIDER = "spark.sql.streaming.stateStore.providerClass"
# Small JVMs that start soon; deep plans want a larger stack with the first-tier compiler.
JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xss4m"
PATIENCE_S = 300.0


class Unable(Exception):
    """This Spark cannot do it, and Tidegate said so; the message is what it said."""


@dataclass(slots=True)
class Found:
    """One line of the table."""

    check: str
    works: bool
    failed: bool
    note: str
    seconds: float


class Job:
    """A count of words over a folder of files, as a user writes it, with Tidegate attached."""

    def __init__(self, master: str, settings: dict[str, str], scratch: Path) -> None:
        self.master, self.settings, self.scratch = master, settings, scratch
        self.folder = scratch / "lines"
        self.folder.mkdir(parents=True)
        self.written = 0
        self.begin()

    def begin(self) -> None:
        builder = SparkSession.builder.master(self.master).appName("tidegate-versions")
        for key, value in {**BASE, **self.settings}.items():
            builder = builder.config(key, value)
        prepare_start(builder)  # as `tidegate run` does
        self.spark = builder.getOrCreate()
        self.spark.sparkContext.setLogLevel("OFF")
        self.gate = tidegate.attach(self.spark, self.policy())
        self.query = self.start()

    def policy(self) -> dict[str, Any]:
        journal = self.scratch / f"gate-{time.time_ns()}.db"
        return {"mode": "off", "interval_s": 0.5, "journal": {"path": str(journal)}}

    def start(self) -> StreamingQuery:
        return (
            lines(self.spark, self.folder).groupBy("value").count()
            .writeStream.format("memory").queryName("words").outputMode("complete")
            .option("checkpointLocation", str(self.scratch / "words"))
            .trigger(processingTime="300 milliseconds").start()
        )  # fmt: skip

    def feed(self, files: int = 1) -> None:
        write_files(self.folder, self.written, files)
        self.written += files

    def counts_are_exact(self) -> bool:
        """Is every key counted once per file?"""
        if "words" not in {table.name for table in self.spark.catalog.listTables()}:
            return False
        rows = self.spark.table("words").collect()
        return len(rows) == KEYS and {row["count"] for row in rows} == {self.written}

    def drained(self) -> None:
        wait_for(self.counts_are_exact, f"{KEYS} keys with {self.written} rows each")

    def sample(self, name: str = "words") -> ApplicationSample | None:
        return next((one for one in reversed(samples(self.gate)) if one.name == name), None)

    def batches(self) -> list[int]:
        return [report["numInputRows"] for report in self.query.recentProgress if report["numInputRows"]]

    def planned(self) -> int:
        """The newest batch in the offset log."""
        names = (path.name for path in (self.scratch / "words" / "offsets").iterdir())
        return max((int(name) for name in names if name.isdigit()), default=-1)

    def registered(self) -> int:
        return len(self.gate.cluster._watcher.executors())

    def executors(self, count: int) -> None:
        """Ask until it is so, as the controller does at every step."""

        def there() -> bool:
            self.gate.cluster.converge(Targets(executors=count))
            return self.registered() == count

        wait_for(there, f"{count} executors, {self.registered()} registered")

    def end(self) -> None:
        self.query.stop()
        self.gate.stop()
        self.spark.stop()


BASE = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.extraJavaOptions": JAVA,
    "spark.executor.extraJavaOptions": JAVA,
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.adaptive.enabled": "false",
    "spark.decommission.enabled": "true",
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
}


def lines(spark: SparkSession, folder: Path) -> DataFrame:
    return spark.readStream.text(str(folder))


def write_files(folder: Path, first: int, count: int) -> None:
    for number in range(first, first + count):
        draft = folder / f".{number}"
        draft.write_text("".join(f"word{key}\n" for key in range(KEYS)))
        draft.rename(folder / f"{number:06}.txt")


def samples(gate: Gate) -> list[ApplicationSample]:
    seen = [entry.observation for entry in read_entries(gate.journal.path) if entry.observation]
    return [sample for one in seen for sample in one.applications]


def wait_for(condition: Callable[[], Any], what: str, limit_s: float = PATIENCE_S) -> Any:
    deadline_s = time.monotonic() + limit_s
    while not (found := condition()):
        if time.monotonic() > deadline_s:
            raise AssertionError(f"waited {limit_s:.0f} s in vain for {what}")
        time.sleep(0.1)
    return found


def expect(condition: object, what: str) -> None:
    if not condition:
        raise AssertionError(what)


# ---- the checks, in the order in which they are run


def watching(job: Job) -> str:
    """Every batch is seen, with its rows, its operators and its executors."""
    job.feed(2)
    job.drained()

    def seen() -> list[ApplicationSample]:
        return [one for one in samples(job.gate) if one.name == "words" and any(batch.rows for batch in one.batches)]

    sample = wait_for(seen, "a sample with a batch")[-1]
    batch = next(batch for batch in sample.batches if batch.rows)
    expect(batch.busy_s and batch.operators, "a batch has no stages")
    expect(all(operator.executors for operator in batch.operators), "a stage has no executors")
    return f"{len(batch.operators)} operators"


def executors_down_and_up(job: Job) -> str:
    """Fewer and more of them, without a restart."""
    run_id = job.query.runId
    job.executors(1)
    job.feed()
    job.drained()
    job.executors(2)
    job.feed()
    job.drained()
    expect(job.query.runId == run_id, "the query was restarted")
    return "2 → 1 → 2"


def warm_executors(job: Job) -> str:
    """A new executor rehearses before it gets tasks."""
    job.executors(1)
    before = {one.id for one in job.gate.cluster._watcher.executors()}
    job.executors(2)
    new = next(one.id for one in job.gate.cluster._watcher.executors() if one.id not in before)
    java: Any = job.spark.sparkContext._jvm.tidegate.WarmUp  # type: ignore[union-attr]
    wait_for(lambda: java.rehearsed(new) is not None, f"the rehearsal of executor {new}")
    expect(not java.rehearsed(new), str(java.rehearsed(new)))
    job.feed()
    job.drained()
    return "rehearsed"


def live_limit_and_pause(job: Job) -> str:
    """A plain file source is limited and paused while it runs."""
    if not probe(job.spark).live_limits:
        raise Unable(capability(job.gate, "live limits"))
    limits, run_id = job.gate.cluster.limits, job.query.runId
    wait_for(lambda: (one := job.sample()) and one.gated, "the source's limit")
    job.gate.settle()
    answer = job.gate.cluster.converge(Targets().after([SetAdmission("words", 2 * KEYS)])).actions[0]
    expect(answer.outcome is Outcome.DONE, answer.note)
    before = len(job.batches())
    job.feed(6)
    job.drained()
    sizes = wait_for(lambda: job.batches()[before:], "the report of a batch")
    expect(max(sizes) <= 2 * KEYS, f"batches of {sizes} rows with a limit of {2 * KEYS}")
    limits.pause("words", "test", 600.0)
    wait_for(lambda: limits.quiet("words"), "quiet")
    batch = job.planned()
    job.feed(3)
    time.sleep(1.2)  # the time of four triggers, in which nothing may be taken in
    expect(job.planned() == batch, "a batch was planned although the source is paused")
    limits.resume("words", "test")
    job.drained()
    expect(job.query.runId == run_id, "the query was restarted")
    return f"largest batch {max(sizes)} of {6 * KEYS} waiting rows"


def state_move(job: Job) -> str:
    """A state partition goes to the other executor, and every count stays right."""

    def known() -> ApplicationSample | None:
        job.feed()
        job.drained()
        found = job.sample()
        return found if found is not None and found.state_places and all(found.state_places) else None

    sample = wait_for(known, "the places of the state")
    if not sample.state_movable:
        raise Unable(capability(job.gate, "state of words"))
    source = sample.state_places[0]
    target = next(one.id for one in job.gate.cluster._watcher.executors() if one.id != source)
    wished = Targets().after([MoveState("words", 0, target)])

    def there() -> bool:
        job.gate.cluster.converge(wished)
        job.feed()
        job.drained()
        job.gate.settle()
        return job.sample().state_places[0] == target

    wait_for(there, f"partition 0 on executor {target}")
    return f"partition 0 from executor {source} to {target}"


def executor_lost(job: Job) -> str:
    """An executor is killed; another takes its place, and nothing is lost or doubled."""
    context = job.spark.sparkContext
    found = subprocess.run(
        ["pgrep", "-f", f"java.*CoarseGrainedExecutorBackend.*{context.applicationId}"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    victims = [int(pid) for pid in found.stdout.split()]
    expect(victims, "no executor process was found")
    before = {one.id for one in job.gate.cluster._watcher.executors()}
    os.kill(victims[-1], signal.SIGKILL)
    job.feed(2)

    def replaced() -> bool:
        job.gate.cluster.converge(Targets(executors=2))
        now = {one.id for one in job.gate.cluster._watcher.executors()}
        return len(now) == 2 and now != before

    wait_for(replaced, "another executor")
    job.feed()
    job.drained()
    return "replaced; counts exact"


def executor_decommissioned(job: Job) -> str:
    """An executor that its cluster takes away in good order; another takes its place, and no row is lost or doubled."""
    context: Any = job.spark.sparkContext
    backend, jvm = context._jsc.sc().schedulerBackend(), context._jvm
    before = {one.id for one in job.gate.cluster._watcher.executors()}
    reason = jvm.org.apache.spark.scheduler.ExecutorDecommissionInfo("maintenance", jvm.scala.Option.empty())
    backend.decommissionExecutor(sorted(before)[0], reason, False, False)
    job.feed(2)

    def replaced() -> bool:
        job.gate.cluster.converge(Targets(executors=2))
        now = {one.id for one in job.gate.cluster._watcher.executors()}
        return len(now) == 2 and now != before

    wait_for(replaced, "another executor")
    job.feed()
    job.drained()
    return "replaced; counts exact"


def event_time_latency(job: Job) -> str:
    """`Topology` measures latency from event times: by sketches, or by counts."""
    rows = job.spark.readStream.format("rate").option("rowsPerSecond", 50).load()
    flow = tidegate.Topology.source("ticks", rows, event_time="timestamp")
    query = flow.frame.writeStream.format("noop").queryName("ticks").trigger(processingTime="500 milliseconds").start()

    def measured() -> Any:
        found = [batch for one in samples(job.gate) if one.name == "ticks" for batch in one.batches]
        return [batch.latency for batch in found if batch.latency and batch.rows]

    try:
        wait_for(lambda: measured()[2:] or query.exception(), "the latency of three batches")
        expect(query.exception() is None, str(query.exception()))
        latency = measured()[-1]
    finally:
        query.stop()
    expect(0.0 < latency.p50_s <= latency.max_s < PATIENCE_S, f"{latency}")
    return "sketches" if probe(job.spark).sketches else "counts in bins"


def state_repartition(job: Job) -> str:
    """A stateful operator gets other parallelism with its state; where that cannot be, nothing is stopped."""
    job.spark.conf.set(PROVIDER, ROCKSDB)
    folder = job.scratch / "more-lines"
    folder.mkdir()
    write_files(folder, 0, 2)

    def build(spark: SparkSession, settings: Any) -> Any:
        flow = tidegate.Topology.source("lines", lines(spark, folder), settings=settings)
        flow = flow.stateful("count", lambda rows: rows.groupBy("value").count())
        writer = flow.frame.writeStream.format("noop").outputMode("update")
        return writer.option("checkpointLocation", settings.checkpoint).trigger(**settings.trigger(0.3))

    query = job.gate.start("rescaled", build, checkpoint=job.scratch / "rescaled")
    try:
        wait_for(lambda: (one := job.sample("rescaled")) and one.restartable and one.state_places, "its state")
        run_id, target = query.query.runId, Targets().after([SetParallelism("rescaled", "count", 2)])
        answer = job.gate.cluster.converge(target).actions[0]
        if answer.outcome is Outcome.REFUSED:
            expect(query.query.isActive and query.query.runId == run_id, "it was refused after the query was stopped")
            raise Unable(answer.note)

        def done() -> Any:
            return [one.rebalance for one in samples(job.gate) if one.name == "rescaled" and one.rebalance]

        report = wait_for(done, "the report of the rebalance")[-1]
        expect(report.done, report.note)
        expect(report.state_rows == KEYS, f"{report.state_rows} rows of state instead of {KEYS}")
        return f"4 → 2 partitions, {report.state_rows} rows of state verified"
    finally:
        query.kill()
        job.gate.forget("rescaled")
        job.spark.conf.unset(PROVIDER)


def turned_back(job: Job) -> str:
    """When control ends, limits are the user's own again and executors stay."""
    registered = job.registered()
    job.gate.cluster.limits.limit("words", KEYS)
    job.gate.cluster.limits.renew()
    job.gate.stop()
    wait_for(lambda: not job.gate.running, "the end of control")
    job.query.stop()
    job.feed(5)
    job.query = job.start()
    job.drained()
    sizes = wait_for(job.batches, "the report of a batch")
    expect(max(sizes) > KEYS, f"the limit is still there: batches of {sizes}")
    job.gate = tidegate.attach(job.spark, job.policy())
    expect(job.registered() == registered, "executors went with the control")
    return "limits gone, executors stay"


def driver_restart(job: Job) -> str:
    """Another driver goes on from the checkpoint, under control, and every row counts once."""
    job.feed(2)
    job.end()
    job.feed(2)
    job.begin()
    job.drained()
    wait_for(lambda: (one := job.sample()) and one.batches, "a batch of the new driver")
    return "counts exact"


CHECKS = (
    watching,
    executors_down_and_up,
    warm_executors,
    live_limit_and_pause,
    state_move,
    executor_lost,
    executor_decommissioned,
    event_time_latency,
    state_repartition,
    turned_back,
    driver_restart,
)


def capability(gate: Gate, name: str) -> str:
    return next((one.reason for one in gate.capabilities() if one.actuator == name), "not known")


def tried(check: Callable[[Job], str], job: Job) -> Found:
    started_s = time.monotonic()
    name = check.__name__.replace("_", " ")
    try:
        works, failed, note = True, False, check(job)
    except Unable as reason:
        works, failed, note = False, False, str(reason)
    except Exception as error:
        traceback.print_exc()
        works, failed = False, True
        note = f"{type(error).__name__}: {next(iter(str(error).strip().splitlines()), '')}"
    found = Found(name, works, failed, note, round(time.monotonic() - started_s, 1))
    print(f"{found.check}: {'failed' if failed else 'yes' if works else 'no'} ({note}), {found.seconds} s", flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--master", required=True)
    parser.add_argument("--scratch", type=Path, required=True)
    parser.add_argument("--setting", action="append", default=[])
    parser.add_argument("--check", action="append", default=[])
    given = parser.parse_args()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    live_limits.LEASE_S = 600.0  # nobody renews what the checks ask for
    applications._STAGE_PATIENCE = 20  # a busy driver tells stages late
    settings = dict(pair.split("=", 1) for pair in given.setting)
    started_s = time.monotonic()
    job = Job(given.master, settings, given.scratch)
    features: Features = probe(job.spark)
    version = job.spark.version
    found = [tried(check, job) for check in CHECKS if not given.check or check.__name__ in given.check]
    job.end()
    print(
        json.dumps(
            {
                "spark": version,
                "python": sys.version.split()[0],
                "features": {name: getattr(features, name) for name in Features.__slots__},
                "checks": [asdict(one) for one in found],
                "seconds": round(time.monotonic() - started_s, 1),
            }
        )
    )


if __name__ == "__main__":
    main()
