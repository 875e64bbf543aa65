"""Profiles: T_comm is bytes over the bandwidth that was learned of the links."""

from __future__ import annotations

import pytest

from tidegate.domain import BatchSample, OperatorSample
from tidegate.evaluate.profiles import ProfileMemory, learn, profiles


def batch(number: int, bytes_in: int | None, waited_s: float) -> BatchSample:
    stage = OperatorSample(
        "count", 2, 100, 4.0, 1.0, waited_s, 2.0, bytes_in=bytes_in, fetch_wait_s=waited_s if bytes_in else None
    )
    return BatchSample(number, float(number), 1.0, 100, 4.0, 0.1, 0, operators=(stage,))


def test_more_bytes_take_longer_on_the_same_link() -> None:
    memory = ProfileMemory()
    for number in range(30):
        learn(memory, batch(number, 1_000, 1.0))
    (before,) = profiles(memory, slots=4)
    assert before.communication_s == pytest.approx(0.5)  # 1000 bytes, 1000 bytes/s for each of two tasks
    for number in range(30, 90):
        learn(memory, batch(number, 2_000, 2.0))
    (after,) = profiles(memory, slots=4)
    assert after.communication_s == pytest.approx(1.0, rel=0.02)


def test_without_bytes_it_is_the_waiting() -> None:
    memory = ProfileMemory()
    learn(memory, batch(0, None, 1.0))
    assert profiles(memory, slots=4)[0].communication_s == 0.5
