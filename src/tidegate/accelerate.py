"""Loops that are compiled where numba is installed, and run as plain Python where it is not: same results, slower.

What decides about a running job is written so that both give the same numbers to the last bit: no fast-math there, and
sums in a stated order.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any, TypeVar, cast, overload

F = TypeVar("F", bound=Callable[..., Any])


def _installed() -> bool:
    try:
        return find_spec("numba") is not None
    except ModuleNotFoundError:
        return False


COMPILED = _installed()
"""Whether kernels are compiled here."""


@overload
def kernel(function: F, /) -> F: ...


@overload
def kernel(*, fast_math: bool = False, inline: bool = False) -> Callable[[F], F]: ...


def kernel(function: F | None = None, /, *, fast_math: bool = False, inline: bool = False) -> F | Callable[[F], F]:
    """Compile `function` on first use, cached on disk and free of the interpreter lock.

    With `fast_math` sums may be reordered (SIMD): only for inputs that are finite, and not for what decides live.
    `inline` is for kernels small enough to be copied into the loops that call them. The cache looks at a kernel's own
    file: after a change in a kernel that it calls from another file, touch both. After renaming a type that kernels
    take, delete the caches (`*.nbi`, `*.nbc`), which cannot be read any more.

    Used as a decorator: `@kernel`, or `@kernel(fast_math=True)`.
    """
    if function is None:
        return lambda later: _compiled(later, fast_math, inline)
    return _compiled(function, fast_math, inline)


def _compiled(function: F, fast_math: bool, inline: bool) -> F:
    if not COMPILED:
        return function
    import numba

    options: dict[str, Any] = {"cache": True, "nogil": True, "error_model": "numpy", "fastmath": fast_math}
    if inline:
        options["inline"] = "always"
    return cast(F, numba.njit(**options)(function))
