"""The vocabulary: immutable values that everything else speaks in."""

from tidegate.domain.action import Action, ScaleExecutors, SetAdmission, SetBatchInterval, SetParallelism, SetShare
from tidegate.domain.decision import (
    ActionReceipt,
    Assessment,
    Decision,
    Held,
    Mode,
    Outcome,
    Proposal,
    Reason,
    Receipt,
)
from tidegate.domain.errors import EnvironmentUnfit, InvalidInput, NotSupported, PolicyInvalid, TidegateError
from tidegate.domain.objective import Objective
from tidegate.domain.observation import (
    ApplicationSample,
    ArrivalSample,
    BatchSample,
    DriverTimes,
    ExecutorPool,
    ExecutorSample,
    HostSample,
    LatencySample,
    Observation,
    OperatorSample,
    RebalanceReport,
)

__all__ = [
    "Action",
    "ActionReceipt",
    "ApplicationSample",
    "ArrivalSample",
    "Assessment",
    "BatchSample",
    "Decision",
    "DriverTimes",
    "EnvironmentUnfit",
    "ExecutorPool",
    "ExecutorSample",
    "Held",
    "HostSample",
    "InvalidInput",
    "LatencySample",
    "Mode",
    "NotSupported",
    "Objective",
    "Observation",
    "OperatorSample",
    "Outcome",
    "PolicyInvalid",
    "Proposal",
    "Reason",
    "RebalanceReport",
    "Receipt",
    "ScaleExecutors",
    "SetAdmission",
    "SetBatchInterval",
    "SetParallelism",
    "SetShare",
    "TidegateError",
]
