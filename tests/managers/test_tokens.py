"""Buckets keep their promise."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tidegate.managers.tokenbucket import TokenBucket, TokenRule


@given(
    size=st.integers(1, 6),
    refill_s=st.floats(5, 500),
    pauses=st.lists(st.floats(0, 200), min_size=1, max_size=80),
)
def test_a_bucket_never_gives_more_than_its_size_and_refill(size: int, refill_s: float, pauses: list[float]) -> None:
    rule, bucket, now_s, taken = TokenRule(size, refill_s), TokenBucket(size), 0.0, 0
    for pause in pauses:
        now_s += pause
        taken += bucket.take(rule, now_s)
        assert taken <= size + (now_s - pauses[0]) / refill_s + 1e-6


def test_a_debt_has_to_be_paid_before_anything_is_given() -> None:
    rule, bucket = TokenRule(2, 10), TokenBucket(2)
    bucket.charge(rule, 0, 4)
    assert not bucket.take(rule, 29)
    assert bucket.take(rule, 30)
