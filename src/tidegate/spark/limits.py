"""Admission for sources without a gate: Spark's own limits, which a query takes over only when it starts.

A restart costs a pause, so a new limit is taken up only when it pays: when it differs enough to matter, and when the
pauses stay a small share of the time. `format("tidegate")` needs none of this: its gate turns while the query runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from tidegate.spark.capability import Capability

SourceKind = Literal["file", "kafka"]
_LEAST_CHANGE = 1.5
"""A limit within this factor of the one in force is close enough: rates swing as much by themselves."""
_MOST_PAUSED = 0.05
"""Restarts may take this share of the time."""
_USUAL_PAUSE_S = 5.0


def limit_options(kind: SourceKind, rows_per_trigger: int | None, rows_per_file: float = 1.0) -> Mapping[str, str]:
    """The reader options that bound a batch; Kafka counts rows, files are counted whole, at least one.

    >>> limit_options("kafka", 500), limit_options("file", 500, rows_per_file=200), limit_options("kafka", None)
    ({'maxOffsetsPerTrigger': '500'}, {'maxFilesPerTrigger': '2'}, {})
    """
    if rows_per_trigger is None:
        return {}
    if kind == "kafka":
        return {"maxOffsetsPerTrigger": str(rows_per_trigger)}
    return {"maxFilesPerTrigger": str(max(1, int(rows_per_trigger / rows_per_file)))}


def admission_capability(application: str, gated: bool, restartable: bool) -> Capability:
    """How the rows of an application can be held back.

    >>> str(admission_capability("orders", gated=False, restartable=True))
    'admission of orders: yes (through a restart with another limit, when it pays)'
    """
    knob = f"admission of {application}"
    if gated:
        return Capability(knob, True, "through the gate of its source, without a restart")
    if restartable:
        return Capability(knob, True, "through a restart with another limit, when it pays")
    return Capability(knob, False, "not started through gate.start, and its source has no gate")


def why_not_restart(
    in_force: int | None, wanted: int | None, since_restart_s: float, pause_s: float | None = None
) -> str | None:
    """Why a new limit is not worth a restart now; None where it is.

    >>> why_not_restart(1000, 900, since_restart_s=600)
    'the limit in force (1000) is close enough to 900'
    >>> why_not_restart(1000, 300, since_restart_s=30, pause_s=4)
    'the last restart was 30 s ago; one in 80 s pays'
    >>> why_not_restart(None, 300, since_restart_s=600) is None
    True
    """
    if in_force == wanted:
        return "already so"
    if in_force is not None and wanted is not None and 1 / _LEAST_CHANGE < wanted / in_force < _LEAST_CHANGE:
        return f"the limit in force ({in_force}) is close enough to {wanted}"
    apart_s = (pause_s or _USUAL_PAUSE_S) / _MOST_PAUSED
    if since_restart_s < apart_s:
        return f"the last restart was {since_restart_s:.0f} s ago; one in {apart_s:.0f} s pays"
    return None
