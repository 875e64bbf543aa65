"""Four kinds of manager that control a fleet by requests to each other. Each monitors, analyses, plans and executes.

They are pure: a step takes a view, the received messages and the time, and returns messages and commands. State is
plain data.
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
