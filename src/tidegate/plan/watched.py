"""How long each pool size has been enough, and how often it was too small after that.

A size has been enough since the last time that a larger one was wanted. Sizes that keep turning out too small are
within the noise; those above it never do. This distinguishes a falling load from a fluctuating one.
"""

from __future__ import annotations

from dataclasses import dataclass, field

_REMEMBERED_S = 3600.0
"""How long a size is remembered as too small."""


@dataclass(slots=True)
class Watched:
    """The sizes wanted at each look.

    >>> watched = Watched()
    >>> for look, size in enumerate((5, 3, 3, 3, 3, 4, 2)):
    ...     watched.note(15.0 * look, size)
    >>> watched.wanted, [watched.enough_for_s(size) for size in (1, 2, 3, 4, 5)]
    (2, [0.0, 15.0, 15.0, 90.0, 90.0])
    >>> [watched.returns(size) for size in (2, 3, 4)]  # 3 was enough for a minute, and then it was not
    [0, 1, 0]
    """

    began_s: float | None = None
    looked_s: float = 0.0
    last: list[tuple[float, int]] = field(default_factory=list)
    """When each size was last wanted, unless the same or a larger size was wanted later: times rise, sizes fall."""
    returned: list[tuple[float, int, int]] = field(default_factory=list)
    """`(time_s, low, high)`: when the sizes from low to below high turned out to be too small."""

    @property
    def wanted(self) -> int | None:
        """The size wanted at the last look."""
        return self.last[-1][1] if self.last else None

    def note(self, now_s: float, size: int, lasting: int | None = None, longest_gap_s: float = 45.0) -> None:
        """Record a look. A gap (a restart, a long silence) resets the watch, because it is no evidence of low load.

        `lasting` is what the load needs in the long run. A larger size is wanted only to clear a backlog, which says
        nothing against a size that would not have built one up.
        """
        if self.began_s is None or now_s - self.looked_s > longest_gap_s:
            self.began_s, self.last = now_s, []
        before = self.wanted
        if before is not None and size > before:
            most = size if lasting is None else min(size, max(lasting, before + 1))
            held = range(before, most)
            least = next((small for small in held if self.enough_for_s(small, now_s) >= longest_gap_s), most)
            if least < most:
                self.returned.append((now_s, least, most))
        while self.last and self.last[-1][1] <= size:
            self.last.pop()
        self.last.append((now_s, size))
        self.looked_s = now_s
        self.returned = [one for one in self.returned if one[0] > now_s - _REMEMBERED_S]

    def enough_for_s(self, size: int, now_s: float | None = None) -> float:
        """How long no larger size was wanted; 0 if one is wanted now."""
        if self.began_s is None:
            return 0.0
        now_s = self.looked_s if now_s is None else now_s
        for time_s, wanted in reversed(self.last):
            if wanted > size:
                return now_s - time_s
        return now_s - self.began_s

    def returns(self, size: int) -> int:
        """How often this size was too small in the last hour after having been enough for a while."""
        return sum(low <= size < high for _, low, high in self.returned)
