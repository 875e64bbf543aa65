"""When a new admission limit is worth a restart: sources without a gate take one over only when their query starts.

A restart costs a pause, so a new limit is asked for only when it differs enough to matter, and so rarely that the
pauses stay a small share of the time.
"""

from __future__ import annotations

_LEAST_CHANGE = 1.5
"""A limit within this factor of the one in force is close enough: rates swing as much by themselves."""
_MOST_PAUSED = 0.05
"""Restarts may take this share of the time."""
_USUAL_PAUSE_S = 5.0


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
