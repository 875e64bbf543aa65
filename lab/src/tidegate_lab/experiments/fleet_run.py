"""A fleet on one machine: load that moves between two regions, and each component killed in turn.

Four applications, two at home in each region, on hosts of four slots. The load of the east rises sixfold for a while,
then that of the west; hosts come and go, one application is moved by hand. During the second burst the centre is killed
for a minute. Then a host is cut off, one is killed, and one hangs. Afterwards every row is checked, and the records of
every run are searched for overlaps.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from pyspark.sql import SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from tidegate.adapters.spark.settings import Settings
from tidegate.domain import EnvironmentUnfit, InvalidInput
from tidegate.fleet.centrelock import centre_pid
from tidegate.fleet.evidence import commits, committed_rows, overlaps, runs
from tidegate.fleet.folder import FleetFolder
from tidegate.fleet.registry import Registry
from tidegate.fleet.status import fleet_report
from tidegate.load import Burst, Timeline, profile_from_spec
from tidegate_lab.experiments.fleet_commands import fleet
from tidegate_lab.experiments.fleet_variants import Variant
from tidegate_lab.experiments.wire import Wire
from tidegate_lab.workloads.wordcount import WordCount, check_rows, expected_counts, state_counts

Told = Callable[[str], None]
OBJECTIVE_S = 30.0
TRIGGER_S = 5.0
LOOKUP_S = 0.01
FLEET = {
    "regions": {"east": {"min_hosts": 1, "max_hosts": 2}, "west": {"min_hosts": 1, "max_hosts": 2}},
    "most_hosts": 4,
    "host": {
        "slots": 4,  # a look-up waits and needs no CPU, so four of them fit on a core or two
        "memory_mb": 512,
        # The log of commits is the evidence for latencies: none of it may be dropped.
        "settings": {"spark.sql.streaming.minBatchesToRetain": "2000"},
    },
    # Long leases: with eight processes on two cores, one may not run for seconds.
    "timing": {"lease_s": 12, "lost_after_s": 8, "spare_s": 40, "start_limit_s": 180, "move_pause_s": 120},
    "managers": {"silence_s": 10, "alone_pause_s": 20},
}


def build(spark: SparkSession, settings: Settings, *, load: Any, **fields: Any) -> DataStreamWriter:
    """The application of the experiment: WordCount, small enough that several fit on two cores.

    `fields` are those of `WordCount`, as `tidegate fleet submit --arguments` passes them.
    """
    small = {"lookup_tasks": 2, "count_tasks": 1}
    return WordCount(profile_from_spec(load), **{**small, **fields}).build(spark, settings)


@dataclass(frozen=True, slots=True)
class Course:
    """When things happen, in seconds since the load began."""

    east_burst_s: tuple[float, float] = (40.0, 100.0)
    """Start and duration."""
    west_burst_s: tuple[float, float] = (180.0, 90.0)
    centre_away_s: tuple[float, float] = (195.0, 60.0)
    base_rows_per_s: float = 25.0
    peak_rows_per_s: float = 150.0
    lead_s: float = 20.0
    """From the first submission to the first row. The applications start meanwhile."""

    def load(self, region: str) -> Burst:
        start_s, duration_s = self.east_burst_s if region == "east" else self.west_burst_s
        return Burst(self.base_rows_per_s, self.peak_rows_per_s, start_s, duration_s)


APPLICATIONS = {"east-a": "east", "east-b": "east", "west-a": "west", "west-b": "west"}


class FleetRun:
    """A fleet controlled by the user's commands, and the faults injected into it."""

    def __init__(self, out: Path, course: Course, told: Told, variant: Variant | None = None) -> None:
        self.folder = FleetFolder((out / "fleet").resolve())
        if self.folder.registry.exists():
            raise InvalidInput(f"{self.folder.root}: contains an earlier fleet with its checkpoints; remove it")
        self.course = course
        self._variant = variant or Variant()
        self._told = told
        self._file = out / "fleet.yaml"
        out.mkdir(parents=True, exist_ok=True)
        self._file.write_text(json.dumps(self._variant.file(FLEET)))
        self.registry = Registry(self.folder.registry)
        self.start_s = 0.0
        self.samples: list[dict[str, Any]] = []
        self.twice: list[str] = []
        self.found: dict[str, Any] = {}

    def begin(self) -> None:
        up = self.fleet("up", str(self._file), "--wait", "240")
        if len(up["ready"]) < up["wanted"]:
            text = f"{len(up['ready'])} of {up['wanted']} hosts are ready"
            raise EnvironmentUnfit(f"{text}; see {self.folder.root}/hosts")
        self.start_s = time.time() + self.course.lead_s
        for name, region in APPLICATIONS.items():
            arguments = {
                "load": asdict(self.course.load(region)),
                "start_ms": round(self.start_s * 1000),
                "lookup_s": LOOKUP_S,
                "trigger_s": TRIGGER_S,
                "lookup_tasks": self._variant.first_tasks,
            }
            words = ["--name", name, "--region", region, "--slots", str(self._variant.first_slots)]
            words += ["--latency", str(OBJECTIVE_S), "--arguments", json.dumps(arguments)]
            words += [*self._variant.words, "--wait", "0"]
            self.fleet("submit", "tidegate_lab.experiments.fleet_run:build", *words)
        self.until(lambda: all(committed_rows(self.folder, name) for name in APPLICATIONS), "the first batches", 180)

    def fleet(self, *words: str) -> Any:
        """A command, as a user types it."""
        return fleet(self.folder.root, *words)

    def now_s(self) -> float:
        return time.time() - self.start_s

    def watch(self) -> dict[str, Any]:
        """Record where everything runs, and whether anything runs in two places."""
        report = fleet_report(self.folder, self.registry)
        at_s = round(self.now_s(), 1)
        hosts = {host["host"]: host["state"] for host in report["hosts"]}
        applications = {app["application"]: app for app in report["applications"]}
        self.samples.append(
            {
                "time_s": at_s,
                "centre": report["centre"]["pid"] is not None,
                "hosts": hosts,
                "applications": {
                    name: {key: app[key] for key in ("host", "phase", "epoch", "busy_slots", "latency_p99_s", "tasks")}
                    for name, app in applications.items()
                },
            }
        )
        self.twice += [
            f"{name} at {at_s} s: {app['note']}" for name, app in applications.items() if app["running_on"] > 1
        ]
        placed = ", ".join(f"{name} on {app['host']}" for name, app in applications.items())
        self._told(f"{at_s:.0f} s: {placed}")
        return report

    def until(self, condition: Callable[[], Any], what: str, limit_s: float = 120.0) -> float:
        """Wait for the condition and return the seconds that it took."""
        began_s = time.monotonic()
        while not condition():
            if time.monotonic() - began_s > limit_s:
                raise EnvironmentUnfit(f"timed out after {limit_s:.0f} s waiting for {what}")
            self.watch()
            time.sleep(1.5)
        return time.monotonic() - began_s

    def play_to(self, time_s: float) -> None:
        while self.now_s() < time_s:
            self.watch()
            time.sleep(1.5)

    def await_rows_of(self, time_s: float) -> None:
        """Wait until all rows that had arrived by then are committed, so that no late row is left out."""
        due = {name: Timeline(self.course.load(region)).rows_by(time_s) for name, region in APPLICATIONS.items()}
        self.until(
            lambda: all(committed_rows(self.folder, name) >= rows for name, rows in due.items()), "the last rows", 240
        )

    def move_by_hand(self) -> None:
        target = next(name for name, host in self.registry.hosts().items() if host.spec.region == "east")
        began_s = time.time()
        moved = self.fleet("move", "west-a", target)
        self.until(partial(self._recovered, "west-a", began_s), "a batch after the move")
        self.found["move"] = {"to": target, "command_s": moved["waited_s"], **self._pause("west-a", began_s)}
        self.registry.ask_host("west-a", None)  # its home may have it back

    def kill_centre(self) -> None:
        before = self._where()
        pid = centre_pid(self.folder)
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        self.play_to(sum(self.course.centre_away_s))
        alone = self._where()
        self.fleet("up", "--wait", "60")
        self.until(lambda: self.now_s() > sum(self.course.centre_away_s) + 20, "20 s with the new centre")
        after = self._where()
        self.found["centre_away"] = {
            "seconds": self.course.centre_away_s[1],
            "before": before,
            "alone": alone,
            "after": after,
            "moved_or_restarted_by_return": [n for n in alone if alone[n]["epoch"] != after[n]["epoch"]],
            "late_rows": self._late(self.start_s + self.course.centre_away_s[0], self.start_s + self.now_s()),
        }

    def cut_off(self, seconds: float = 35.0) -> None:
        """Cut the connection to a host. Its applications must continue where they are."""
        host, names = self._busiest("west")
        card = self.folder.read_card(host)
        assert card is not None
        wire = Wire(card.address)
        self.folder.write_card(replace(card, address=wire.address))
        time.sleep(4.0)
        epochs, rows = self._epochs(), {name: committed_rows(self.folder, name) for name in names}
        began_s = self.now_s()
        wire.cut()
        noticed_s = self.until(lambda: self._state(host) == "away", "the cut to be noticed", 60)
        self.play_to(began_s + seconds)
        wire.mend()
        back_s = self.until(lambda: self._state(host) == "ready", "the way back", 60)
        self.found["cut"] = {
            "host": host,
            "applications": names,
            "seconds": seconds,
            "noticed_after_s": round(noticed_s, 1),
            "back_after_s": round(back_s, 1),
            "restarted": [name for name, epoch in self._epochs().items() if epochs[name] != epoch],
            "rows_meanwhile": {name: committed_rows(self.folder, name) - rows[name] for name in names},
        }

    def strike(self, what: str, region: str, number: signal.Signals) -> None:
        """Kill or hang the Python process of a host with its agent. Its applications must continue elsewhere."""
        host, names = self._busiest(region)
        card = self.folder.read_card(host)
        assert card is not None
        struck_s = time.time()
        os.kill(card.pid, number)
        for name in names:
            self.until(partial(self._recovered, name, struck_s), f"{name} to go on", 180)
        self.found[what] = {
            "host": host,
            "applications": {
                name: {
                    "to": runs(self.folder, name)[-1].host,
                    "lease_taken_after_s": round(runs(self.folder, name)[-1].taken_s - struck_s, 1),
                    **self._pause(name, struck_s),
                }
                for name in names
            },
        }

    def finish(self) -> dict[str, Any]:
        """Shut everything down gracefully, then check every row."""
        for name in APPLICATIONS:
            self.fleet("withdraw", name)
        ended_s = self.now_s()
        self.fleet("down")
        self.found["hosts_over_time"] = self._hosts_over_time()
        self.found["late_rows"] = self._late(self.start_s, self.start_s + ended_s)
        self.found["seen_running_twice"] = self.twice
        self.found["applications"] = self._rows()
        self.found["runs"] = {
            name: [
                {"host": run.host, "taken_s": round(run.taken_s - self.start_s, 1)} for run in runs(self.folder, name)
            ]
            for name in APPLICATIONS
        }
        self.found["overlapping_runs"] = sum(len(overlaps(runs(self.folder, name))) for name in APPLICATIONS)
        self.found["events"] = [
            f"{event.time_s - self.start_s:.1f} {event.event} {event.subject} {event.text}".strip()
            for event in self.registry.events(2000)
        ]
        self.found["samples"] = self.samples
        return self.found

    def _rows(self) -> dict[str, Any]:
        from tidegate.fleet.sparkhost import host_session

        spark = host_session("check", 2, None, 640, {})
        try:
            found = {}
            for name in APPLICATIONS:
                rows = committed_rows(self.folder, name)
                check = check_rows(state_counts(spark, str(self.folder.checkpoint(name))), expected_counts(rows))
                found[name] = {"rows_in": rows, **asdict(check)}
            return found
        finally:
            spark.stop()

    def _late(self, from_s: float, to_s: float) -> dict[str, Any]:
        """Return the rows that arrived in the span and the share over the objective, exact, from the commit log."""
        found = {}
        for name, region in APPLICATIONS.items():
            arrivals_s, latencies_s = self.latencies(name, region)
            judged = latencies_s[(arrivals_s >= from_s) & (arrivals_s < to_s)]
            found[name] = {
                "rows": len(judged),
                "late_share": round(float(np.mean(judged > OBJECTIVE_S)), 4) if judged.size else None,
                "p99_s": round(float(np.quantile(judged, 0.99)), 2) if judged.size else None,
            }
        return found

    def latencies(self, name: str, region: str) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """When every row arrived, and its latency."""
        timeline, done = Timeline(self.course.load(region)), commits(self.folder, name)
        rows = max((rows for _, rows in done), default=0)
        arrivals_s = self.start_s + timeline.arrivals_s(0, rows)
        finished_s = np.empty(rows)
        first = 0
        for time_s, end in done:
            finished_s[first:end] = time_s
            first = max(first, end)
        return arrivals_s, finished_s - arrivals_s

    def _pause(self, name: str, since_s: float) -> dict[str, float | None]:
        """Return the gap between commits around a moment, as the application's readers see it."""
        times = [time_s for time_s, _ in commits(self.folder, name)]
        before = max((time_s for time_s in times if time_s <= since_s), default=None)
        run_s = next((run.taken_s for run in runs(self.folder, name) if run.taken_s > since_s), since_s)
        after = min((time_s for time_s in times if time_s > run_s), default=None)
        return {
            "first_commit_after_s": None if after is None else round(after - since_s, 1),
            "gap_between_commits_s": None if after is None or before is None else round(after - before, 1),
        }

    def _committed_since(self, name: str, since_s: float) -> bool:
        return any(time_s > since_s for time_s, _ in commits(self.folder, name))

    def _recovered(self, name: str, struck_s: float) -> bool:
        newest = runs(self.folder, name)[-1]
        return newest.taken_s > struck_s and self._committed_since(name, newest.taken_s)

    def _epochs(self) -> dict[str, int]:
        return {name: runs(self.folder, name)[-1].epoch for name in APPLICATIONS}

    def _where(self) -> dict[str, dict[str, Any]]:
        report = self.watch()
        return {
            app["application"]: {key: app[key] for key in ("host", "epoch", "tasks", "latency_p99_s")}
            for app in report["applications"]
        }

    def _state(self, host: str) -> str | None:
        return dict(self.registry.fact("view", {}).get("hosts", {})).get(host)

    def _busiest(self, region: str) -> tuple[str, list[str]]:
        """The host of the region with the most applications, and these."""
        on: dict[str, list[str]] = {}
        for name, app in self.registry.applications().items():
            if app.host is not None:
                on.setdefault(app.host, []).append(name)
        hosts = [name for name, entry in self.registry.hosts().items() if entry.spec.region == region and name in on]
        host = max(hosts, key=lambda name: len(on[name]))
        return host, on[host]

    def _hosts_over_time(self) -> list[tuple[float, int]]:
        counts: list[tuple[float, int]] = []
        for sample in self.samples:
            ready = sum(state == "ready" for state in sample["hosts"].values())
            if not counts or counts[-1][1] != ready:
                counts.append((sample["time_s"], ready))
        return counts


CENTRE_ONLY = Course(east_burst_s=(1e6, 1.0), west_burst_s=(30.0, 110.0), centre_away_s=(35.0, 60.0))


def play(out: Path, course: Course, told: Told) -> dict[str, Any]:
    """Run the whole course, or only the centre's absence. The fleet is always shut down."""
    run = FleetRun(out, course, told)
    try:
        run.begin()
        if course is not CENTRE_ONLY:
            run.play_to(sum(course.east_burst_s) + 5)
            run.move_by_hand()
        run.play_to(course.centre_away_s[0])
        run.kill_centre()
        run.play_to(sum(course.west_burst_s) + 10)
        if course is not CENTRE_ONLY:
            run.cut_off()
            run.strike("host_killed", "west", signal.SIGKILL)
            run.strike("agent_hung", "east", signal.SIGSTOP)
            run.play_to(run.now_s() + 50)
        return run.finish()
    finally:
        (out / "partial.json").write_text(json.dumps({**run.found, "samples": run.samples}, indent=1))
        run.fleet("down")
