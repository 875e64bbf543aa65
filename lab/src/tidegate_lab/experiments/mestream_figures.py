"""The figures of the Me-Stream experiment: latency over time, before and after, and what each operator held."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from rich.table import Table

from tidegate.domain import BatchSample
from tidegate_lab.experiments.mestream import Run, execute_s

mpl.use("Agg")
import matplotlib.pyplot as plt

_DEFAULT, _ADJUSTED = "#8a8f98", "#1f6f8b"


def table(document: Mapping[str, Any]) -> Table:
    """For the terminal."""
    shown = Table("", "default", "adjusted", "ratio", title="WordCount, one task per operator → self-adjusted")
    for name, ratio in (("execute", "execute"), ("process", "process")):
        before, after = (document[stage][f"{name}_latency_ms"] for stage in ("default", "adjusted"))
        shown.add_row(f"{name} latency, ms", f"{before:.0f}", f"{after:.0f}", f"{document['ratio'][ratio]:.2f} ×")
    shown.add_row("utilisation", *(f"{document[stage]['utilisation']:.2f}" for stage in ("default", "adjusted")), "")
    growth = (f"{document[stage]['backlog_growth_rows_per_s']:+.2f}" for stage in ("default", "adjusted"))
    shown.add_row("backlog growth, rows/s", *growth, "")
    pauses = ", ".join(f"{pause_s:.1f}" for pause_s in document["pause_s"])
    shown.add_row("pause, s", "", pauses, f"{document['reconfigurations']} restart(s)")
    shown.add_row("rows lost / doubled", "", f"{document['rows_lost']} / {document['rows_doubled']}", "")
    return shown


def draw(done: Run, out: Path) -> list[Path]:
    """Execute and process latency over the whole run, and the operators' part of a batch before and after."""
    batches = [batch for batch in done.batches if batch.rows and batch.operators]
    times_s = np.array([batch.committed_s - done.start_s for batch in batches])
    figure, axes = plt.subplots(3, 1, figsize=(9, 9), height_ratios=(3, 3, 2))
    axes[0].plot(times_s, [1e3 * execute_s(batch) for batch in batches], ".-", color=_ADJUSTED, linewidth=0.8)
    axes[0].set_ylabel("execute latency, ms")
    step = max(1, len(done.arrivals_s) // 3000)
    axes[1].plot(done.arrivals_s[::step], 1e3 * done.latencies_s[::step], color=_ADJUSTED, linewidth=0.8)
    axes[1].set_ylabel("process latency, ms")
    axes[1].set_xlabel("seconds since the load began (rows by their arrival, batches by their commit)")
    for axis in axes[:2]:
        axis.set_ylim(bottom=0)
        axis.axvspan(*done.default_s, color=_DEFAULT, alpha=0.18, label="default, measured")
        axis.axvspan(*done.adjusted_s, color=_ADJUSTED, alpha=0.14, label="adjusted, measured")
        for time_s in done.rebalanced_s:
            axis.axvline(time_s, color="#c4453c", linewidth=1, linestyle="--", label="rebalanced")
    axes[0].legend(fontsize=8, frameon=False)
    _operators(axes[2], done, batches)
    figure.tight_layout()
    path = out / "mestream.png"
    figure.savefig(path, dpi=110)
    plt.close(figure)
    return [path]


def _operators(axis: Any, done: Run, batches: list[BatchSample]) -> None:
    """A mean batch of each stage, operator by operator."""
    colours = ("#b8c4cc", "#1f6f8b", "#d08c3f", "#7a5c8e")
    tasks: dict[str, list[int]] = {}
    bars: dict[str, Any] = {}
    for row, stage in ((1, done.default_s), (0, done.adjusted_s)):
        inside = [batch for batch in batches if stage[0] <= batch.committed_s - done.start_s <= stage[1]]
        left = 0.0
        for index, operator in enumerate(inside[-1].operators):
            mean_s = float(np.mean([batch.operators[index].execute_latency_s or 0.0 for batch in inside]))
            bar = axis.barh(row, 1e3 * mean_s, left=1e3 * left, color=colours[index % len(colours)])
            bars[operator.name] = bar
            tasks.setdefault(operator.name, []).append(operator.parallelism)
            left += mean_s
    texts = [f"{name}: {' → '.join(map(str, dict.fromkeys(counts)))} tasks" for name, counts in tasks.items()]
    axis.legend(list(bars.values()), texts, fontsize=8, frameon=False, loc="lower right")
    axis.set_yticks([0, 1], ["adjusted", "default"])
    axis.set_xlabel("execute latency of a mean batch by operator, ms")
