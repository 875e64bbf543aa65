"""Tidegate keeps Spark Structured Streaming applications within their latency objectives.

`attach(spark)` puts every streaming query of a Spark context under control and returns a `Gate`. A `Policy` states
objectives and bounds. `Topology` names the operators of a query, and `Settings` are passed to a query that Tidegate may
restart. To add a decision of your own, derive from `Proposer`: it turns an `Evaluation` into a `Plan`, which holds a
`Proposal` for every action, each with a `Reason`. Everything else is internal and may change.

>>> import tidegate
>>> callable(tidegate.attach)
True
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tidegate.adapters.spark.attach import Gate, attach
    from tidegate.adapters.spark.settings import Settings
    from tidegate.adapters.spark.topology import Topology
    from tidegate.domain.action import ScaleExecutors, SetAdmission, SetBatchInterval, SetParallelism, SetShare
    from tidegate.domain.decision import Mode, Proposal, Reason
    from tidegate.domain.policy import Policy
    from tidegate.evaluate.evaluation import Evaluation
    from tidegate.plan.planner import Plan, Proposer

__version__ = "0.2.0"
__all__ = [
    "Evaluation",
    "Gate",
    "Mode",
    "Plan",
    "Policy",
    "Proposal",
    "Proposer",
    "Reason",
    "ScaleExecutors",
    "SetAdmission",
    "SetBatchInterval",
    "SetParallelism",
    "SetShare",
    "Settings",
    "Topology",
    "__version__",
    "attach",
]

_HOMES = {
    "tidegate.adapters.spark.attach": ("Gate", "attach"),
    "tidegate.adapters.spark.settings": ("Settings",),
    "tidegate.adapters.spark.topology": ("Topology",),
    "tidegate.domain": (
        *("Mode", "Proposal", "Reason"),
        *("ScaleExecutors", "SetAdmission", "SetBatchInterval", "SetParallelism", "SetShare"),
    ),
    "tidegate.domain.policy": ("Policy",),
    "tidegate.evaluate.evaluation": ("Evaluation",),
    "tidegate.plan.planner": ("Plan", "Proposer"),
}


def __getattr__(name: str) -> Any:
    """Load a part on first use: importing the package is free, and the core works where pyspark is missing."""
    for home, names in _HOMES.items():
        if name in names:
            from importlib import import_module

            return getattr(import_module(home), name)
    raise AttributeError(f"module 'tidegate' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
