"""Where the state partitions of an application should be: spread evenly over the executors with the fewest moves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def spread(places: Sequence[str], slots: Mapping[str, int], busy: Mapping[str, int] | None = None) -> dict[int, str]:
    """The partitions that should move, and where to.

    Partitions on no executor, or on one that is not in `slots` (gone, or about to go), always move. Others move only
    from the fullest executor to the emptiest, and only while that reduces the largest number of partitions per slot. An
    even spread stays as it is, so the function is idempotent. Of equally empty executors, the one with the fewest
    `busy` partitions (those of other applications) is taken.

    >>> spread(["0", "0", "0", "0"], {"0": 2, "1": 2})
    {3: '1', 2: '1'}
    >>> spread(["0", "0", "1", "1"], {"0": 2, "1": 2}), spread(["0", "0", "1"], {"0": 2, "1": 2})
    ({}, {})
    >>> spread(["0", "1", "2", ""], {"0": 2, "1": 2})
    {2: '0', 3: '1'}
    """
    if not slots:
        return {}
    others = busy or {}
    held: dict[str, list[int]] = {executor: [] for executor in slots}
    homeless: list[int] = []
    for partition, executor in enumerate(places):
        if executor in held:
            held[executor].append(partition)
        else:
            homeless.append(partition)

    def load(executor: str, more: int = 0) -> float:
        return (len(held[executor]) + more) / slots[executor]

    def emptiest() -> str:
        return min(slots, key=lambda executor: (load(executor, 1), others.get(executor, 0)))

    moves: dict[int, str] = {}
    for partition in homeless:
        executor = emptiest()
        held[executor].append(partition)
        moves[partition] = executor
    while True:
        fullest, executor = max(slots, key=load), emptiest()
        if load(fullest) <= load(executor, 1) + 1e-9:
            return {partition: there for partition, there in moves.items() if places[partition] != there}
        partition = held[fullest].pop()
        held[executor].append(partition)
        moves[partition] = executor
