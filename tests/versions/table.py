"""The page of what works where, made from the runs."""

from __future__ import annotations

from typing import Any

Runs = dict[tuple[str, str], dict[str, Any]]
"""By Spark version and cluster: what the suite printed, or {"skipped": why}."""

_TITLES = {
    "watching": "queries, batches, stages and executors observed",
    "executors down and up": "executors up and down",
    "warm executors": "new executors rehearse before they get tasks",
    "live limit and pause": "a running file query limited and paused",
    "state move": "state moved between executors",
    "executor lost": "an executor killed: replaced, counts exact",
    "executor decommissioned": "an executor decommissioned: counts exact",
    "event time latency": "latency from event times",
    "state repartition": "state repartitioned",
    "turned back": "everything restored at the end",
    "driver restart": "driver restarted: counts exact",
}
_HEAD = """# What works where

`make test-versions` writes this page from its runs; do not edit it by hand. Each run is a plain PySpark job with
Tidegate attached. Every Spark version has its own environment with PySpark and what `pip install tidegate` installs.
"Standalone" is a master with two workers, "YARN" a resource manager with two node managers, and "local" is
`local-cluster`, whose executors are processes too. `tidegate doctor` and `gate.capabilities()` report the same for your
own job.
"""


def page(runs: Runs) -> str:
    clusters = list(dict.fromkeys(cluster for _, cluster in runs))
    return "\n".join([_HEAD, *(_section(cluster, runs) for cluster in clusters), _details(runs)])


def _section(cluster: str, runs: Runs) -> str:
    here = {spark: found for (spark, where), found in runs.items() if where == cluster}
    checks = list(dict.fromkeys(one["check"] for found in here.values() for one in found.get("checks", ())))
    names = [f"Spark {found.get('spark', spark)}" for spark, found in here.items()]
    lines = [f"## {cluster}", "", f"| | {' | '.join(names)} |", "|---|" + "---|" * len(names)]
    for check in checks:
        cells = [_cell(check, found) for found in here.values()]
        lines.append(f"| {_TITLES.get(check, check)} | {' | '.join(cells)} |")
    skipped = [f"Spark {spark} was not run: {found['skipped']}." for spark, found in here.items() if "skipped" in found]
    return "\n".join([*lines, "", *skipped])


def _cell(check: str, found: dict[str, Any]) -> str:
    one = next((one for one in found.get("checks", ()) if one["check"] == check), None)
    if one is None:
        return "not run"
    return "**fails**" if one["failed"] else "yes" if one["works"] else "no"


def _details(runs: Runs) -> str:
    """Why something is not there, each reason once."""
    lines = ["## Why something does not work", ""]
    told: dict[tuple[str, str], list[str]] = {}
    for (spark, cluster), found in runs.items():
        for one in found.get("checks", ()):
            if not one["works"]:
                told.setdefault((one["check"], one["note"]), []).append(f"{spark} {cluster}")
    lines += [f"- {check} ({', '.join(where)}): {note}" for (check, note), where in told.items()]
    ways: dict[str, list[str]] = {}
    for (spark, _), found in runs.items():
        for one in found.get("checks", ()):
            if one["check"] == "event time latency" and one["works"]:
                ways.setdefault(one["note"], []).append(spark)
    for way, sparks in ways.items():
        lines.append(f"- latency from event times by {way}: Spark {', '.join(dict.fromkeys(sparks))}")
    pythons = {spark: found["python"] for (spark, _), found in runs.items() if "python" in found}
    lines += ["", "Pythons: " + ", ".join(f"Spark {spark} on {python}" for spark, python in pythons.items()) + ".", ""]
    return "\n".join(lines)
