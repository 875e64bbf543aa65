"""Orders the reasons of a decision, the main one first: a reader who sees one reason sees the one that mattered.

What was done comes before what was held back, and that before what was considered. Of several actions the one with the
dearest knob comes first: a restart matters more than a limit.
"""

from __future__ import annotations

from collections.abc import Collection

from tidegate.domain import Action, Held, Proposal, Reason
from tidegate.plan.arbiter import knob_of
from tidegate.plan.planner import Plan

_DEAREST_FIRST = (
    "move-application",
    "add-host",
    "remove-host",
    "set-parallelism",
    "scale-executors",
    "set-batch-interval",
    "set-admission",
    "set-share",
    "move-state",
)


def main_first(plan: Plan, actions: Collection[Action], held: Collection[Held]) -> tuple[Reason, ...]:
    """All reasons of a plan, without repetition.

    >>> from tidegate.domain import ScaleExecutors
    >>> fits, short = Reason("hold-fits", "all rows fit"), Reason("grow", "2.4 of 2 slots are needed")
    >>> plan = Plan((Proposal(ScaleExecutors(2), short),), reasons=(fits,))
    >>> [reason.code for reason in main_first(plan, actions=(ScaleExecutors(2),), held=())]
    ['grow', 'hold-fits']
    """
    if not plan.proposals:
        return tuple(dict.fromkeys(plan.reasons))
    done = {knob_of(action) for action in actions}  # a guard may have reduced an action: it is still the same knob
    waits = {knob_of(one.wanted) for one in held}

    def place(proposal: Proposal) -> tuple[int, int]:
        knob = knob_of(proposal.action)
        return 0 if knob in done else 1 if knob in waits else 2, _DEAREST_FIRST.index(proposal.action.kind)

    acted = [proposal.reason for proposal in sorted(plan.proposals, key=place)]
    return tuple(dict.fromkeys([*acted, *plan.reasons]))
