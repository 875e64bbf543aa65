"""The rate that brings thousands of queues back to their set-points, and the responses a rate leads to.

A queue of q₀ rows that is served at a constant rate μ holds at step k `q_k = q₀ + Λ_k − k·Δ·μ` rows, Λ_k those expected
to arrive until then. The row that arrives last waits q_k/μ for them, and that shall be no more than the reference
trajectory y_k = r* + (y₀ − r*)⁺ · e^(−kΔ/T_ref) (Q-Flink, section IV-C). Solved for μ, in closed form:

    μ ≥ max_k (q₀ + Λ_k) / (k·Δ + y_k), and for the rows that wait now q₀/y₁,

not less than λ₁, because a queue that was let grow to its set-point has nothing to spare for a surprise, and no more
than q₀/Δ + λ₁, which is all that the first step can hold.

Rows do not arrive evenly. By Allen–Cunneen for one server, whose waits have an exponential tail, the share p waits no
longer than r* if `λV·ln(1/(1−p)) / (μ(μ − λ)) ≤ r*`, V = (C_S² + C_D²)/2, which solved for μ is

    μ ≥ λ/2 + √(λ²/4 + λ·V·ln(1/(1−p)) / r*)

Compiled by hand because a control step has to do this for thousands of applications within a millisecond.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@njit(cache=True, error_model="numpy")
def needed_rates(
    backlog: Floats,
    expected: Floats,
    rate_now: Floats,
    group: Ints,
    set_point_s: Floats,
    time_constant_s: Floats,
    interval_s: float,
) -> Floats:
    """Rows per second that each application needs, from n backlogs and n × κ expected arrivals (rows per second).

    Set-points r* and time constants T_ref are by group; `rate_now` is what each is served now, from which its response
    y₀ = q₀/μ is known.
    """
    count, steps = expected.shape
    decay = np.empty((set_point_s.shape[0], steps))
    for g in range(set_point_s.shape[0]):
        for k in range(steps):
            decay[g, k] = math.exp(-(k + 1) * interval_s / time_constant_s[g])
    needed = np.empty(count)
    for a in range(count):
        g = group[a]
        aim_s = set_point_s[g]
        queued = backlog[a]
        # A queue that nobody serves has waited for as long as its rows took to come.
        served = rate_now[a] if rate_now[a] > 0.0 else expected[a, 0]
        behind_s = queued / served - aim_s if served > 0.0 else 0.0
        behind_s = max(behind_s, 0.0)
        arriving, most = queued, max(queued / (aim_s + behind_s * decay[g, 0]), expected[a, 0])
        for k in range(steps):
            rate = expected[a, k]
            arriving += rate * interval_s
            most = max(most, arriving / ((k + 1) * interval_s + aim_s + behind_s * decay[g, k]))
        # Only the first step is applied, and in it nothing can be served that is not there.
        needed[a] = min(most, queued / interval_s + expected[a, 0])
    return needed


@njit(cache=True, error_model="numpy")
def uneven_rates(
    rows_per_s: Floats, group: Ints, set_point_s: Floats, tail: Floats, variability: float = 1.0
) -> Floats:
    """Rows per second at which uneven arrivals keep their set-point; `tail` is ln 1/(1−p), by group."""
    rates = np.empty_like(rows_per_s)
    for a in range(rows_per_s.shape[0]):
        half = 0.5 * rows_per_s[a]
        spread = rows_per_s[a] * variability * tail[group[a]] / set_point_s[group[a]]
        rates[a] = half + math.sqrt(half * half + spread)
    return rates


@njit(cache=True, error_model="numpy")
def longest_waits(backlog: Floats, expected: Floats, rate: Floats, interval_s: float) -> Floats:
    """The longest wait q_k/μ in the horizon at the rate μ: `q_k = max(0, q_(k−1) + (λ_k − μ)Δ)`."""
    count, steps = expected.shape
    waits = np.empty(count)
    for a in range(count):
        queued = most = backlog[a]
        for k in range(steps):
            queued = max(0.0, queued + (expected[a, k] - rate[a]) * interval_s)
            most = max(most, queued)
        waits[a] = most / rate[a] if rate[a] > 0.0 else (np.inf if most > 0.0 else 0.0)
    return waits
