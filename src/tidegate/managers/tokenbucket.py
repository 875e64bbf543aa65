"""Token buckets: they limit how often something may happen, allow a burst, and bound the long-run rate."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TokenRule:
    """At most `size` at once, and one more every `refill_s`: at most size + T ÷ refill_s within any T seconds."""

    size: float
    refill_s: float

    def __post_init__(self) -> None:
        if not self.size >= 1:
            raise ValueError(f"a bucket needs room for at least one token, not {self.size}")
        if not self.refill_s > 0:
            raise ValueError(f"the refill time of a token must be positive, not {self.refill_s} s")


@dataclass(slots=True)
class TokenBucket:
    """`tokens = min(B, tokens + r·Δt)`, one per reconfiguration; it starts full.

    >>> rule, bucket = TokenRule(size=1, refill_s=60), TokenBucket(tokens=1)
    >>> bucket.take(rule, 0), bucket.take(rule, 30), bucket.take(rule, 60)
    (True, False, True)
    """

    tokens: float
    time_s: float | None = None

    def left(self, rule: TokenRule, now_s: float) -> float:
        """Refill up to `now_s`. A clock that was set back refills nothing, and counting continues from there."""
        if self.time_s is not None and now_s > self.time_s:
            self.tokens = min(rule.size, self.tokens + (now_s - self.time_s) / rule.refill_s)
        self.time_s = now_s
        return self.tokens

    def take(self, rule: TokenRule, now_s: float) -> bool:
        """Take one token, if there is one."""
        if self.left(rule, now_s) < 1.0 - 1e-9:
            return False
        self.tokens -= 1.0
        return True

    def charge(self, rule: TokenRule, now_s: float, count: int) -> None:
        """Take tokens for changes already made elsewhere. The bucket may go into debt."""
        self.left(rule, now_s)
        self.tokens -= count
