"""How a scarce resource is divided: by weight among users, by load among executors, by time on CPUs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

_ENOUGH_ROUNDS = 60
_CLOSE = 1e-12


def fill(capacity: float, demands: Mapping[str, float], weights: Mapping[str, float]) -> dict[str, float]:
    """Weighted max-min sharing: `granted = min(demand, weight · level)`, with `Σ granted = capacity` if it is short.

    Nothing is left idle while there is unmet demand. Without weights everyone gets the same part of its demand.

    >>> fill(4.0, {"q1": 1.0, "q2": 8.0, "q3": 8.0}, {"q1": 6, "q2": 2, "q3": 1})
    {'q1': 1.0, 'q2': 2.0, 'q3': 1.0}
    >>> fill(4.0, {"q1": 2.0, "q2": 6.0}, {})
    {'q1': 1.0, 'q2': 3.0}
    """
    total = sum(demands.values())
    if total <= capacity:
        return dict(demands)
    if not weights:
        part = capacity / total
        return {name: demand * part for name, demand in demands.items()}
    granted: dict[str, float] = {}
    left, waiting = capacity, dict(demands)
    while waiting:
        level = left / sum(weights[name] for name in waiting)
        content = [name for name, demand in waiting.items() if demand <= weights[name] * level]
        if not content:
            granted |= {name: weights[name] * level for name in waiting}
            break
        for name in content:
            granted[name] = waiting.pop(name)
            left -= granted[name]
    return {name: granted[name] for name in demands}


def spread(amount: float, loads: Mapping[str, float]) -> dict[str, float]:
    """Put tasks that may run anywhere where the least work is: they level the loads from below.

    >>> spread(4.0, {"a": 5.0, "b": 1.0, "c": 0.0})
    {'a': 0.0, 'b': 1.5, 'c': 2.5}
    """
    level, below = 0.0, 0.0
    for count, load in enumerate(sorted(loads.values()), start=1):
        if count > 1 and level <= load:
            break
        below += load
        level = (amount + below) / count
    return {name: max(0.0, level - load) for name, load in loads.items()}


def crowding(cpus: float, demands: Iterable[tuple[float, float]]) -> float:
    """How many times longer CPU work takes on `cpus` used by `(processes, cpu_share)`; 1 if there is room for all.

    A process that computes for a share c of its time and waits for the rest takes `(1 − c) + c·k` times as long, and so
    uses `c / ((1 − c) + c·k)` CPUs. k is the value at which all of them together use the available CPUs.

    >>> crowding(2.0, [(1.0, 1.0), (3.45, 1.0)])  # one busy slot and three cold executors on two cores
    2.225
    >>> crowding(2.0, [(1.0, 1.0), (10.0, 0.1)])
    1.0
    """
    wanted = [(processes, share) for processes, share in demands if processes > 0 and share > 0]
    longer = 1.0
    if sum(processes * share for processes, share in wanted) <= cpus:
        return longer
    if all(share == 1.0 for _, share in wanted):
        return sum(processes for processes, _ in wanted) / cpus
    for _ in range(_ENOUGH_ROUNDS):  # Newton's method from the left: usage is convex and falls with k
        excess, slope = -cpus, 0.0
        for processes, share in wanted:
            stretch = (1 - share) + share * longer
            excess += processes * share / stretch
            slope -= processes * share**2 / stretch**2
        step = -excess / slope
        longer += step
        if step <= _CLOSE * longer:
            break
    return longer
