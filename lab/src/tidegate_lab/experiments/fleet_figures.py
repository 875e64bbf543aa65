"""Plots a run of the fleet: latencies against the objective, tasks, hosts, and when the centre was down."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

Sample = Mapping[str, Any]


def draw_run(samples: Sequence[Sample], objective_s: float, path: Path) -> Path:
    """Three panels over the run's time; `samples` are what `FleetRun.watch` has seen."""
    figure = Figure(figsize=(9.0, 7.0), layout="constrained")
    FigureCanvasAgg(figure)
    latency, tasks, hosts = figure.subplots(3, sharex=True)
    times = [sample["time_s"] for sample in samples]
    for name in samples[-1]["applications"]:
        seen = [sample["applications"].get(name, {}) for sample in samples]
        latency.plot(times, [_or_gap(one.get("latency_p99_s")) for one in seen], label=name)
        tasks.step(times, [_or_gap(one.get("tasks", {}).get("lookup")) for one in seen], where="post", label=name)
    latency.axhline(objective_s, color="black", linestyle="--", linewidth=0.8, label="objective")
    hosts.step(times, [sum(state == "ready" for state in sample["hosts"].values()) for sample in samples], where="post")
    latency.set(ylabel="p99 latency (s)", ylim=(0, None))
    tasks.set(ylabel="tasks of the look-up", ylim=(0, None))
    hosts.set(ylabel="hosts ready", ylim=(0, None), xlabel="seconds since the load began")
    for axes in (latency, tasks, hosts):
        axes.spines[["top", "right"]].set_visible(False)
        for start_s, end_s in _away(samples):
            axes.axvspan(start_s, end_s, color="0.9", zorder=0, label="centre away" if axes is latency else None)
    latency.legend(frameon=False, fontsize=8, ncols=3)
    figure.savefig(path, dpi=110)
    return path


def _or_gap(value: float | None) -> float:
    return float("nan") if value is None else float(value)


def _away(samples: Sequence[Sample]) -> list[tuple[float, float]]:
    """Spans in which there was no centre."""
    spans: list[tuple[float, float]] = []
    began_s: float | None = None
    for sample in samples:
        if not sample["centre"] and began_s is None:
            began_s = sample["time_s"]
        elif sample["centre"] and began_s is not None:
            spans.append((began_s, sample["time_s"]))
            began_s = None
    return spans
