"""The measures of the paper's model over one record (Melnik et al. 2019, section 4.4)."""

from __future__ import annotations

import numpy as np

from tidegate.adapters.sim.plantstate import Floats, Ints


def relative_latency(load: Floats, done: Floats) -> Floats:
    """`s_k / IP_k`: 1 if all waiting rows are processed, infinite if rows wait and none is processed.

    >>> relative_latency(np.array([10.0, 30.0, 5.0, 0.0]), np.array([10.0, 10.0, 0.0, 0.0])).tolist()
    [1.0, 3.0, inf, 1.0]
    """
    ratio = np.where(load > 0, np.inf, 1.0)
    np.divide(load, done, out=ratio, where=done > 0)
    return ratio


def utilisation(used: Floats, offered: Floats) -> Floats:
    """`min_w Σ r^w / w_v` of each host, over the requested resources."""
    return np.asarray(_share(used, offered).min(axis=1), dtype=np.float64) if used.size else np.zeros(len(used))


def overload(demand: Floats, offered: Floats) -> Floats:
    """`max_w Σ RR / w_v` of each host: above 1 if the demand exceeds its capacity."""
    return np.asarray(_share(demand, offered).max(axis=1, initial=0.0), dtype=np.float64)


def sum_by(group: Ints, values: Floats, groups: int) -> Floats:
    """Totals of each group."""
    return np.asarray(np.bincount(group, values, groups), dtype=np.float64)


def _share(part: Floats, whole: Floats) -> Floats:
    share = np.zeros_like(part)
    np.divide(part, whole, out=share, where=whole > 0)
    return share
