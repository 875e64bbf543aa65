"""The scenario of `together` in the simulated world."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from tidegate.adapters.sim import SimApplication, SimCluster, SimOperator
from tidegate.control.controller import Controller
from tidegate.control.journal import MemoryJournal
from tidegate.control.runner import Runner
from tidegate.domain import RebalanceReport
from tidegate.plan.arbiter import proposers_named
from tidegate_lab.experiments.together import Job, Played, Scenario, Setting

_SOURCE_S = 0.0002
_COUNT_S = 0.0005


@dataclass(frozen=True, slots=True)
class SimWorld:
    """Executors that take 5 s to start and are warm after 10 more; restarts that pause for 4 s."""

    seed: int = 1

    def play(self, scenario: Scenario, setting: Setting) -> Played:
        cluster = SimCluster(
            [_application(job, scenario, setting) for job in scenario.jobs],
            setting.executors,
            scenario.slots_per_executor,
            groups={job.name: job.qos_class for job in scenario.jobs},
            seed=self.seed,
        )
        journal = self.journal(cluster, scenario, setting)
        done = {job: cluster.summary()["applications"][job.name] for job in scenario.jobs}
        return Played(
            violation_rate={
                job.qos_class: round(cluster.violation_rate(job.name, job.latency_s) or 0.0, 5) for job in done
            },
            p99_s={job.qos_class: round(found["latency"]["p99_s"] or 0.0, 3) for job, found in done.items()},
            executor_seconds=round(cluster.executors.seconds, 1),
            reconfigurations=cluster.reconfigurations,
            pause_s=round(sum(report.pause_s or 0.0 for report in _restarts(journal)), 1),
            rows_lost=sum(max(0, gap) for gap in _gaps(cluster)),
            rows_doubled=sum(max(0, -gap) for gap in _gaps(cluster)),
        )

    def journal(self, cluster: SimCluster, scenario: Scenario, setting: Setting) -> MemoryJournal:
        """Run the scenario and return the decisions."""
        journal = MemoryJournal()
        if setting.proposers == ():
            cluster.advance_to(scenario.duration_s)
            return journal
        asked = None if setting.proposers is None else proposers_named(setting.proposers)
        controller = Controller(scenario.policy(), proposers=asked)
        Runner(cluster, controller, cluster.clock, journal, journal).run(until_s=scenario.duration_s)
        cluster.advance_to(scenario.duration_s)
        return journal


def _restarts(journal: MemoryJournal) -> list[RebalanceReport]:
    seen = [entry.observation for entry in journal.entries if entry.observation]
    return [sample.rebalance for one in seen for sample in one.applications if sample.rebalance is not None]


def _gaps(cluster: SimCluster) -> list[int]:
    """Rows between the end of one batch and the beginning of the next: none may be left out or taken twice."""
    return [after.first - before.end for gate in cluster.gates for before, after in pairwise(gate.ledger.commits)]


def _application(job: Job, scenario: Scenario, setting: Setting) -> SimApplication:
    tasks = scenario.by_hand if setting.by_hand else job.lookup_tasks
    return SimApplication(
        job.name,
        job.load,
        interval_s=scenario.interval_s,
        operators=(
            SimOperator("lines", _SOURCE_S, parallelism=1),
            SimOperator("lookup", job.row_s, parallelism=tasks),
            SimOperator("count", _COUNT_S, parallelism=2, stateful=True, state_keys=2000),
        ),
    )
