"""Distinguishes too little memory from too few executors: more executors of the same kind do not help the former.

There are three signs, each over the last batches of an application: tasks stall in garbage collection, data spills to
disk, or attempts fail because memory ran out. In-memory state is also compared with the executors' heap.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tidegate.domain import Advice, ApplicationSample, BatchSample, ExecutorPool, Reason
from tidegate.domain.codec import from_tree
from tidegate.evaluate.evaluation import Evaluation

_WEIGHT = 0.2
"""Weight of the newest batch in the running means: about ten batches count."""
_GC_SHARE = 0.15
"""Share of task time. A healthy heap spends a few per cent."""
_LEAST_GC_S = 0.2
"""Per batch. In a tiny batch, a single collection takes most of the time."""
_SPILLING = 0.5
"""Share of the batches."""
_STATE_SHARE = 0.5
"""Share of an executor's heap."""
_REMEMBERED_S = 600.0
_LEAST_BATCHES = 5
_MOST_ADVISED = 8
_MIB = 1024**2


@dataclass(slots=True)
class Pressure:
    """Memory pressure of one application."""

    batches: int = 0
    gc_s: float = 0.0
    busy_s: float = 0.0
    spilling: float = 0.0
    """Share of the batches that spilled."""
    spilled_bytes: float = 0.0
    """Mean over the batches that spilled."""
    out_of_memory: int = 0
    """Failed task attempts since the first recent one."""
    last_out_s: float = 0.0
    state_bytes: int = 0

    @property
    def gc_share(self) -> float:
        """Garbage collection as a share of task time."""
        return min(self.gc_s / self.busy_s, 1.0) if self.busy_s > 0 else 0.0

    def take_in(self, batch: BatchSample) -> None:
        if batch.memory is None or batch.warming:
            return
        self.batches += 1
        weight = max(_WEIGHT, 1 / self.batches)
        self.gc_s += weight * (batch.memory.gc_s - self.gc_s)
        self.busy_s += weight * ((batch.busy_s or 0.0) - self.busy_s)
        spilled = batch.memory.spilled_bytes
        self.spilling += weight * (float(spilled > 0) - self.spilling)
        if spilled > 0:
            self.spilled_bytes += weight * (spilled - self.spilled_bytes) if self.spilled_bytes else spilled
        self.state_bytes = sum(operator.state_bytes or 0 for operator in batch.operators)

    def take_in_failures(self, batch: BatchSample) -> None:
        failed = batch.memory.out_of_memory if batch.memory is not None else 0
        if failed:
            fresh = batch.committed_s - self.last_out_s > _REMEMBERED_S
            self.out_of_memory = failed if fresh else self.out_of_memory + failed
            self.last_out_s = batch.committed_s


@dataclass(slots=True)
class MemoryBook:
    """Memory pressure by application."""

    seen: dict[str, Pressure] = field(default_factory=dict)


class MemoryWatch:
    """Watches for the signs, and advises what to change if one of them persists."""

    name = "memory"

    def __init__(self, parts: dict[str, Any]) -> None:
        """`parts` holds memories by name. A saved one is restored, otherwise a new one is added."""
        saved = parts.get(self.name)
        self.memory = from_tree(MemoryBook, saved) if isinstance(saved, dict) else saved or MemoryBook()
        parts[self.name] = self.memory

    def watch(self, evaluation: Evaluation) -> None:
        if self.memory.seen:
            names = {sample.name for sample in evaluation.samples}
            self.memory.seen = {name: seen for name, seen in self.memory.seen.items() if name in names}
        for sample in [evaluation.samples[place] for place in evaluation.telling]:
            if any(batch.memory is not None for batch in sample.batches):
                self._take_in(sample)

    def _take_in(self, sample: ApplicationSample) -> None:
        pressure = self.memory.seen.setdefault(sample.name, Pressure())
        for batch in sample.batches:
            pressure.take_in(batch)
            pressure.take_in_failures(batch)

    def advice(self, evaluation: Evaluation) -> tuple[Advice, ...]:
        found = []
        for name, pressure in self.memory.seen.items():
            text = _advised(name, pressure, evaluation.pool, evaluation.time_s)
            if text is not None:
                found.append(Advice(name, text))
        return tuple(found[:_MOST_ADVISED])


def _advised(name: str, seen: Pressure, pool: ExecutorPool, now_s: float) -> Reason | None:
    """Advice for the most telling sign, or None if memory is not a problem."""
    more = _more_memory(pool)
    if seen.out_of_memory and now_s - seen.last_out_s < _REMEMBERED_S:
        text = f"{name}: {seen.out_of_memory} task attempts ran out of memory; more executors do not help: {more}"
        return Reason("out-of-memory", text)
    if seen.batches < _LEAST_BATCHES:
        return None
    if seen.gc_share > _GC_SHARE and seen.gc_s > _LEAST_GC_S:
        text = f"{name} loses {seen.gc_share:.0%} of its task time to garbage collection: {more}"
        return Reason("garbage-collection", text)
    if seen.spilling > _SPILLING:
        spilled = seen.spilled_bytes / _MIB
        text = f"{name} writes {spilled:.0f} MB per batch to disk because it does not fit into memory: {more}"
        return Reason("spill", text + ", or more partitions")
    if pool.memory_bytes and pool.registered:
        each = seen.state_bytes / pool.registered
        if each > _STATE_SHARE * pool.memory_bytes:
            text = (
                f"{name} holds {each / _MIB:.0f} MB of state on each executor of {pool.memory_bytes / _MIB:.0f} MB: "
                f"{more}; RocksDB is outside of the heap (spark.executor.memoryOverhead, "
                "spark.sql.streaming.stateStore.rocksdb.boundedMemoryUsage)"
            )
            return Reason("state-memory", text)
    return None


def _more_memory(pool: ExecutorPool) -> str:
    """
    >>> _more_memory(ExecutorPool((), 1, 4, memory_bytes=1024**3))
    'give executors more memory (spark.executor.memory=1536m instead of 1024m), or 2 slots each instead of 4'
    """
    local = any(executor.id == "driver" for executor in pool.executors)
    who, setting = ("the driver", "spark.driver.memory") if local else ("executors", "spark.executor.memory")
    if pool.memory_bytes is None:
        return f"give {who} more memory ({setting})"
    now = pool.memory_bytes // _MIB
    text = f"give {who} more memory ({setting}={3 * now // 2}m instead of {now}m)"
    slots, fewer = pool.slots_per_executor, (pool.slots_per_executor + 1) // 2
    return f"{text}, or {fewer} {'slot' if fewer == 1 else 'slots'} each instead of {slots}" if slots > 1 else text
