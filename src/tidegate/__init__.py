"""Tidegate keeps Spark Structured Streaming applications within their latency objectives.

`attach(spark)` puts every streaming query of a Spark context under control and returns a `Gate`. A `Policy` states
objectives and bounds. `Topology` names the operators of a query, and `Settings` are passed to a query that Tidegate may
restart. To add a decision of your own, derive from `Proposer`: it turns an `Evaluation` into a `Plan`, which holds a
`Proposal` for every action, each with a `Reason`. `tidegate.extensions` registers it and `tidegate.testing` checks it.
The other extension points have their types here too, and so have journals, forecasts and detectors for use in your own
code. Everything else is internal and may change.

>>> import tidegate
>>> callable(tidegate.attach)
True
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tidegate.adapters.spark.attach import Gate, attach
    from tidegate.adapters.spark.restartablequery import RestartableQuery
    from tidegate.adapters.spark.settings import Settings
    from tidegate.adapters.spark.topology import Topology
    from tidegate.control.journal import Entry, Note, RollUp, read_journal, read_notes
    from tidegate.domain.action import (
        Action,
        MoveState,
        ScaleExecutors,
        SetAdmission,
        SetBatchInterval,
        SetParallelism,
        SetShare,
    )
    from tidegate.domain.decision import Decision, Mode, Proposal, Reason, Receipt
    from tidegate.domain.errors import InvalidInput, TidegateError
    from tidegate.domain.policy import Policy
    from tidegate.evaluate.abnormality import SurpriseDetector, Watch
    from tidegate.evaluate.evaluation import Evaluation
    from tidegate.evaluate.forecast import ArrivalForecaster, Forecast, Forecaster, SelectingBank
    from tidegate.fleet.provider import Provider
    from tidegate.fleet.vocabulary import HostSpec
    from tidegate.placement import Problem, Schedule, Scheduler
    from tidegate.plan.guards import GuardContext
    from tidegate.plan.planner import Plan, Planner, Proposer

__version__ = "0.2.0"
__all__ = [
    "Action",
    "ArrivalForecaster",
    "Decision",
    "Entry",
    "Evaluation",
    "Forecast",
    "Forecaster",
    "Gate",
    "GuardContext",
    "HostSpec",
    "InvalidInput",
    "Mode",
    "MoveState",
    "Note",
    "Plan",
    "Planner",
    "Policy",
    "Problem",
    "Proposal",
    "Proposer",
    "Provider",
    "Reason",
    "Receipt",
    "RestartableQuery",
    "RollUp",
    "ScaleExecutors",
    "Schedule",
    "Scheduler",
    "SelectingBank",
    "SetAdmission",
    "SetBatchInterval",
    "SetParallelism",
    "SetShare",
    "Settings",
    "SurpriseDetector",
    "TidegateError",
    "Topology",
    "Watch",
    "__version__",
    "attach",
    "read_journal",
    "read_notes",
]

_HOMES = {
    "tidegate.adapters.spark.attach": ("Gate", "attach"),
    "tidegate.adapters.spark.restartablequery": ("RestartableQuery",),
    "tidegate.adapters.spark.settings": ("Settings",),
    "tidegate.adapters.spark.topology": ("Topology",),
    "tidegate.control.journal": ("Entry", "Note", "RollUp", "read_journal", "read_notes"),
    "tidegate.domain": (
        *("Decision", "InvalidInput", "Mode", "Proposal", "Reason", "Receipt", "TidegateError"),
        *("Action", "MoveState", "ScaleExecutors", "SetAdmission", "SetBatchInterval", "SetParallelism", "SetShare"),
    ),
    "tidegate.domain.policy": ("Policy",),
    "tidegate.evaluate.abnormality": ("SurpriseDetector", "Watch"),
    "tidegate.evaluate.evaluation": ("Evaluation",),
    "tidegate.evaluate.forecast": ("ArrivalForecaster", "Forecast", "Forecaster", "SelectingBank"),
    "tidegate.fleet.provider": ("Provider",),
    "tidegate.fleet.vocabulary": ("HostSpec",),
    "tidegate.placement": ("Problem", "Schedule", "Scheduler"),
    "tidegate.plan.guards": ("GuardContext",),
    "tidegate.plan.planner": ("Plan", "Planner", "Proposer"),
}


def __getattr__(name: str) -> Any:
    """Load a part on first use: importing the package is free, and the core works where pyspark is missing."""
    for home, names in _HOMES.items():
        if name in names:
            return getattr(_imported(home), name)
    raise AttributeError(f"module 'tidegate' has no attribute {name!r}")


def _imported(home: str) -> Any:
    """Import a module without garbage collection, which would search what stays and take a tenth of the time.

    Freezing and unfreezing moves what was created to the oldest generation. Otherwise the first collection afterwards
    would search all of it. A program that keeps frozen objects of its own is left alone.
    """
    import gc
    from importlib import import_module

    if not gc.isenabled() or gc.get_freeze_count():
        return import_module(home)
    gc.disable()
    try:
        return import_module(home)
    finally:
        gc.freeze()
        gc.unfreeze()
        gc.enable()


def __dir__() -> list[str]:
    return __all__
