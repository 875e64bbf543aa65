"""One way to compile a forecasting kernel: cached on disk, free of the interpreter lock; NaN stays NaN (= missing)."""

from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar, cast

import numba
import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Bools: TypeAlias = NDArray[np.bool_]

F = TypeVar("F", bound=Callable[..., Any])

# Sums may be reordered (SIMD), but a missing sample has to be seen: neither `nnan` nor `ninf`.
_FAST = {"reassoc", "contract", "arcp", "nsz"}


def kernel(function: F) -> F:
    """Compile `function` on first use. The cache does not see changes in kernels of other files that it calls."""
    return cast(F, numba.njit(cache=True, fastmath=_FAST, nogil=True, error_model="numpy")(function))
