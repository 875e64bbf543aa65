"""A clock for leases: it never jumps, and it includes the time that the machine was suspended."""

from __future__ import annotations

import time


def steady_s() -> float:
    """Seconds since the machine booted. A suspended machine must find its leases expired when it wakes up."""
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()
