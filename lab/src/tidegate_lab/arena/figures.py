"""Plots a tournament: cost against SLO violations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter
from matplotlib.transforms import Bbox

from tidegate_lab.arena.judge import ORACLE, STATIC, TIDEGATE
from tidegate_lab.arena.tournament import BEST, Tournament

_LEAST = 1e-4
"""Smaller shares are drawn here, because the axis is logarithmic."""
_PLACES: tuple[tuple[int, int, Literal["left", "right"]], ...] = (
    *((6, up, "left") for up in (4, -11)),
    *((-6, up, "right") for up in (4, -11)),
    *((6, up, "left") for up in (15, -22, 26, -33)),
    *((-6, up, "right") for up in (15, -22, 26, -33)),
)
"""Where a name may stand, in points from its dot, and which side of the name is there. Near places come first."""


def draw_pareto(tournament: Tournament) -> Figure:
    """Mean cost against the mean share of rows over the objective. The lower left corner is best."""
    figure, axis = plt.subplots(figsize=(8.5, 5.2), constrained_layout=True)
    shown = {rival: one for rival, one in tournament.summary.items() if one.cost_vs_static is not None}
    points = []
    for rival, summary in shown.items():
        cost, late = summary.cost_vs_static or 0.0, max(_LEAST, summary.late_mean)
        ours = rival == TIDEGATE
        colour = "tab:red" if ours else "tab:green" if rival == ORACLE else "0.25" if rival == STATIC else "tab:blue"
        face = "none" if rival.endswith(BEST) else colour
        axis.scatter(cost, late, s=90 if ours else 45, facecolors=face, edgecolors=colour, zorder=3)
        points.append((f"{rival} {summary.holds}/{summary.runs}", cost, late))
    axis.axhline(tournament.setting.allowed_late, color="0.5", linewidth=0.8, linestyle="--")
    axis.set_yscale("log")
    axis.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=2))
    axis.set_xlabel("executor-seconds ÷ smallest fixed pool that holds, mean over runs")
    axis.set_ylabel("rows over the objective, mean over runs")
    hollow = "; hollow: best setting per load" if any(rival.endswith(BEST) for rival in shown) else ""
    axis.set_title(f"beside each name: runs that hold the objective{hollow}", fontsize=9)
    axis.spines[["top", "right"]].set_visible(False)
    axis.margins(x=0.1)
    _name_points(axis, points)
    return figure


def _name_points(axis: Axes, points: Sequence[tuple[str, float, float]]) -> None:
    """Write each name beside its point, where it covers no other name if there is such a place."""
    assert isinstance(axis.figure, Figure)
    axis.figure.canvas.draw()  # text has no extent before
    taken: list[Bbox] = []
    for name, x, y in points:
        for across, up, side in _PLACES:
            text = axis.annotate(name, (x, y), (across, up), textcoords="offset points", fontsize=8, ha=side)
            box = text.get_window_extent()
            if (across, up, side) == _PLACES[-1] or not any(box.overlaps(other) for other in taken):
                taken.append(box)
                break
            text.remove()
