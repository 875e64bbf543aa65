"""The rate that brings thousands of queues back to their set-points.

A queue of q₀ rows served at a constant rate μ holds `q_k = q₀ + Λ_k − k·Δ·μ` rows at step k, where Λ_k rows are
expected to arrive until then. The row that arrives last waits q_k/μ. This should not exceed the reference trajectory
y_k = r* + (y₀ − r*)⁺ · e^(−kΔ/T_ref) (Q-Flink, section IV-C). Solved for μ, in closed form:

    μ ≥ max_k (q₀ + Λ_k) / (k·Δ + y_k), and for the rows waiting now q₀/y₁,

but at least λ₁, because a queue that was allowed to grow to its set-point has no margin for a surprise, and at most
q₀/Δ + λ₁, which is all that the first step can hold.

Everything is in arrays over the applications, so a control step handles thousands of them in a millisecond.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Groups = Ints | slice
"""Index of each application's group, or a full slice if each is its own group."""
_LEAST_RATE = 1e-9
"""In rows per second: a queue served more slowly counts as not served."""


@dataclass(frozen=True, slots=True)
class Queues:
    """The queues of n applications."""

    backlog: Floats
    """Rows that wait now."""
    expected: Floats
    """n × κ: arrivals of the next steps, in rows per second."""
    rate_now: Floats
    """Current service rate, which gives the response y₀ = q₀/μ."""
    group: Groups


def needed_rates(queues: Queues, set_point_s: Floats, time_constant_s: Floats, interval_s: float) -> Floats:
    """Rows per second that each application needs. Set-points r* and time constants T_ref are by group."""
    backlog, expected, rate_now, group = queues.backlog, queues.expected, queues.rate_now, queues.group
    first, aim_s = expected[:, 0], set_point_s[group]
    # The rows of a queue that is not served have waited for as long as they took to arrive.
    served = np.where(rate_now > _LEAST_RATE, rate_now, first)
    flows = served > _LEAST_RATE
    behind_s = np.maximum(np.where(flows, backlog / np.where(flows, served, 1.0) - aim_s, 0.0), 0.0)
    waits, back_s = bool(behind_s.any()), time_constant_s[group]
    arriving, most = np.zeros(len(backlog)), first
    for step in range(expected.shape[1]):
        ahead_s = interval_s * (step + 1)
        reference_s = aim_s + behind_s * np.exp(-ahead_s / back_s) if waits else aim_s
        arriving = arriving + expected[:, step]
        if step == 0:
            most = np.maximum(backlog / reference_s, most)
        most = np.maximum(most, (backlog + interval_s * arriving) / (ahead_s + reference_s))
    # Only the first step is applied, and it can serve only rows that exist.
    return np.asarray(np.minimum(most, backlog / interval_s + first))
