"""Four kinds of manager, each a loop of monitor, analyse, plan and execute, that steer a fleet by asking each other.

Pure: a step takes a view, the messages that came and the time, and returns messages and commands. State is plain data.
"""

from tidegate.managers.applications import (
    ApplicationManager,
    ApplicationSettings,
    ApplicationState,
    ApplicationView,
)
from tidegate.managers.infrastructure import Budget, InfrastructureManager, InfrastructureState
from tidegate.managers.messages import (
    Command,
    HaveHosts,
    Message,
    Numbering,
    Seat,
    StopHost,
    decode,
    encode,
)
from tidegate.managers.operators import OperatorManager, OperatorSettings, OperatorState
from tidegate.managers.placing import HostView
from tidegate.managers.regions import RegionManager, RegionSettings, RegionState, RegionView
from tidegate.managers.tokens import TokenBucket, TokenRule

__all__ = [
    "ApplicationManager",
    "ApplicationSettings",
    "ApplicationState",
    "ApplicationView",
    "Budget",
    "Command",
    "HaveHosts",
    "HostView",
    "InfrastructureManager",
    "InfrastructureState",
    "Message",
    "Numbering",
    "OperatorManager",
    "OperatorSettings",
    "OperatorState",
    "RegionManager",
    "RegionSettings",
    "RegionState",
    "RegionView",
    "Seat",
    "StopHost",
    "TokenBucket",
    "TokenRule",
    "decode",
    "encode",
]
