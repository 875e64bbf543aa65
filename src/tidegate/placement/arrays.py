"""Array types and loop compilation for schedulers. Inputs are finite, so sums may be reordered."""

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from tidegate import accelerate

FloatArray: TypeAlias = NDArray[np.float64]
IntArray: TypeAlias = NDArray[np.int64]

kernel = accelerate.kernel(fast_math=True)
inlined = accelerate.kernel(fast_math=True, inline=True)


@inlined
def draw(state: NDArray[np.uint64]) -> float:
    """Next uniform number in [0, 1) of an xorshift64* stream (Vigna 2016); `state` holds one non-zero word."""
    word = state[0]
    word ^= word >> np.uint64(12)
    word ^= word << np.uint64(25)
    word ^= word >> np.uint64(27)
    state[0] = word
    return float((word * np.uint64(2685821657736338717)) >> np.uint64(11)) * (1.0 / 9007199254740992.0)


def stream(rng: np.random.Generator) -> NDArray[np.uint64]:
    """Create a kernel's random stream from the caller's generator."""
    return rng.integers(1, 2**63, size=1, dtype=np.uint64)
