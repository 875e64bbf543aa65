"""The simulator: a whole streaming platform on a laptop, and the world behind the controller's port without a JVM."""

from tidegate.sim.application import SimApplication, SimOperator
from tidegate.sim.clock import SimClock
from tidegate.sim.cluster import SimCluster
from tidegate.sim.faults import ExecutorLost, Fault, MetricsMissing, MetricsStale, SlowStart
from tidegate.sim.plant import Plant
from tidegate.sim.result import SimulationResult, Table
from tidegate.sim.scenario import Scenario
from tidegate.sim.scenariofile import load_scenario, parse_scenario
from tidegate.sim.simulation import Simulation
from tidegate.sim.watch import watch

__all__ = [
    "ExecutorLost",
    "Fault",
    "MetricsMissing",
    "MetricsStale",
    "Plant",
    "Scenario",
    "SimApplication",
    "SimClock",
    "SimCluster",
    "SimOperator",
    "Simulation",
    "SimulationResult",
    "SlowStart",
    "Table",
    "load_scenario",
    "parse_scenario",
    "watch",
]
