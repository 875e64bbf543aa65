"""The simulator: a whole streaming platform on a laptop, and a world behind the controller's port without a JVM.

The world behind the port needs only NumPy. The platform compiles its loop, so it is loaded on demand.

In: a scenario, targets and a simulated clock.
Out: observations and receipts like Spark's, and the true outcome for grading.
Never touches: `model`, `evaluate` and `plan`: the world does not know how the controller thinks.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tidegate.adapters.sim.application import SimApplication, SimOperator
from tidegate.adapters.sim.clock import SimClock
from tidegate.adapters.sim.cluster import SimCluster
from tidegate.adapters.sim.faults import ExecutorLost, Fault, MetricsMissing, MetricsStale, SlowStart

if TYPE_CHECKING:
    from tidegate.adapters.sim.online import watch
    from tidegate.adapters.sim.plant import Plant
    from tidegate.adapters.sim.result import ResultTable, SimulationResult
    from tidegate.adapters.sim.scenario import Scenario
    from tidegate.adapters.sim.scenariofile import load_scenario, parse_scenario
    from tidegate.adapters.sim.simulation import Simulation

_PLATFORM = {
    "Plant": "plant",
    "Scenario": "scenario",
    "Simulation": "simulation",
    "SimulationResult": "result",
    "ResultTable": "result",
    "load_scenario": "scenariofile",
    "parse_scenario": "scenariofile",
    "watch": "online",
}

__all__ = [
    "ExecutorLost",
    "Fault",
    "MetricsMissing",
    "MetricsStale",
    "Plant",
    "ResultTable",
    "Scenario",
    "SimApplication",
    "SimClock",
    "SimCluster",
    "SimOperator",
    "Simulation",
    "SimulationResult",
    "SlowStart",
    "load_scenario",
    "parse_scenario",
    "watch",
]


def __getattr__(name: str) -> Any:
    if name not in _PLATFORM:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(f"{__name__}.{_PLATFORM[name]}"), name)
    globals()[name] = found
    return found
