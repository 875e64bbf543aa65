"""Everything the controller remembers between two steps, in one place that can be written down and read back."""

from __future__ import annotations

from dataclasses import dataclass, field

from tidegate.control.costwatch import CostWatchMemory
from tidegate.monitor.qos import QosMemory
from tidegate.monitor.workload import WorkloadMemory
from tidegate.planning.capacity import PlannerMemory
from tidegate.planning.elasticmemory import MeStreamMemory
from tidegate.planning.guards import GuardMemory
from tidegate.planning.mpc_memory import MpcMemory
from tidegate.planning.tuning import TuningMemory


@dataclass(slots=True)
class Knowledge:
    """The controller's whole state: step it with the same observations and it decides the same again."""

    step: int = 0
    workloads: dict[str, WorkloadMemory] = field(default_factory=dict)
    planner: PlannerMemory = field(default_factory=PlannerMemory)
    operators: MeStreamMemory = field(default_factory=MeStreamMemory)
    classes: MpcMemory = field(default_factory=MpcMemory)
    guards: GuardMemory = field(default_factory=GuardMemory)
    costs: dict[str, CostWatchMemory] = field(default_factory=dict)
    qos: dict[str, QosMemory] = field(default_factory=dict)
    tuning: TuningMemory = field(default_factory=TuningMemory)
