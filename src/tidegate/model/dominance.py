"""What must hold between predictions whatever the timing of triggers: more slots never hurt, more load never helps.

Batches start at triggers. A slightly faster query can just miss rows that a slower one includes, so a prediction batch
by batch may rank the two the wrong way round. But no slot has to be used. So a candidate is predicted to be no worse
than any other that differs only in having fewer slots, and no path is predicted to be better than one below it.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_EQUAL = 1e-9


def never_worse_with_more_slots(measures: Floats, slots: Floats, alike: Sequence[Hashable]) -> Floats:
    """Measures (less is better), with candidates in the second dimension. Candidates that are `alike` are compared.

    >>> slots = np.array([[2.0, 2.0], [2.0, 3.0], [1.0, 9.0]])
    >>> never_worse_with_more_slots(np.array([[[0.1], [0.2], [0.0]]]), slots, ["a", "a", "a"]).ravel().tolist()
    [0.1, 0.1, 0.0]
    """
    kinds: dict[Hashable, int] = {}
    kind = np.array([kinds.setdefault(one, len(kinds)) for one in alike])
    return _least_of(measures, _at_least(slots) & (kind[:, None] == kind[None, :]))


def never_better_with_more_load(measures: Floats, paths: Floats) -> Floats:
    """Measures with paths in the last dimension.

    >>> never_better_with_more_load(np.array([[[0.2, 0.1]]]), np.array([[5.0, 5.0], [6.0, 5.0]])).ravel().tolist()
    [0.2, 0.2]
    """
    if len(paths) == 1:
        return measures
    higher = _at_least(paths)
    highest: Floats = np.max(np.where(higher, measures[..., None, :], -np.inf), axis=-1)
    return highest


def _at_least(series: Floats) -> NDArray[np.bool_]:
    """[i, j]: series i is nowhere below series j."""
    if len(series) == 1:
        return np.ones((1, 1), dtype=np.bool_)
    # Only steps after which some series changes add information.
    news = np.ones(series.shape[1], dtype=np.bool_)
    np.any(series[:, 1:] != series[:, :-1], axis=0, out=news[1:])
    series = series[:, news]
    answer: NDArray[np.bool_] = np.all(series[:, None, :] >= series[None, :, :] - _EQUAL, axis=-1)
    return answer


def _least_of(measures: Floats, better: NDArray[np.bool_]) -> Floats:
    lowest: Floats = np.min(np.where(better[:, :, None], measures[:, None, :, :], np.inf), axis=2)
    return lowest
