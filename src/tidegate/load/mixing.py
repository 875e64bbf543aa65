"""Pseudo-random 64-bit numbers that depend only on an index. Neighbouring indices give unrelated numbers."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Words = npt.NDArray[np.uint64]

_GOLDEN = 0x9E3779B97F4A7C15  # 2⁶⁴ ÷ the golden ratio


def seeded(indices: Words, seed: int) -> Words:
    """Shift the indices to a separate range for every seed."""
    return indices + np.uint64(seed * _GOLDEN % 2**64)


def mixed(values: Words) -> Words:
    """SplitMix64's finaliser (Steele et al., 2014)."""
    with np.errstate(over="ignore"):
        mixed = values + np.uint64(_GOLDEN)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return mixed ^ (mixed >> np.uint64(31))
