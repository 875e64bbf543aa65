"""A host of the fleet on Spark: it asks for tasks, is granted them, and rescales with its state."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from tidegate.adapters.spark.checkpoint import Checkpoint
from tidegate.adapters.spark.gatefile import GateLimit, read_admission
from tidegate.control.journal import SqliteJournal, read_entries
from tidegate.domain import SetParallelism, Targets
from tidegate.fleet.calls import fleet_wire
from tidegate.fleet.config import FleetConfig
from tidegate.fleet.evidence import committed_rows
from tidegate.fleet.folder import FleetFolder
from tidegate.fleet.hostcontrol import Handover, HostControl
from tidegate.fleet.lease import LeaseTerms
from tidegate.fleet.protocol import make_token
from tidegate.fleet.sparkhost import SparkQueries, SparkQuery
from tidegate.fleet.tenant import RunOrder
from tidegate.fleet.vocabulary import ApplicationSpec, HostCard, HostSpec
from tidegate_lab.workloads.wordcount import check_rows, expected_counts, state_counts

CONFIG = FleetConfig.model_validate(
    {
        "policy": {"knobs": {"executors": False}},
        "managers": {"period_s": 2, "silence_s": 3600},
    }
)


class Host:
    def __init__(self, spark: SparkSession, root: Path) -> None:
        self.folder = FleetFolder(root)
        make_token(self.folder.token)
        self.journal = SqliteJournal(self.folder.host_journal("east-1"))
        self.queries = SparkQueries(spark, CONFIG.policy, lambda event, text: self.journal.note(0.0, event, text))
        card = HostCard(HostSpec("east-1", "east", 4), "i1", ("127.0.0.1", 1), 1, 0.0)
        wire = fleet_wire(self.folder, CONFIG)
        self.control = HostControl(card, CONFIG, self.folder, wire, self.queries, self.journal)
        self.queries.steered_by(self.control)
        arguments = {
            "load": {"kind": "constant", "rate": 150},
            "start_ms": int(time.time() * 1000),
            "lookup_s": 0.015,
            "trigger_s": 2.0,
        }
        self.spec = ApplicationSpec(
            "words", "tidegate_lab.experiments.fleet_run:build", arguments, elastic={"lookup": 4, "count": 4}
        )

    def start(self) -> SparkQuery:
        lease = self.folder.lease("words")
        lease.create()
        held = lease.take(LeaseTerms("east-1/i1", 600.0), lease.read())
        assert held is not None
        epoch = held.record.epoch
        self.folder.begin_run("words", epoch)
        order = RunOrder(
            self.folder.checkpoint("words"),
            self.folder.gate("words", epoch),
            self.folder.lease_path("words"),
            epoch,
        )
        return self.queries.start(self.spec, order)

    def asked(self) -> tuple[SetParallelism, ...]:
        actions = (request.action for request in self.control.requests())
        return tuple(one for one in actions if isinstance(one, SetParallelism) and one.operator == "lookup")

    def until(self, condition: Callable[[], Any], query: SparkQuery, what: str, limit_s: float = 300.0) -> Any:
        deadline_s = time.monotonic() + limit_s
        while not (found := condition()):
            assert time.monotonic() < deadline_s, f"waited {limit_s:.0f} s in vain for {what}"
            assert query.failure() is None, "a rebalance must not look like an end"
            self.control.runner.tick()
            time.sleep(0.3)
        return found


def test_a_host_asks_is_granted_and_rescales_with_its_state(spark: SparkSession, tmp_path: Path) -> None:
    host = Host(spark, tmp_path / "fleet")
    query = host.start()
    restartable = host.queries.cluster.restartable["words"]
    try:
        host.until(host.asked, query, "a request for more tasks")
        assert not restartable.settings.tasks, "it asks, and does not go ahead by itself"

        def granted() -> int | None:
            host.control.hear(host.asked())  # what it asks for may still change
            return restartable.settings.tasks.get("lookup")

        wanted = SetParallelism("words", "lookup", host.until(granted, query, "the rescale"))
        assert wanted.parallelism > 2, "150 rows/s of 15 ms are 2.3 tasks' worth of work"
        host.until(lambda: not host.queries.cluster.rebalancing, query, "the end of it")
        count = SetParallelism("words", "count", 3)
        host.control.hear(())
        host.queries.converge(Targets().after([wanted, count]))
        checkpoint = Checkpoint(spark, restartable.settings.checkpoint)
        host.until(lambda: checkpoint.state_partitions() == 3, query, "the stateful rescale")
        host.until(lambda: not host.queries.cluster.rebalancing, query, "the end of that")
        query.stop()
        query = host.start()
        again = host.queries.cluster.restartable["words"]
        assert dict(again.settings.tasks) == {"lookup": wanted.parallelism, "count": 3}, "the size moves along"
        learned = Handover.from_bytes(host.folder.learned("words").read_bytes())
        assert learned.batch_rows, "its batches were limited"
        first = read_admission(Path(again.settings.gate))
        assert first == GateLimit(learned.batch_rows), "and so is the first one of the new run"
        before = committed_rows(host.folder, "words")
        host.until(lambda: committed_rows(host.folder, "words") > before, query, "another batch")
    finally:
        query.stop()
        host.control.end()
    rows = committed_rows(host.folder, "words")
    check = check_rows(state_counts(spark, str(host.folder.checkpoint("words"))), expected_counts(rows))
    assert (check.rows_out, check.rows_lost, check.rows_doubled) == (rows, 0, 0)
    decisions = [entry.decision for entry in read_entries(host.journal.path, observations=False)]
    held = [held for decision in decisions if decision is not None for held in decision.held]
    assert any(one.guard == "centre" and one.wanted == wanted for one in held)
