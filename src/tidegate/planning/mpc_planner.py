"""The mpc planner: shares the slots of one pool among service classes, by admission limits and pool weights.

Micro-batch queries are served in bulk: what can be steered is how much work a trigger lets in. So the step of `mpc`
plans over one trigger interval, and its grants become rows per trigger:

1. every class is granted what brings it to its set-point, the heavier first, nobody below its floor;
2. capacity that is left goes to rows that wait, the heavier class first, until the slots are full: nothing stays idle
   while anybody waits;
3. an application whose grant covers all its rows is held back no further than the slots reach: where a heavier class
   shares them, a trigger of a lighter one may take what is spare, so that the first batch of a burst, which nobody has
   seen yet, does not fill the slots for longer than a trigger; the others are limited to their grant.

A trim corrects what the model does not know (waves, the driver's own work): slots that stay idle while rows are held
back raise it, a class that is late although it is served in full lowers it.
"""

from __future__ import annotations

from collections import defaultdict
from math import inf

import numpy as np
from numpy.typing import NDArray

from tidegate.domain import HostSample, Proposal, Reason, SetShare
from tidegate.domain.policy import Policy
from tidegate.monitor.saturation import Saturation, judge
from tidegate.monitor.violations import window_share
from tidegate.planning.allocation import allocate
from tidegate.planning.mpc import Grant, step
from tidegate.planning.mpc_admission import bound_burst, hold_back, standing_bounds
from tidegate.planning.mpc_member import Member, classes_of, load_of, rows_limit
from tidegate.planning.mpc_memory import (
    MpcMemory,
    busy_slots,
    class_name,
    forecasts,
    remember,
    smooth_backlog,
)
from tidegate.planning.mpc_shares import class_shares
from tidegate.planning.planner import Known, Plan, Situation
from tidegate.planning.relimit import why_not_restart

Floats = NDArray[np.float64]

_REPORT_LAG_S = 2.0
_IDLE = 0.97
"""Of the slots that may be filled: below it they count as idle."""
_TRIM_STEP, _TRIM_RANGE = 0.01, (0.7, 1.3)
_LEAST_ROOM = 0.1
"""Of the slots: what is planned with even where applications that are not understood take all of them."""
_UNPROVEN = "hold-unproven"
_PROVEN_BUSY = 0.8
"""Of the slots: when they are used so much, what is expected beyond is believed."""
_PROVEN_WAITING = 0.5
"""Of what the slots do in a trigger: work that waits in excess of the usual."""


class MpcPlanner:
    """Admission and shares by class, one step at a time; it never resizes the pool."""

    def __init__(self, memory: MpcMemory) -> None:
        self._memory = memory

    def plan(self, situation: Situation) -> Plan:
        """Grant every application its part of the next trigger interval."""
        policy, slots = situation.policy, situation.pool.slots
        remember(self._memory, situation)
        doubts = tuple(known.distrust for known in situation.applications if known.distrust is not None)
        expected = forecasts(self._memory, policy.predictive.horizon)
        members = [self._member(known, situation, expected) for known in situation.applications if _usable(known)]
        if not members or not slots:
            return Plan((), doubts or (Reason("hold-learning", "too few batches seen yet"),), {})
        saturation = self._saturation(members, situation.hosts)
        period_s = max(member.period_s for member in members)
        # What is not understood yet runs all the same: the slots that it takes are not there to be given away.
        unknown = {known.sample.name for known in situation.applications if not _usable(known)}
        taken = busy_slots(self._memory, situation.time_s, period_s, unknown)
        room = max(slots - taken, _LEAST_ROOM * slots)
        grant = step(load_of(members), classes_of(members), policy.predictive, room, period_s, saturation.cap)
        busy = busy_slots(self._memory, situation.time_s, period_s) / slots
        self._correct(members, busy, policy)
        granted = _fill(members, grant, room * policy.predictive.fill * self._memory.trim * saturation.cap)
        limits = {member.name: rows_limit(member, slots_of) for member, slots_of in zip(members, granted, strict=True)}
        account = _account(members, grant, granted, slots)
        account += f", {taken:.2f} of them with applications not yet understood" if taken else ""
        verdict = self._verdict(members, any(limits.values()), busy, slots * period_s)
        proposals, held = self._admissions(members, granted, limits, situation, may_hold=verdict != _UNPROVEN)
        proposals += self._shares(members, granted, limits, slots, policy)
        reasons = [Reason(verdict, account)]
        reasons += [saturation.reason] if saturation.reason else []
        reasons += self._incidents(policy)
        needed = {member.name: float(cpus) for member, cpus in zip(members, grant.needed_cpus, strict=True)}
        return Plan(tuple(proposals), (*reasons, *held, *doubts), needed)

    def _member(self, known: Known, situation: Situation, expected: dict[str, float]) -> Member:
        workload, sample = known.workload, known.sample
        assert workload is not None
        rule, objective = situation.policy.class_of(sample.name), situation.policy.objective_of(sample.name)
        period_s = max(sample.interval_s, workload.cost.overhead_s, situation.policy.interval_s)
        rate = expected.get(sample.name, workload.expected_rows_per_s)
        # Rows wait for their trigger, then in a batch, then for its report: only what is beyond that is a backlog.
        usual_s = period_s + min(workload.batch_s, period_s) + _REPORT_LAG_S
        behind = max(0.0, workload.pending_rows - rate * usual_s)
        rows = max(rate * period_s, 1.0)
        return Member(
            name=sample.name,
            group=class_name(situation.policy, sample.name),
            gated=sample.gated,
            limited=sample.limited,
            limit=sample.admission_rows,
            weight=rule.weight,
            floor=rule.floor,
            latency_s=objective.latency_s,
            percentile=objective.percentile,
            rows_per_s=rate,
            backlog_rows=smooth_backlog(self._memory, sample.name, situation.time_s, behind, period_s),
            row_s=max(workload.cost.row_s + workload.cost.batch_s / rows, 1e-9),
            period_s=period_s,
            known=known,
        )

    def _admissions(
        self,
        members: list[Member],
        granted: Floats,
        limits: dict[str, int | None],
        situation: Situation,
        may_hold: bool,
    ) -> tuple[list[Proposal], list[Reason]]:
        """What is asked of the sources, and why some of it is not asked for now."""
        slots = situation.pool.slots
        bounds = standing_bounds(members, granted, slots)
        proposals, held = [], []
        for member, slots_of in zip(members, granted, strict=True):
            limit = limits[member.name]
            if limit is not None and not may_hold:
                continue  # what it has now stays
            if limit is None and member.name in bounds:
                asked = bound_burst(member, bounds[member.name])
            else:
                asked = hold_back(member, limit, float(slots_of), slots, situation.policy)
            if asked and member.limited and (why_not := self._not_worth_it(member, limit, situation.time_s)):
                held.append(Reason("hold-restart", f"{member.name}: {why_not}"))
            elif asked:
                proposals.append(asked)
        return proposals, held

    def _not_worth_it(self, member: Member, limit: int | None, now_s: float) -> str | None:
        """Why a limit that takes a restart is not asked for now; where it is, the restart is remembered."""
        last_s, pause_s = self._memory.restarts.get(member.name, (-inf, None))
        why_not = why_not_restart(member.limit, limit, now_s - last_s, pause_s)
        if why_not is None:
            self._memory.restarts[member.name] = (now_s, pause_s)
        return why_not

    def _saturation(self, members: list[Member], hosts: tuple[HostSample, ...]) -> Saturation:
        costs = {}
        for member in members:
            assert member.known.workload is not None
            costs[member.name] = (member.known.workload.cost.row_s, member.rows_per_s)
        signal = next((host.signal for host in hosts if host.signal is not None), None)
        return judge(self._memory.saturation, costs, signal)

    def _verdict(self, members: list[Member], short: bool, busy: float, slot_s: float) -> str:
        """Do all rows fit, do they not, or is it too early to tell?

        Costs that were learned from small batches say little about large ones. Until slots are seen to be short, busy
        or with work that waits for them, nobody is held back; the bounds that stand keep a true burst from doing harm.
        """
        waiting_s = sum(member.backlog_rows * member.row_s for member in members)
        seen = busy >= _PROVEN_BUSY or waiting_s >= _PROVEN_WAITING * slot_s
        self._memory.proven = short and (self._memory.proven or seen)
        if not short:
            return "hold-fits"
        return "short" if self._memory.proven else _UNPROVEN

    def _correct(self, members: list[Member], busy: float, policy: Policy) -> None:
        """Trim the capacity that is given away by what came of the last grants."""
        memory, held = self._memory, [member for member in members if member.held]
        if not held:
            memory.trim += (1.0 - memory.trim) * _TRIM_STEP
            return
        heaviest_held = max(member.weight for member in held)
        if any(member.late for member in members if not member.held and member.weight > heaviest_held):
            memory.trim -= _TRIM_STEP
        elif busy < _IDLE * min(policy.predictive.fill, 1.0):
            memory.trim += _TRIM_STEP
        memory.trim = min(max(memory.trim, _TRIM_RANGE[0]), _TRIM_RANGE[1])

    def _shares(
        self, members: list[Member], granted: Floats, limits: dict[str, int | None], slots: int, policy: Policy
    ) -> list[Proposal]:
        """Shares of classes, where they differ enough from those that were last asked for."""
        proposals = []
        for group, share in class_shares(members, granted, limits, slots).items():
            before = self._memory.shares.get(group)
            if before is not None and abs(share - before) <= policy.predictive.change * max(before, 0.1):
                continue
            self._memory.shares[group] = share
            text = f"{group} holds {share:.0%} of {slots} slots while all classes have work"
            proposals.append(Proposal(SetShare(group, share), Reason("share-by-class", text)))
        return proposals

    def _incidents(self, policy: Policy) -> list[Reason]:
        """Classes whose last window held more late rows than they may have."""
        return [
            Reason("violations", f"{name}: {window_share(profile):.1%} of the last window's rows were late")
            for name, profile in sorted(self._memory.classes.items())
            if profile.over and name in policy.classes
        ]


def _usable(known: Known) -> bool:
    return known.distrust is None and known.workload is not None


def _fill(members: list[Member], grant: Grant, room: float) -> Floats:
    """Grants, and beyond them the slots that would stay idle, to rows that wait."""
    wanted = np.array([member.wanted_slots for member in members])
    granted = np.minimum(grant.cpus, wanted)
    # Nobody can hold back a source without a gate or a limit.
    granted = np.where([member.gated or member.limited for member in members], granted, wanted)
    weights = np.array([member.weight for member in members])
    return granted + allocate(wanted - granted, weights, max(room - float(granted.sum()), 0.0))


def _account(members: list[Member], grant: Grant, granted: Floats, slots: int) -> str:
    """By class: what it needs, what waits, and what it is given."""
    needs: dict[str, float] = defaultdict(float)
    gets: dict[str, float] = defaultdict(float)
    waits: dict[str, float] = defaultdict(float)
    for index in sorted(range(len(members)), key=lambda index: -members[index].weight):
        group = members[index].group
        needs[group] += float(grant.needed_cpus[index])
        gets[group] += float(granted[index])
        waits[group] += members[index].backlog_rows
    parts = [f"{group} needs {needs[group]:.2f}, {waits[group]:.0f} rows behind → {gets[group]:.2f}" for group in needs]
    return "; ".join(parts) + f" of {slots} slots"
