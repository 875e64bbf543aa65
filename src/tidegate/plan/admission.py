"""Limits the batch size of sources that accept a limit: one long batch would hide a growing backlog and delay changes.

A query that falls behind reads larger and larger batches, and all rows of a batch wait until it ends. The limit keeps
batches within part of the objective, and as long as clears the backlog soonest. It never turns away rows
that the pool could process: small batches say little about the cost of large ones, so whatever was processed in time is
allowed again, and twice as much if it was quick. A query whose cost is unknown starts with a small limit, which grows
with every quick batch (like TCP's slow start), so the first batch after an outage is limited too. The limit is lifted
where throttling would do harm: when it causes rows to be dropped behind the watermark, and before the source deletes
waiting rows.

If the policy has several classes, they set the limits instead (`plan/classes`). Rows that a limit leaves in the source
keep ageing, and the model counts that.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import ceil, inf

from tidegate.domain import ApplicationSample, BatchSample, Proposal, Reason, SetAdmission
from tidegate.evaluate.evaluation import ApplicationEvaluation, Evaluation
from tidegate.model.microbatch import quickest_batch_s, rows_in
from tidegate.plan.demand import room_for, warm_slots
from tidegate.plan.planner import NOTHING, Plan, Proposer

FIRST_ROWS = 10_000
"""Maximum rows in the first batch of an unknown query."""
_BATCH_SHARE = 0.4
"""Share of the objective that a batch may take. The rest is for waiting."""
_LEAST_AMORTISED, _AMORTISED = 4.0, 10.0
"""Shortest and longest useful batch, in multiples of its fixed time. Shorter ones waste the slots; longer ones save
almost nothing and make rows wait."""
_LEAST_S = 2.0
"""Batches are never made shorter than this."""
_BAND = 0.2
"""A limit is changed only if it is off by more than this share."""
_FASTER = 4
"""A limit that is not yet known to be right grows by this factor with every batch that finishes in time."""
_TWICE = 2
_BINDS = 0.8
"""A batch that takes at least this share of its limit counts as limited by it."""
_PROVEN_S = 120.0
"""How long a batch that finished in time proves that this many rows can be processed."""
_MORE_DROPS = 0.001
"""Share of dropped rows, above the usual share without a limit, that counts as harm."""
_HARM_S = 600.0
"""How long no limit is set after throttling has done harm."""
_RETENTION_SHARE = 0.5
"""The limit is lifted when the oldest waiting row reaches this share of the source's retention."""


@dataclass(slots=True)
class AdmissionMemory:
    """What batches have proven, and the harm that throttling has done to event time."""

    proven: dict[str, tuple[float, int]] = field(default_factory=dict)
    """Time and rows of a batch that finished in time. The rows are doubled if it took less than half of the time."""
    usual_drops: dict[str, float] = field(default_factory=dict)
    """Usual share of rows dropped behind the watermark without a binding limit: a mean over batches with drops."""
    harmed_s: dict[str, float] = field(default_factory=dict)
    """When rows were last dropped because of a limit."""


class Admission(Proposer):
    """Keeps the batches of gated sources short."""

    name = "admission"

    def __init__(self, memory: AdmissionMemory | None = None) -> None:
        self.memory: AdmissionMemory = memory or AdmissionMemory()

    def watch(self, evaluation: Evaluation) -> None:
        """Record which batches finish in time, and the rows dropped behind the watermark."""
        for place in evaluation.telling:
            for batch in evaluation.samples[place].batches:
                if batch.dropped_rows and batch.rows:
                    self._watch_drops(evaluation.samples[place], batch, evaluation.time_s)
        if len(evaluation.policy.classes) > 1:
            return  # what batches have proven is not used then
        usable = evaluation.usable.tolist()
        for place, sample in enumerate(evaluation.samples):
            limit = sample.admission_rows
            for batch in sample.batches:
                if limit is not None and _TWICE * batch.rows >= _BINDS * limit and usable[place]:
                    self._watch_time(evaluation.of(place), batch, evaluation)

    def _watch_time(self, seen: ApplicationEvaluation, batch: BatchSample, evaluation: Evaluation) -> None:
        now_s, batch_s = evaluation.time_s, _planned_s(seen, _usable_slots(seen, evaluation))
        rows = batch.rows * (_TWICE if batch.duration_s <= batch_s / _TWICE else 1)
        known_s, known = self.memory.proven.get(seen.name, (-inf, 0))
        if batch.duration_s > (1 + _BAND) * batch_s:
            if batch.rows <= known:  # its rows have become more expensive, or it has fewer slots
                self.memory.proven.pop(seen.name, None)
        elif rows >= known or now_s - known_s > _PROVEN_S:
            self.memory.proven[seen.name] = now_s, rows

    def propose(self, evaluation: Evaluation) -> Plan:
        if not evaluation.pool.slots:
            return NOTHING
        turnable = evaluation.status.gated & evaluation.status.running & evaluation.planned
        if len(evaluation.policy.classes) > 1:  # known queries are left to the classes
            turnable &= ~evaluation.usable | (evaluation.limits == FIRST_ROWS)
        found = [self._proposal(place, evaluation) for place in turnable.nonzero()[0].tolist()]
        proposals = tuple([proposal for proposal in found if proposal is not None])
        return Plan(proposals) if proposals else NOTHING

    def _proposal(self, place: int, evaluation: Evaluation) -> Proposal | None:
        seen = evaluation.of(place)
        harm = self._harm(seen.sample, evaluation.time_s)
        if harm is not None:
            unlimited = seen.sample.admission_rows is None
            return None if unlimited else Proposal(SetAdmission(seen.name, None), Reason("open-gate", harm))
        if not evaluation.usable[place]:
            return _slow_start(seen)
        if len(evaluation.policy.classes) > 1:
            return Proposal(SetAdmission(seen.name, None), Reason("known", f"{seen.name}: its cost is known: no limit"))
        proven_s, proven = self.memory.proven.get(seen.name, (-inf, 0))
        return _bound(seen, evaluation, proven if evaluation.time_s - proven_s <= _PROVEN_S else 0)

    def _watch_drops(self, sample: ApplicationSample, batch: BatchSample, now_s: float) -> None:
        share, memory, limit = (batch.dropped_rows or 0) / batch.rows, self.memory, sample.admission_rows
        usual = memory.usual_drops.get(sample.name, 0.0)
        if limit is None or batch.rows < _BINDS * limit:
            memory.usual_drops[sample.name] = usual + 0.2 * (share - usual)
        elif share > 2 * usual + _MORE_DROPS:
            memory.harmed_s[sample.name] = now_s

    def _harm(self, sample: ApplicationSample, now_s: float) -> str | None:
        """Why a limit would do harm now, or None."""
        harmed_s = self.memory.harmed_s.get(sample.name)
        if harmed_s is not None and now_s - harmed_s < _HARM_S:
            return f"{sample.name}: rows were dropped behind the watermark while batches were limited: no limit"
        arrival = sample.arrival
        if arrival is not None and arrival.oldest_s is not None and arrival.retention_s is not None:
            expiring_s = arrival.oldest_s if arrival.expiring_s is None else arrival.expiring_s
            age_s = now_s - expiring_s
            if age_s > _RETENTION_SHARE * arrival.retention_s:
                which = "the oldest row" if arrival.expiring_s is None else "a row"
                kept = f"the source keeps rows for {arrival.retention_s:.0f} s"
                return f"{sample.name}: {which} has waited {age_s:.0f} s, and {kept}: no limit"
        return None


def _bound(seen: ApplicationEvaluation, evaluation: Evaluation, proven: int) -> Proposal | None:
    """Limit batches to what the slots finish in part of the objective, but not below what they have finished."""
    workload, sample = seen.workload, seen.sample
    assert workload is not None
    usable = _usable_slots(seen, evaluation)
    batch_s = _planned_s(seen, usable)
    fit = rows_in(batch_s, usable, workload.cost)
    if fit is None:
        return None
    usual = ceil(workload.expected_rows_per_s * max(sample.interval_s, workload.cost.overhead_s))
    limit = max(fit, proven, usual, 1)
    now = sample.admission_rows
    if now is not None and abs(limit - now) <= _BAND * now:
        return None
    text = f"{seen.name}: {usable} slots finish {fit} rows in {batch_s:.1f} s"
    if limit > fit:
        text += f"; judging by earlier batches, {limit} fit" if limit == proven else f"; {limit} arrive per batch"
    text += ": a batch may read no more"
    return Proposal(SetAdmission(seen.name, limit), Reason("bound-batch", text))


def _planned_s(seen: ApplicationEvaluation, usable: int) -> float:
    """How long a batch of a known query may take: as long as clears its backlog soonest, within part of the objective.

    With a large backlog the fixed cost of batches counts; with a small one, the wait for a batch to end.
    """
    workload = seen.workload
    assert workload is not None
    cost = workload.cost
    fixed_s = cost.overhead_s + cost.batch_s / usable
    waiting_s, busy = (rows * cost.row_s / usable for rows in (workload.pending_rows, workload.expected_rows_per_s))
    batch_s = quickest_batch_s(fixed_s, waiting_s, busy)
    return _batch_s(seen, min(max(batch_s, _LEAST_AMORTISED * fixed_s), _AMORTISED * fixed_s))


def _usable_slots(seen: ApplicationEvaluation, evaluation: Evaluation) -> int:
    assert seen.workload is not None
    slots = warm_slots(evaluation.pool, evaluation.time_s)
    slots = min(slots, seen.workload.parallelism or slots)
    return max(1, round(slots * room_for(seen.place, evaluation, slots)))


def _slow_start(seen: ApplicationEvaluation) -> Proposal | None:
    """A small limit until the cost of a row is known. It grows with every batch that finishes in time."""
    sample, limit, batch_s = seen.sample, seen.sample.admission_rows, _batch_s(seen)
    batch = next((batch for batch in reversed(sample.batches) if batch.rows), None)
    if limit is None:
        rows = max(FIRST_ROWS, _FASTER * batch.rows if batch is not None else 0)
        text = f"{seen.name}: the cost of a row is not known yet: a batch may read up to {rows} rows"
        return Proposal(SetAdmission(seen.name, rows), Reason("slow-start", text))
    if batch is None or batch.rows < _BINDS * limit or batch.duration_s > batch_s:
        return None
    rows = _FASTER * limit
    text = f"{seen.name}: {batch.rows} rows were done in {batch.duration_s:.1f} s, so a batch may read {rows}"
    return Proposal(SetAdmission(seen.name, rows), Reason("slow-start", text))


def _batch_s(seen: ApplicationEvaluation, most_s: float = inf) -> float:
    """How long a batch may take."""
    return max(seen.sample.interval_s, min(_BATCH_SHARE * seen.objective.latency_s, max(most_s, _LEAST_S)))
