"""One way to compile the detectors' kernels: cached on disk, free of the interpreter lock, strict about rounding.

No fast-math: one sample at a time and a whole series in one call must give the same scores to the last bit.
The cache looks at a kernel's own file: after changing a constant of `tail`, touch `views` too.
"""

from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar, cast

import numba
import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]

F = TypeVar("F", bound=Callable[..., Any])


def kernel(function: F) -> F:
    """Compile `function` on first use."""
    return cast(F, numba.njit(cache=True, nogil=True)(function))
