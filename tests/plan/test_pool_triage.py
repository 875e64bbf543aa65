"""Which of many applications decide about the size of the pool."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np

from tidegate.plan.pool import _worth_a_look


def test_only_applications_that_are_understood_are_looked_at() -> None:
    """Idle ones keep no slot busy, just as those that are not understood."""
    usable = np.arange(40) % 2 == 1
    evaluation = SimpleNamespace(
        usable=usable,
        busy_slots=np.zeros(40),
        expected=SimpleNamespace(prepare=lambda places: None),
        of=lambda place: place,
    )
    found = _worth_a_look(evaluation, np.zeros(40, dtype=np.bool_))  # type: ignore[arg-type]
    assert len(found) == 8
    assert usable[found].all()
