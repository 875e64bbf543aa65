"""Online mode: a scenario at a chosen pace, shown live in the terminal."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from tidegate.adapters.sim.platform import Platform
from tidegate.adapters.sim.result import Recorder, SimulationResult
from tidegate.adapters.sim.simulation import PoolRun, Simulation
from tidegate.domain import InvalidInput

_MOST_ROWS = 12
_SPARKS = "▁▂▃▄▅▆▇█"
_SPARK_RECORDS = 32


def watch(
    simulation: Simulation,
    speed: float = 10.0,
    *,
    console: Console | None = None,
    refresh_per_s: float = 4.0,
    now_s: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> SimulationResult:
    """Run `speed` simulated seconds per second and show what happens. A slower plant runs as fast as it can."""
    if not (speed > 0 and math.isfinite(speed)):
        raise InvalidInput(f"speed (simulated seconds per second) must be above 0, not {speed}")
    began_s, from_s = now_s(), simulation.now_s
    with Live(render(simulation), console=console or Console(stderr=True), auto_refresh=False) as live:
        while not simulation.done:
            sleep(1 / refresh_per_s)
            simulation.advance_to(from_s + (now_s() - began_s) * speed)
            live.update(render(simulation), refresh=True)
    return simulation.result()


def render(simulation: Simulation) -> RenderableType:
    """One picture of a simulation."""
    scenario = simulation.scenario
    parts: list[RenderableType] = [
        Text(f"{scenario.name}   {simulation.now_s:,.0f} of {scenario.duration_s:,.0f} s", style="bold")
    ]
    if simulation.platform is not None:
        parts += [_hosts(simulation.platform), _applications(simulation.platform)]
    if simulation.pool is not None:
        parts += [_pool(simulation.pool)]
    return Group(*parts)


def sparkline(values: list[float]) -> str:
    """A row of bars, the tallest for the largest value.

    >>> sparkline([0, 1, 2, 4])
    '▁▂▄█'
    """
    most = max((value for value in values if math.isfinite(value)), default=0.0)
    if most <= 0:
        return _SPARKS[0] * len(values)
    steps = [min(most, value) / most * (len(_SPARKS) - 1) if not math.isnan(value) else 0.0 for value in values]
    return "".join(_SPARKS[int(step)] for step in steps)


def _spark(recorder: Recorder, column: str, index: int) -> str:
    return sparkline([float(row[index]) for row in recorder.recent(column, _SPARK_RECORDS)])


def _hosts(platform: Platform) -> Table:
    table = Table("host", "tasks", "busy", "asked", "load", box=None)
    tasks, used = platform.hosts.latest("tasks"), platform.hosts.latest("utilisation")
    asked = platform.hosts.latest("overload")
    for index in sorted(range(len(platform.hosts.names)), key=lambda host: -asked[host])[:_MOST_ROWS]:
        style = "red" if asked[index] > 1 + 1e-6 else ""
        table.add_row(
            platform.hosts.names[index],
            f"{tasks[index]:.0f}",
            f"{used[index]:.0%}",
            Text(f"{asked[index]:.0%}", style=style),
            _spark(platform.hosts, "cpu_load", index),
        )
    return table


def _applications(platform: Platform) -> Table:
    table = Table("application", "rows/s in", "rows/s out", "queued", "on the way", "queue", box=None)
    columns = ("rows_in_per_s", "rows_out_per_s", "queued", "in_flight")
    rows_in, rows_out, queued, flying = (platform.applications.latest(column) for column in columns)
    for index in sorted(range(len(platform.applications.names)), key=lambda number: -queued[number])[:_MOST_ROWS]:
        table.add_row(
            platform.applications.names[index],
            f"{rows_in[index]:,.0f}",
            f"{rows_out[index]:,.0f}",
            f"{queued[index]:,.0f}",
            f"{flying[index]:,.0f}",
            _spark(platform.applications, "queued", index),
        )
    return table


def _pool(pool: PoolRun) -> RenderableType:
    table = Table("application", "rows/s in", "load", "waiting", "queue", "p99", box=None)
    rows_in, queued = pool.applications.latest("rows_in_per_s"), pool.applications.latest("queued")
    for index, name in enumerate(pool.applications.names[:_MOST_ROWS]):
        known = [value for value in pool.applications.recent("latency_p99_s", 30)[:, index] if not math.isnan(value)]
        table.add_row(
            name,
            f"{rows_in[index]:,.0f}",
            _spark(pool.applications, "rows_in_per_s", index),
            f"{queued[index]:,.0f}",
            _spark(pool.applications, "queued", index),
            f"{known[-1]:.1f} s" if known else "–",
        )
    there, requested = pool.executors.latest("executors")[0], pool.executors.latest("requested")[0]
    lines = [Text(f"executors {there:.0f} of {requested:.0f}   {_spark(pool.executors, 'executors', 0)}")]
    if pool.last_decision is not None:
        did = ", ".join(str(action) for action in pool.last_decision.actions) or "hold"
        why = "; ".join(reason.text for reason in pool.last_decision.reasons)
        lines.append(Text(f"{pool.last_decision.time_s:,.0f} s  {did}: {why}", style="cyan"))
    return Group(table, *lines)
