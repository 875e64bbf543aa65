"""Pictures of the experiments on service classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt

Series = Mapping[str, Sequence[tuple[float, float | None]]]
"""By class: a time and the 99th percentile of the rows that arrived then."""

_COLOURS = ("#1b6ca8", "#e08a1e", "#7a7a7a")


def draw_classes(runs: Mapping[str, Series], targets_s: Mapping[str, float], path: Path) -> Path:
    """The 99th percentile over time, by class, under each policy."""
    figure, axes = plt.subplots(1, len(runs), figsize=(4.2 * len(runs), 3.6), sharey=True)
    for axis, (policy, series) in zip(axes, runs.items(), strict=True):
        for index, (name, target_s) in enumerate(targets_s.items()):
            seconds, p99 = zip(*((at_s, value) for at_s, value in series[name] if value is not None), strict=True)
            axis.plot(seconds, p99, color=_COLOURS[index], label=name, linewidth=1.5)
            axis.axhline(target_s, color=_COLOURS[index], linestyle=":", linewidth=0.9)
        axis.set(title=policy, xlabel="time (s)", yscale="log")
        axis.grid(alpha=0.25)
    axes[0].set_ylabel("p99 latency by time of arrival (s)")
    axes[0].legend(title="dotted: target", fontsize=8, title_fontsize=8)
    return _save(figure, path)


def draw_cost(steps: Sequence[Mapping[str, Any]], path: Path) -> Path:
    """Milliseconds of a control step against the number of applications."""
    figure, axis = plt.subplots(figsize=(5.2, 3.6))
    sizes = [step["applications"] for step in steps]
    axis.plot(sizes, [step["step_ms_p99"] for step in steps], "o--", color=_COLOURS[1], label="p99")
    axis.plot(sizes, [step["step_ms_p50"] for step in steps], "o-", color=_COLOURS[0], label="median")
    axis.axhline(8.0, color="#b03030", linestyle=":", label="0.8 % of the interval")
    axis.axhline(2.0, color="#3a8a3a", linestyle=":", label="0.2 %")
    axis.set(xscale="log", yscale="log", xlabel="applications of the pool", ylabel="CPU of one step (ms)")
    axis.set_xticks(sizes, [f"{size:,}" for size in sizes])
    axis.set_yticks([1, 2, 5, 8, 20, 50, 100], ["1", "2", "5", "8", "20", "50", "100"])
    axis.minorticks_off()
    axis.grid(alpha=0.25)
    axis.legend(fontsize=8)
    return _save(figure, path)


def draw_sensitivity(document: Mapping[str, Any], path: Path) -> Path:
    """p99 and violations against the forecast's error, and without a forecast."""
    figure, axes = plt.subplots(1, 2, figsize=(8.4, 3.5))
    for axis, key, label in zip(
        axes, ("p99_s", "violations"), ("p99 latency, all rows (s)", "share over the objective"), strict=True
    ):
        for kind, colour in (("errors", _COLOURS[0]), ("common", _COLOURS[1])):
            points = document[kind]
            name = "independent errors" if kind == "errors" else "the same error for all"
            axis.plot([100 * p["error"] for p in points], [p[key] for p in points], "o-", color=colour, label=name)
        axis.axhline(document["reactive"][key], color="#b03030", linestyle="--", label="no forecast (recent trend)")
        axis.set(xlabel="mean absolute error of the forecast (%)", ylabel=label, ylim=(0, None))
        axis.grid(alpha=0.25)
    axes[0].legend(fontsize=8)
    return _save(figure, path)


def _save(figure: Any, path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    plt.close(figure)
    return path
