"""Plots the recorded run, the twin and the predicted run: executors and p99 latency over time."""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from tidegate.twin.recordedrun import Recording
from tidegate.twin.replay import Played


def draw(recording: Recording, name: str, again: Played, other: Played, objective_s: float, path: Path) -> Path:
    figure, (pool, latency) = plt.subplots(2, 1, figsize=(9, 5), sharex=True, constrained_layout=True)
    edges = [*recording.registered, (recording.end_s, recording.registered[-1][1])]
    times_s = [time_s - recording.start_s for time_s, _ in edges]
    pool.step(times_s, [count for _, count in edges], where="post", color="0.4", label="what happened")
    pool.step(other.times_s, other.executors, where="post", color="tab:red", label="with the other policy")
    pool.set_ylabel("executors")
    seen = [batch for batch in recording.queries[name].batches if batch.latency is not None]
    if seen:  # an event log contains no latencies
        latency.plot(
            [batch.committed_s - recording.start_s for batch in seen],
            [batch.latency.p99_s for batch in seen if batch.latency is not None],
            color="0.4", linewidth=1, label="what happened",
        )  # fmt: skip
    latency.plot(again.times_s, again.latency_s[name], color="tab:blue", linewidth=1, label="the twin, same sizes")
    latency.plot(other.times_s, other.latency_s[name], color="tab:red", linewidth=1, label="with the other policy")
    latency.axhline(objective_s, color="0.6", linewidth=0.8, linestyle="--")
    latency.set_ylabel("p99 of batches, s")
    latency.set_xlabel("seconds")
    for axis in (pool, latency):
        axis.legend(fontsize=7, frameon=False)
        axis.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=110)
    plt.close(figure)
    return path
