"""Keeps one-off task times from learners and planners: a batch whose work cost far more, or less, than it should.

Only task times are set aside, never rows, arrivals or latencies: a burst is load, not an error. And only for a few
batches in a row: what lasts is the new normal. A cost is judged against the learned one, busy ÷ (a + rows · s), so that
batches of all sizes can be compared.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from tidegate.analysis.abnormality import Watch
from tidegate.domain import ApplicationSample, BatchSample, ExecutorPool, Reason
from tidegate.monitor.workload import WorkloadMemory

_MOST_RATIOS = 256
_WARM_RATIOS = 128
_LONGEST_EPISODE = 3
_FAR_OFF = 2.0
"""Conservative: a detector finds smaller oddities, but a fit over many batches bears those."""
_MOST_APPLICATIONS = 256


@dataclass(slots=True)
class CostWatchMemory:
    """The latest ratios of measured to learned cost, those set aside left out; a detector is what these make of it."""

    ratios: list[float] = field(default_factory=list)
    set_aside: int = 0
    """Batches set aside in a row."""


class CostWatch:
    """A detector per application, made anew from the remembered ratios whenever it is not at hand.

    It is also made anew when the older half of the ratios is forgotten. So it depends on the memory alone, and a
    controller that was started again says the same as one that never stopped.
    """

    def __init__(self, memories: dict[str, CostWatchMemory]) -> None:
        self._memories = memories
        self._watches: dict[str, Watch] = {}

    def sift(
        self, sample: ApplicationSample, workload: WorkloadMemory, pool: ExecutorPool
    ) -> tuple[ApplicationSample, tuple[Reason, ...]]:
        """The sample without the task times of abnormal batches, and a reason for each that was set aside."""
        known = sample.name in self._memories
        if workload.cost is None or not sample.batches or (not known and len(self._memories) >= _MOST_APPLICATIONS):
            return sample, ()
        memory = self._memories.setdefault(sample.name, CostWatchMemory())
        growing = pool.registered > workload.executors
        batches, reasons = [], []
        for batch in sample.batches:
            cold = growing or batch.warming or batch.started_s < workload.settled_s
            ratio = None if cold else _ratio(batch, workload)
            reason = None if ratio is None else self._judge(sample.name, memory, batch, ratio)
            batches.append(batch if reason is None else _without_times(batch))
            reasons += [] if reason is None else [reason]
        return (replace(sample, batches=tuple(batches)) if reasons else sample), tuple(reasons)

    def _judge(self, name: str, memory: CostWatchMemory, batch: BatchSample, ratio: float) -> Reason | None:
        if len(memory.ratios) >= _MOST_RATIOS:
            memory.ratios = memory.ratios[-_WARM_RATIOS:]
            self._watches.pop(name, None)
        watch = self._watches.get(name)
        if watch is None:
            watch = self._watches[name] = _warmed(memory.ratios)
        verdict = watch.look("cost", ratio)
        far_off = verdict.abnormal and not 1 / _FAR_OFF < ratio < _FAR_OFF
        memory.set_aside = memory.set_aside + 1 if far_off else 0
        if not 0 < memory.set_aside <= _LONGEST_EPISODE:
            memory.ratios.append(ratio)
            return None
        del self._watches[name]  # it has seen the batch, and would take the next one like it for usual
        text = f"{name}: batch {batch.batch_id} held its slots {ratio:.1f} times as long as its rows should have"
        return Reason("abnormal", f"{text}: its task times are not learnt from (score {verdict.score:.2f})")


def _warmed(ratios: list[float]) -> Watch:
    watch = Watch()
    for ratio in ratios:
        watch.look("cost", ratio)
    return watch


def _ratio(batch: BatchSample, workload: WorkloadMemory) -> float | None:
    cost = workload.cost
    if cost is None or batch.busy_s is None or batch.rows <= 0:
        return None
    expected_s = cost.batch_s + batch.rows * cost.row_s
    return batch.busy_s / expected_s if expected_s > 0 else None


def _without_times(batch: BatchSample) -> BatchSample:
    """As if its stages could not be read."""
    return replace(batch, busy_s=None, overhead_s=None, operators=())
