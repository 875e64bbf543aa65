"""The gate of a Spark Connect session: it observes and recommends, because a client cannot act on the driver."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from tidegate.adapters.spark.attach import Gate
from tidegate.adapters.spark.connect import ConnectCluster
from tidegate.domain import Mode, NotSupported
from tidegate.domain.policy import Policy

if TYPE_CHECKING:
    from tidegate.adapters.spark.cluster import SparkCluster
    from tidegate.adapters.spark.restartablequery import Build, RestartableQuery

logger = logging.getLogger("tidegate")

_ONLY = "a Spark Connect session can only be observed: Tidegate recommends, and does not act"


class ConnectGate(Gate):
    """Observes the queries of a Spark Connect client."""

    def start(self, name: str, build: Build, checkpoint: str | Path | None = None) -> RestartableQuery:
        raise NotSupported(f"{_ONLY}; start the query with Spark, or attach in the driver")

    def _connect(self, policy: Policy, own_controller: bool) -> SparkCluster:
        return cast("SparkCluster", ConnectCluster(self._spark))  # what control asks of it is the same

    def _register_source(self) -> None:
        """The source reads files of the driver's machine."""

    @property
    def _application(self) -> str:
        return str(self._spark.conf.get("spark.app.name", ""))

    def _context_stopped(self) -> bool:
        return bool(getattr(self._spark, "is_stopped", False))


def attach_to_client(
    spark: Any,
    policy: Policy,
    controller: str | None,
    reload: Callable[[], Policy | None],
    proposers: Collection[str] | None,
) -> ConnectGate:
    """Observe a Spark Connect session. The mode is never `apply`."""
    if policy.mode is Mode.APPLY:
        logger.warning(_ONLY)
    return ConnectGate(spark, _observing(policy), controller, lambda: _observed(reload()), proposers)


def _observing(policy: Policy) -> Policy:
    return policy.model_copy(update={"mode": Mode.RECOMMEND}) if policy.mode is Mode.APPLY else policy


def _observed(changed: Policy | None) -> Policy | None:
    return None if changed is None else _observing(changed)
