"""Plots a tournament: cost against SLO violations."""

from __future__ import annotations

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from tidegate_lab.arena.judge import ORACLE, STATIC, TIDEGATE
from tidegate_lab.arena.tournament import BEST, Tournament

_LEAST = 1e-4
"""Smaller shares are drawn here, because the axis is logarithmic."""


def draw_pareto(tournament: Tournament) -> Figure:
    """Mean cost against the mean share of rows over the objective. The lower left corner is best."""
    figure, axis = plt.subplots(figsize=(8.5, 5.2), constrained_layout=True)
    for rival, summary in tournament.summary.items():
        cost = summary.cost_vs_static
        if cost is None:
            continue
        ours = rival == TIDEGATE
        colour = "tab:red" if ours else "tab:green" if rival == ORACLE else "0.25" if rival == STATIC else "tab:blue"
        face = "none" if rival.endswith(BEST) else colour
        late = max(_LEAST, summary.late_mean)
        axis.scatter(cost, late, s=90 if ours else 45, facecolors=face, edgecolors=colour, zorder=3)
        share = summary.holds / summary.runs
        axis.annotate(f"{rival} {share:.0%}", (cost, late), xytext=(5, 4), textcoords="offset points", fontsize=8)
    axis.axhline(tournament.setting.allowed_late, color="0.5", linewidth=0.8, linestyle="--")
    axis.set_yscale("log")
    axis.set_xlabel("executor-seconds ÷ static-holds, mean over runs")
    axis.set_ylabel("late rows, mean over runs")
    axis.set_title("beside each name: the share of runs that hold; hollow: best setting per load", fontsize=9)
    axis.spines[["top", "right"]].set_visible(False)
    return figure
