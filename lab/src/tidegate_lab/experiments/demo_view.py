"""The live view of the demonstration: load, backlog, latency, executors, the last decision and its reason."""

from __future__ import annotations

from types import TracebackType

import numpy as np
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from tidegate.domain import Decision, Observation
from tidegate_lab.experiments.demo import DemoPlan

_BARS = " ▁▂▃▄▅▆▇█"
_WIDTH = 60


class DemoView:
    """A live panel on a terminal; otherwise a line every ten seconds."""

    def __init__(self, plan: DemoPlan, runs: list[str], console: Console) -> None:
        self._plan, self._runs, self._console = plan, runs, console
        self._live = Live(console=console, auto_refresh=False, transient=True)
        self._run = ""
        self._latencies: list[float] = []
        self._latency: float | None = None
        self._backlog: int | None = None
        self._decision = "none yet"
        self._told_s = -10.0

    def __enter__(self) -> DemoView:
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._console.is_terminal:
            self._live.stop()

    def __call__(self, run: str, time_s: float, observation: Observation, decision: Decision | None) -> None:
        """Show one step of the controller."""
        if run != self._run:
            self._run, self._latencies, self._latency, self._backlog = run, [], None, None
            self._decision, self._told_s = ("size is fixed" if decision is None else "none yet"), -10.0
        for application in observation.applications:
            for batch in application.batches:
                self._backlog = batch.backlog_rows
                if batch.latency is not None:
                    self._latency = batch.latency.p99_s
                    self._latencies.append(batch.latency.p99_s)
        if decision is not None and decision.actions:
            self._decision = f"{', '.join(map(str, decision.actions))} — {decision.reasons[0]}"
        if self._console.is_terminal:
            self._live.update(self._panel(time_s, observation), refresh=True)
        elif time_s - self._told_s >= 10:
            self._told_s = time_s
            self._console.print(self._line(time_s, observation))

    def _rate(self, time_s: float) -> float:
        return float(self._plan.load.rows_per_s(np.array([max(0.0, time_s)]))[0])

    def _line(self, time_s: float, observation: Observation) -> str:
        late = "–" if self._latency is None else f"{self._latency:.1f} s"
        return (
            f"{self._run} {time_s:4.0f}/{self._plan.end_s:.0f} s: load {self._rate(time_s):.0f} rows/s, "
            f"backlog {self._backlog or 0}, p99 {late}, executors {observation.pool.registered}"
            f"/{observation.pool.requested}; {self._decision}"
        )

    def _panel(self, time_s: float, observation: Observation) -> RenderableType:
        pool = observation.pool
        facts = Table.grid(padding=(0, 2))
        facts.add_row("load", f"{self._rate(time_s):.0f} rows/s")
        facts.add_row("backlog", f"{self._backlog or 0} rows")
        late = self._latency is not None and self._latency > self._plan.objective_s
        shown = "–" if self._latency is None else f"{self._latency:.1f} s of {self._plan.objective_s:g} s"
        facts.add_row("latency p99", Text(shown, style="red" if late else "green"))
        facts.add_row("", _sparks(self._latencies, self._plan.objective_s))
        waiting = "" if pool.registered == pool.requested else f" ({pool.requested} requested)"
        facts.add_row("executors", "■ " * pool.registered + f" {pool.registered}{waiting}")
        facts.add_row("decision", self._decision)
        number = self._runs.index(self._run) + 1
        return Group(
            Text(f"run {number} of {len(self._runs)}: {self._run}", style="bold"),
            ProgressBar(total=self._plan.end_s, completed=max(0.0, time_s), width=_WIDTH),
            facts,
        )


def _sparks(values: list[float], objective_s: float) -> Text:
    text = Text()
    for value in values[-_WIDTH:]:
        level = min(len(_BARS) - 1, int(value / objective_s * (len(_BARS) - 1)))
        text.append(_BARS[level], style="red" if value > objective_s else "green")
    return text
