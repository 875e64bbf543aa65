"""Placement of tasks on hosts, so that the peaks of one task coincide with the valleys of another.

In: tasks with demands over time, hosts with capacities and prices.
Out: an assignment, its cost, and a lower bound.
Never touches: running applications: `fleet` moves them.
"""

from .bounds import lower_bound
from .configure import Configuration, OperatorChoice, configure
from .criteria import CRITERIA, Constraint, WeightedCriteria, at_most, capacity
from .instance import read_instance, write_instance
from .islands import Engine, IslandResult, merge, solve_island, solve_islands
from .packing import Packing, pack
from .pareto import Tradeoff, pareto_front
from .problem import Host, InvalidInstance, Problem, Task
from .schedule import Schedule, evaluate
from .scheduler import SCHEDULERS, RuleScheduler, Scheduler, scheduler, unknown_scheduler
from .tidegate import Tidegate

__all__ = [
    "CRITERIA",
    "SCHEDULERS",
    "Configuration",
    "Constraint",
    "Engine",
    "Host",
    "InvalidInstance",
    "IslandResult",
    "OperatorChoice",
    "Packing",
    "Problem",
    "RuleScheduler",
    "Schedule",
    "Scheduler",
    "Task",
    "Tidegate",
    "Tradeoff",
    "WeightedCriteria",
    "at_most",
    "capacity",
    "configure",
    "evaluate",
    "lower_bound",
    "merge",
    "pack",
    "pareto_front",
    "read_instance",
    "scheduler",
    "solve_island",
    "solve_islands",
    "unknown_scheduler",
    "write_instance",
]
