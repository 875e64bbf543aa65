"""Memory that is too small is told from too few executors, and what to do about it is said with numbers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tidegate.control.controller import Controller
from tidegate.control.knowledge import Knowledge
from tidegate.domain import (
    ApplicationSample,
    BatchSample,
    ExecutorPool,
    ExecutorSample,
    MemorySample,
    Observation,
    OperatorSample,
)
from tidegate.domain.policy import Policy

POOL = ExecutorPool((ExecutorSample("0", "h", 4, 0, 0.0),), 1, 4, memory_bytes=1024**3)


def observation(number: int, memory: MemorySample | None, state_bytes: int = 0) -> Observation:
    now_s = 1000.0 + number
    operator = OperatorSample("count", 4, 100, 2.0, 1.0, 0.0, 0.5, stateful=True, state_bytes=state_bytes)
    batch = BatchSample(number, now_s - 1, 0.8, 100, 2.0, 0.1, 0, operators=(operator,), memory=memory)
    sample = ApplicationSample("words", (batch,), now_s, 1.0)
    return Observation(now_s, (sample,), POOL)


def advised(memory: MemorySample | None, batches: int = 8, **others: int) -> list[tuple[str, str]]:
    controller = Controller(Policy())
    decisions = [controller.step(observation(number, memory, **others)) for number in range(batches)]
    return [(one.reason.code, one.reason.text) for one in decisions[-1].advice]


@pytest.mark.parametrize(
    ("memory", "code", "said"),
    [
        (MemorySample(0.6, 0, 0), "garbage-collection", "loses 30% of its task time"),
        (MemorySample(0.02, 64 * 1024**2, 0), "spill", "writes 64 MB per batch to disk"),
        (MemorySample(0.02, 0, 1), "out-of-memory", "8 task attempts ran out of memory"),
    ],
)
def test_each_sign_is_named_with_what_to_do(memory: MemorySample, code: str, said: str) -> None:
    ((found, text),) = advised(memory)
    assert found == code
    assert said in text
    assert "spark.executor.memory=1536m instead of 1024m" in text
    assert "2 slots each instead of 4" in text


def test_a_healthy_heap_and_a_single_bad_batch_are_not_advised_on() -> None:
    assert advised(MemorySample(0.05, 0, 0)) == []
    assert advised(None) == []
    assert advised(MemorySample(0.6, 1, 0), batches=3) == []


def test_a_collection_in_tiny_batches_is_no_sign() -> None:
    controller = Controller(Policy())
    for number in range(10):
        seen = observation(number, MemorySample(0.02, 0, 0))
        (sample,) = seen.applications
        tiny = replace(sample, batches=(replace(sample.batches[0], busy_s=0.021),))
        assert controller.step(replace(seen, applications=(tiny,))).advice == ()


def test_state_that_fills_its_executor_is_named() -> None:
    ((code, text),) = advised(MemorySample(0.0, 0, 0), state_bytes=700 * 1024**2)
    assert code == "state-memory"
    assert "700 MB of state on each executor of 1024 MB" in text
    assert advised(MemorySample(0.0, 0, 0), state_bytes=300 * 1024**2) == []


def test_out_of_memory_is_forgotten_and_knowledge_survives() -> None:
    controller = Controller(Policy())
    controller.step(observation(0, MemorySample(0.0, 0, 2)))
    again = Controller(Policy(), Knowledge.from_bytes(controller.knowledge.to_bytes()))
    soon = again.step(observation(1, MemorySample(0.0, 0, 0)))
    assert [one.reason.code for one in soon.advice] == ["out-of-memory"]
    quiet = replace(observation(700, MemorySample(0.0, 0, 0)))
    assert again.step(quiet).advice == ()
