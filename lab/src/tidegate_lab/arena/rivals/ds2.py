"""DS2 (Kalavri et al., OSDI 2018): three steps are all you need.

The true rate of an operator is rows ÷ useful time. Target rates follow from the sources through selectivities, in
topological order: instances = ⌈target ÷ true rate of an instance · (1 + overprovision)⌉. Executors run the stages of a
batch one after another, so the pool needs the sum over operators. It is common to add 20 %.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tidegate_lab.arena.rivals.measures import Measures
from tidegate_lab.arena.rivals.rival import Rival


@dataclass(frozen=True, slots=True)
class OperatorRates:
    """True rates of all instances together."""

    instances: int
    processing: float
    output: float
    inputs: tuple[str, ...] = ()
    """Empty for a source, whose output is the target."""


def instances_needed(operators: Mapping[str, OperatorRates], overprovision: float = 0.0) -> dict[str, float]:
    """Instances that each operator needs, not rounded. Operators are in topological order.

    >>> found = instances_needed({
    ...     "source": OperatorRates(1, 0.0, 100.0),
    ...     "map": OperatorRates(1, 50.0, 400.0, ("source",)),
    ...     "sink": OperatorRates(1, 100.0, 200.0, ("map",)),
    ... })
    >>> found
    {'map': 2.0, 'sink': 8.0}
    """
    output: dict[str, float] = {}
    needed: dict[str, float] = {}
    for name, rates in operators.items():
        if not rates.inputs:
            output[name] = rates.output
            continue
        target = sum(output[before] for before in rates.inputs)
        exact = target / (rates.processing / rates.instances)
        output[name] = rates.output * exact / rates.instances
        needed[name] = exact * (1 + overprovision)
    return needed


def rounded(needed: Mapping[str, float]) -> dict[str, int]:
    return {name: math.ceil(count - 1e-9) for name, count in needed.items()}


class Ds2(Rival):
    """As many executors as the arriving rows keep busy, plus a margin."""

    name = "ds2"

    def __init__(self, overprovision: float = 0.2, period_s: float = 60.0) -> None:
        super().__init__()
        self.overprovision, self.period_s = overprovision, period_s

    def wish(self, now: Measures) -> tuple[int, str] | None:
        rates = _rates(now)
        if rates is None:
            return None
        slots = sum(instances_needed(rates, self.overprovision).values())
        return max(1, math.ceil(slots / now.slots_per_executor - 1e-9)), f"{now.arrival_rows_per_s:.0f} rows/s arrive"


def _rates(now: Measures) -> dict[str, OperatorRates] | None:
    """One slot of every stage: its rate while busy. Stages run one after another."""
    names: Sequence[str] = next((tuple(op.name for op in batch.operators) for batch in reversed(now.batches)), ())
    if not names or now.done_rows <= 0:
        return None
    found = {"source": OperatorRates(1, 0.0, now.arrival_rows_per_s)}
    before = "source"
    for name in names:
        seen = [op for batch in now.batches for op in batch.operators if op.name == name]
        busy_s = sum(op.busy_s for op in seen)
        rows_in = sum(op.rows_in or 0 for op in seen)
        rows_out = sum(op.rows_out or 0 for op in seen)
        if busy_s <= 0 or rows_in <= 0:
            return None
        found[name] = OperatorRates(1, rows_in / busy_s, rows_out / busy_s, (before,))
        before = name
    return found
