"""Messages survive the wire and refuse nonsense; buckets keep their promise."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.domain.errors import InvalidInput
from tidegate.managers.messages import (
    Denial,
    HostGrant,
    HostRequest,
    MoveRequest,
    OperatorReport,
    ScaleGrant,
    ScaleRequest,
    Standing,
    decode,
    encode,
)
from tidegate.managers.tokens import TokenBucket, TokenRule

HEAD = {"id": "a#1", "sender": "a", "to": "b", "time_s": 1.5}
MESSAGES = [
    ScaleRequest(**HEAD, operator="o", replicas=2, change=-1, score=0.5, reason="idle"),
    MoveRequest(**HEAD, operator="o", host="h", score=0.1, reason="hot", urgent=True),
    HostRequest(**HEAD, region="r", hosts=2, change=1, unmet_slots=3.0, reason="full"),
    ScaleGrant(**HEAD, request_id="o#1", operator="o", target=3, reason="yes"),
    HostGrant(**HEAD, target=3, most=4, reason="renewal"),
    Denial(**HEAD, request_id="o#1", reason="no tokens left"),
    Standing(**HEAD, operator="o", target=None),
    OperatorReport(**HEAD, operator="o", replicas=3, changes_alone=1),
]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda m: m.kind)
def test_a_message_reads_back_as_it_was_sent(message: object) -> None:
    assert decode(encode(message)) == message  # type: ignore[arg-type]


def test_another_version_is_refused_by_name() -> None:
    text = json.dumps(json.loads(encode(MESSAGES[0])) | {"version": 9})
    with pytest.raises(InvalidInput, match="version 9"):
        decode(text)


def test_nonsense_is_refused() -> None:
    with pytest.raises(InvalidInput):
        decode(b'{"kind": "scale-request"}')
    with pytest.raises(ValueError, match="is not valid"):
        ScaleRequest(**HEAD, operator="o", replicas=1, change=-1, score=0, reason="")
    with pytest.raises(ValueError, match="is not valid"):
        HostGrant(**HEAD, target=3, most=2, reason="")


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
