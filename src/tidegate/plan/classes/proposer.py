"""The classes proposer: shares the slots of one pool among service classes, by admission limits and pool weights.

Micro-batch queries process rows in bulk, so the control variable is how much work a trigger admits. The step plans over
one trigger interval, and its grants become rows per trigger:

1. every class is granted what brings it to its set-point, heavier classes first, none below its floor;
2. remaining capacity goes to waiting rows, heavier classes first, until the slots are full: no slot stays idle while
   rows wait;
3. an application whose grant covers all its rows is limited only by the spare slots: where a heavier class shares them,
   a trigger of a lighter class may take the spare capacity, so that the unforeseen first batch of a burst fills the
   slots for no longer than a trigger; the others are limited to their grant;
4. an application that can be rescaled, and has fewer tasks than there are slots, reads no long batches: no grant would
   help it, and it cannot be rescaled before its batch ends.

A trim corrects for what the model leaves out (waves, the driver's own work). It rises if slots stay idle while rows are
held back. It falls if a class misses its objective although it is served in full.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tidegate.domain import Decision, Outcome, Proposal, Reason, Receipt, SetShare
from tidegate.evaluate.evaluation import Evaluation
from tidegate.evaluate.table import Floats
from tidegate.plan.classes.allocation import share_by_level
from tidegate.plan.classes.classesmemory import ClassesMemory, busy_slots, remember, smooth_backlogs
from tidegate.plan.classes.limits import bound_bursts, hold_back, standing_bounds, to_hold_back
from tidegate.plan.classes.member import Members, classes_of, load_of, members_of, rows_limits
from tidegate.plan.classes.mpc import CpuGrants, step
from tidegate.plan.classes.shares import class_shares
from tidegate.plan.demand import warm_slots
from tidegate.plan.planner import NOTHING, Plan, Proposer
from tidegate.plan.proposersettings import PredictiveSettings

_IDLE = 0.97
"""Slots count as idle below this share of what may be filled."""
_TRIM_STEP, _TRIM_RANGE = 0.01, (0.7, 1.3)
_LEAST_ROOM = 0.1
"""Minimum share of the slots to plan with, even if applications with unknown costs take all of them."""
_UNPROVEN = "hold-unproven"
_PROVEN_BUSY = 0.8
"""Utilisation from which a predicted shortage is believed."""
_PROVEN_WAITING = 0.5
"""Excess waiting work that proves a shortage, as a share of what the slots do in a trigger."""
_MOST_JOURNALLED = 64
"""Up to this many applications, the needs are journalled one by one."""


class Classes(Proposer):
    """Admission and shares by class, one step at a time, for the current slots of the pool."""

    name = "classes"

    def __init__(self, memory: ClassesMemory | None = None, settings: PredictiveSettings | None = None) -> None:
        self.memory: ClassesMemory = memory or ClassesMemory()
        self.settings = settings or PredictiveSettings()
        self._plan = NOTHING

    def watch(self, evaluation: Evaluation) -> None:
        """Track backlogs and slots, and compute the plan. The result depends only on observations."""
        self._plan = self._work_out(evaluation) if len(evaluation.policy.classes) > 1 else NOTHING

    def propose(self, evaluation: Evaluation) -> Plan:
        return self._plan

    def learn(self, decision: Decision, receipt: Receipt) -> None:
        """Remember the shares in force."""
        failed = {answer.action for answer in receipt.actions if answer.outcome in {Outcome.REFUSED, Outcome.FAILED}}
        for action in decision.actions:
            if isinstance(action, SetShare) and action not in failed:
                self.memory.shares[action.group] = action.share

    def _work_out(self, evaluation: Evaluation) -> Plan:
        """Grant every application its part of the next trigger interval."""
        settings, memory, pool = self.settings, self.memory, evaluation.pool
        remember(memory, evaluation)
        members = members_of(evaluation, settings)
        if not len(members) or not pool.slots:
            return NOTHING
        # Cold executors do not count: rows that a lighter class sends to them delay every class.
        slots = warm_slots(pool, evaluation.time_s)
        members = replace(members, backlog_rows=smooth_backlogs(memory, members))
        saturation, period_s = evaluation.saturation, members.step_s
        # Applications with unknown costs run too, so the slots that they use cannot be granted.
        busy, taken = busy_slots(memory, evaluation, period_s)
        room = max(slots - taken, _LEAST_ROOM * slots)
        grant = step(load_of(members), classes_of(members), settings, room, period_s, saturation.cap)
        self._correct(members, busy / pool.slots)
        granted = _fill(members, grant, room * settings.fill * memory.trim * saturation.cap)
        limits = rows_limits(members, granted)
        account = _account(members, grant, granted, slots)
        account += f", {taken:.2f} of them for applications whose cost is unknown" if taken else ""
        verdict = self._verdict(members, bool(np.isfinite(limits).any()), busy / pool.slots, slots * period_s)
        proposals = self._admissions(members, granted, limits, slots, may_hold=verdict != _UNPROVEN)
        proposals += self._shares(members, granted, limits, slots)
        reasons = [Reason(verdict, account)]
        reasons += [saturation.reason] if saturation.reason else []
        reasons += [
            Reason(
                "violations",
                f"{each.name}: {each.window_share:.1%} of the rows in the last window exceeded {each.latency_s:g} s",
            )
            for each in evaluation.classes
            if each.window_share > each.bound
        ]
        told = len(members) if len(members) <= _MOST_JOURNALLED else 0
        needed = {members.name(at): float(grant.needed_cpus[at]) for at in range(told)}
        return Plan(tuple(proposals), tuple(reasons), needed)

    def _admissions(
        self, members: Members, granted: Floats, limits: Floats, slots: int, may_hold: bool
    ) -> list[Proposal]:
        """Requests to the sources."""
        bounds = standing_bounds(members, granted, slots)
        free = np.isinf(limits)
        asked = to_hold_back(members, limits, self.settings) & ~(free & np.isfinite(bounds))
        if not may_hold:
            asked &= free  # the others keep their current limits
        held_back = hold_back(members, limits, granted, np.flatnonzero(asked).tolist(), slots)
        return held_back + bound_bursts(members, bounds, free)

    def _verdict(self, members: Members, short: bool, busy: float, slot_s: float) -> str:
        """Do all rows fit, do they not, or is it too early to tell?

        Costs learned from small batches say little about large ones. Until slots are observed to be short, because they
        are busy or work waits for them, nothing is held back. The standing bounds keep a real burst from doing harm.
        """
        waiting_s = float((members.backlog_rows * members.row_s).sum())
        seen = busy >= _PROVEN_BUSY or waiting_s >= _PROVEN_WAITING * slot_s
        self.memory.proven = short and (self.memory.proven or seen)
        if not short:
            return "hold-fits"
        return "short" if self.memory.proven else _UNPROVEN

    def _correct(self, members: Members, busy: float) -> None:
        """Adjust the trim by the outcome of the last grants."""
        memory, held = self.memory, members.held_for_slots
        if not held.any():
            memory.trim += (1.0 - memory.trim) * _TRIM_STEP
            return
        heaviest_held = members.weight[held].max()
        # An application that uses all its tasks, or is slow while slots idle, is not slow because of the others.
        harmed = members.late & ~held & (members.weight > heaviest_held) & (members.wanted_slots < members.tasks)
        if bool(harmed.any()) and busy >= _PROVEN_BUSY:
            memory.trim -= _TRIM_STEP
        elif busy < _IDLE * min(self.settings.fill, 1.0):
            memory.trim += _TRIM_STEP
        memory.trim = min(max(memory.trim, _TRIM_RANGE[0]), _TRIM_RANGE[1])

    def _shares(self, members: Members, granted: Floats, limits: Floats, slots: int) -> list[Proposal]:
        """Shares of classes that differ enough from those in force."""
        proposals = []
        for group, share in class_shares(members, granted, limits, slots).items():
            before = self.memory.shares.get(group)
            if before is not None and abs(share - before) <= self.settings.change * max(before, 0.1):
                continue
            text = f"{group} gets {share:.0%} of {slots} slots while all classes have work"
            proposals.append(Proposal(SetShare(group, share), Reason("share-by-class", text)))
        return proposals


def _fill(members: Members, grant: CpuGrants, room: float) -> Floats:
    """Grants, plus the slots that would stay idle, for waiting rows."""
    wanted = members.wanted_slots
    # A source without a gate cannot be held back.
    granted = np.where(members.gated, np.minimum(grant.cpus, wanted), wanted)
    spare, levels = max(room - float(granted.sum()), 0.0), int(members.level.max(initial=0)) + 1
    return granted + share_by_level(wanted - granted, np.zeros(len(members)), members.level, levels, spare)[0]


def _account(members: Members, grant: CpuGrants, granted: Floats, slots: int) -> str:
    """By class, heaviest first: its need, its waiting rows and its grant."""
    group, count = members.group, len(members.groups)
    needs, gets, waits = (
        np.bincount(group, column, count) for column in (grant.needed_cpus, granted, members.backlog_rows)
    )
    weight = np.zeros(count)
    weight[group] = members.weight
    parts = [
        f"{members.groups[number]} needs {needs[number]:.2f} slots{_behind(waits[number])} and gets {gets[number]:.2f}"
        for number in np.argsort(-weight, kind="stable").tolist()
        if weight[number] > 0
    ]
    return "; ".join(parts) + f"; {slots} slots in all"


def _behind(rows: float) -> str:
    return f" ({rows:.0f} rows behind)" if rows >= 1 else ""
