"""Converts a step between its two forms: a typed entry, and the plain values that are stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tidegate.control.journal.entry import Entry
from tidegate.domain import Decision, Observation, Receipt
from tidegate.domain.codec import from_tree, to_tree


def tree_of(observation: Observation, decision: Decision | None, receipt: Receipt | None) -> dict[str, Any]:
    """`t` is the time; `o`, `d` and `r` are observation, decision and receipt. The journal adds `i`, the number."""
    return {
        "t": observation.time_s,
        "o": to_tree(observation),
        "d": None if decision is None else to_tree(decision),
        "r": None if receipt is None else to_tree(receipt),
    }


def entry_of(tree: Mapping[str, Any], outcomes: Sequence[Mapping[str, Any]] = (), observations: bool = True) -> Entry:
    """The entry that was recorded. Leaving out the observation is much faster."""
    return Entry(
        tree["t"],
        from_tree(Observation, tree["o"]) if observations and tree["o"] is not None else None,
        None if tree["d"] is None else from_tree(Decision, tree["d"]),
        None if tree["r"] is None else from_tree(Receipt, tree["r"]),
        tuple(outcomes),
        tree.get("i", 0),
    )
