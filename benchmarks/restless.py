"""Tidegate on restless loads: rows over the objective, and cost relative to the smallest fixed pool that holds.

    python benchmarks/restless.py                     all loads (ten minutes on two cores)
    python benchmarks/restless.py --part checked      only those that the default was not tuned on
    python benchmarks/restless.py --only Twitter      only those with this word in their name

`tidegate arena` compares rivals on a few loads. This plays Tidegate alone on many: parts of recordings from
`TIDEGATE_DATA`, most of them faster than they were recorded, so that a value lasts 10 to 50 s. Which loads the default
may be tuned on was decided before it was; the others check it. Prints JSON, and progress on standard error.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context
from statistics import mean
from typing import Any

import numpy as np

from tidegate_lab.arena.judge import holds
from tidegate_lab.arena.loads import FIELD, ArenaLoad, made
from tidegate_lab.arena.play import play_tidegate
from tidegate_lab.arena.recorded import recorded_load
from tidegate_lab.arena.setting import Setting
from tidegate_lab.arena.tournament import smallest_static
from tidegate_lab.experiments.datasets import recorded

_HOUR_S, _DAY_S = 4020.0, 14_400.0
"""Played seconds: 67 minutes, or a recorded day at six times its speed."""
_TWITTER = "nab/data/realTweets/Twitter_volume_{}.csv"
_CLOUD = "nab/data/realAWSCloudwatch/{}.csv"
_CAUSE = "nab/data/realKnownCause/{}.csv"
_WORLD_CUP = "worldcup98/requests_per_minute.csv"
_AZURE = "azure_llm/AzureLLMInferenceTrace_code.csv:ContextTokens"


@dataclass(frozen=True, slots=True)
class Excerpt:
    """A part of a recording."""

    name: str
    file: str
    speed: float
    first: int = 0
    """The first value."""
    lasts_s: float = _HOUR_S
    step_s: float | None = None

    def load(self) -> ArenaLoad:
        name, sign, column = self.file.partition(":")
        path = recorded(name)
        if path is None:
            print(f"{name} was not found: let TIDEGATE_DATA name the folder with the recordings", file=sys.stderr)
            sys.exit(2)
        whole = recorded_load(f"{path}{sign}{column}", self.step_s, self.speed, self.name)
        count = round(self.lasts_s / whole.played_step_s)
        return replace(whole, values=whole.values[self.first : self.first + count], seed=1)


TUNED_ON = (
    Excerpt("Twitter AAPL, 6 x", _TWITTER.format("AAPL"), 6),
    Excerpt("Twitter AAPL, 30 x", _TWITTER.format("AAPL"), 30, 600),
    Excerpt("Twitter AMZN, 6 x", _TWITTER.format("AMZN"), 6),
    Excerpt("Twitter AMZN, 30 x", _TWITTER.format("AMZN"), 30, 1000),
    Excerpt("load balancer, 6 x", _CLOUD.format("elb_request_count_8c0756"), 6),
    Excerpt("load balancer, 30 x", _CLOUD.format("elb_request_count_8c0756"), 30),
    Excerpt("network iio, 6 x", _CLOUD.format("iio_us-east-1_i-a2eb1cd9_NetworkIn"), 6),
    Excerpt("network 257a54, 30 x", _CLOUD.format("ec2_network_in_257a54"), 30, 500),
    Excerpt("World Cup day 20, 6 x", _WORLD_CUP, 6, 20 * 1440 + 600),
    Excerpt("World Cup day 38, 6 x", _WORLD_CUP, 6, 38 * 1440 + 600),
)
CHECKED_ON = (
    Excerpt("Azure LLM tokens", _AZURE, 1, step_s=10.0),
    Excerpt("Twitter CVS, 12 x", _TWITTER.format("CVS"), 12),
    Excerpt("Twitter CVS, 30 x", _TWITTER.format("CVS"), 30, 2000),
    Excerpt("Twitter CRM, 12 x", _TWITTER.format("CRM"), 12),
    Excerpt("Twitter FB, 12 x", _TWITTER.format("FB"), 12),
    Excerpt("Twitter FB, 30 x", _TWITTER.format("FB"), 30, 3000),
    Excerpt("scaling group CPU, 6 x", _CAUSE.format("cpu_utilization_asg_misconfiguration"), 6),
    Excerpt("instance CPU, 6 x", _CLOUD.format("ec2_cpu_utilization_53ea38"), 6),
    Excerpt("disk writes, 6 x", _CLOUD.format("ec2_disk_write_bytes_c0d644"), 6),
    Excerpt("database CPU, 30 x", _CLOUD.format("rds_cpu_utilization_e47b3b"), 30),
    Excerpt("request latency, 30 x", _CAUSE.format("ec2_request_latency_system_failure"), 30),
    Excerpt("World Cup day 12, 6 x", _WORLD_CUP, 6, 12 * 1440 + 300),
    Excerpt("World Cup day 30, 6 x", _WORLD_CUP, 6, 30 * 1440),
    Excerpt("long Twitter AAPL, 30 x", _TWITTER.format("AAPL"), 30, 600, _DAY_S),
    Excerpt("long Twitter AMZN, 30 x", _TWITTER.format("AMZN"), 30, 1000, _DAY_S),
    Excerpt("long Twitter AMZN, 6 x", _TWITTER.format("AMZN"), 6, 2000, _DAY_S),
    Excerpt("long Twitter CRM, 30 x", _TWITTER.format("CRM"), 30, 3000, _DAY_S),
    Excerpt("long Twitter CVS, 6 x", _TWITTER.format("CVS"), 6, 2000, _DAY_S),
    Excerpt("long Twitter FB, 30 x", _TWITTER.format("FB"), 30, 3000, _DAY_S),
    Excerpt("long load balancer, 30 x", _CLOUD.format("elb_request_count_8c0756"), 30, 100, _DAY_S),
    Excerpt("long scaling group, 30 x", _CLOUD.format("grok_asg_anomaly"), 30, 0, _DAY_S),
    Excerpt("long World Cup day 20, 6 x", _WORLD_CUP, 6, 20 * 1440, _DAY_S),
    Excerpt("long World Cup day 36, 6 x", _WORLD_CUP, 6, 36 * 1440, _DAY_S),
)
PARTS = ("tuned", "checked")


def bursts(draw: int) -> ArenaLoad:
    """A calm load with a burst of 10 to 30 s about every three minutes."""
    random = np.random.default_rng([draw, 77])
    count = round(_HOUR_S / 5.0)
    values = 0.25 * random.lognormal(0.0, 0.05, count)
    at = 0
    while (at := at + int(random.exponential(36)) + 6) < count:
        length = int(random.integers(2, 7))
        values[at : at + length] += random.uniform(0.4, 0.75)
        at += length
    return ArenaLoad(f"bursts, draw {draw}", values, 5.0, seed=1)


def loads_of(part: str) -> list[ArenaLoad]:
    if part == "checked":
        return [excerpt.load() for excerpt in CHECKED_ON]
    synthetic = [made(name, seed=1) for name in FIELD] + [bursts(1), bursts(2)]
    return synthetic + [excerpt.load() for excerpt in TUNED_ON]


def play(task: tuple[str, ArenaLoad]) -> dict[str, Any]:
    part, load = task
    setting = Setting()
    run, fixed = play_tidegate(setting, load), smallest_static(setting, load)
    return {
        "load": load.name,
        "part": part,
        "late": round(run.late, 5),
        "holds": holds(run, setting),
        "cost_vs_static": round(run.executor_seconds / fixed.executor_seconds, 3),
        "static_executors": round(fixed.executor_seconds / fixed.duration_s),
        "changes_per_hour": round(run.changes / run.duration_s * 3600, 1),
    }


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "holds": sum(row["holds"] for row in rows),
        "runs": len(rows),
        "late_mean": round(mean(row["late"] for row in rows), 5),
        "cost_vs_static": round(mean(row["cost_vs_static"] for row in rows), 3),
        "dearer_than_1.05": sum(row["cost_vs_static"] > 1.05 for row in rows),
        "changes_per_hour": round(mean(row["changes_per_hour"] for row in rows), 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=PARTS, help="play only this part")
    parser.add_argument("--only", default="", help="play only loads with this word in their name")
    given = parser.parse_args()
    tasks = [
        (part, load)
        for part in ([given.part] if given.part else PARTS)
        for load in loads_of(part)
        if given.only.lower() in load.name.lower()
    ]
    if not tasks:
        parser.error(f"no load has {given.only!r} in its name")
    tasks.sort(key=lambda task: -task[1].duration_s)
    rows: list[dict[str, Any]] = []
    with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn")) as pool:
        for row in pool.map(play, tasks):
            rows.append(row)
            print(f"{len(rows)} of {len(tasks)}: {row['load']}", file=sys.stderr)
    rows.sort(key=lambda row: (PARTS.index(row["part"]), row["load"]))
    by_part = {part: [row for row in rows if row["part"] == part] for part in PARTS}
    found = {part: summary(played) for part, played in by_part.items() if played}
    print(json.dumps({"runs": rows, "summary": found}, indent=2))


if __name__ == "__main__":
    main()
