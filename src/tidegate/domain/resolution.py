"""Rounding of recorded figures: samples to a tenth of a millisecond, assessments to four significant digits.

Spark's own times have a resolution of a millisecond, so further digits carry no information. They would still take
space in the journal, because noise does not compress.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from functools import lru_cache
from typing import Any, TypeVar, cast, overload

T = TypeVar("T")

_SAMPLE_DECIMALS = 4  # 0.1 ms; for shares 0.01 %
_BELIEF_DIGITS = 4


def rounded(sample: T) -> T:
    """Return a sample with its times and shares rounded to four decimals, including nested samples.

    Costs per row and similar values (`…_per_…`) keep all their digits, because they may be smaller than that.

    >>> from tidegate.domain.observation import DriverTimes
    >>> rounded(DriverTimes(planning_s=0.09809786268, log_s=0.05885871))
    DriverTimes(planning_s=0.0981, offsets_s=0.0, log_s=0.0589, sink_s=0.0)
    """
    return cast(T, _rounded(sample))


@overload
def told(figure: float) -> float: ...
@overload
def told(figure: None) -> None: ...
def told(figure: float | None) -> float | None:
    """Return a figure as decisions report it, to four significant digits.

    >>> told(0.0013524239), told(123456.7), told(0.0), told(None)
    (0.001352, 123500.0, 0.0, None)
    """
    return None if figure is None else float(f"{figure:.{_BELIEF_DIGITS}g}")


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, _SAMPLE_DECIMALS)
    if isinstance(value, tuple):
        found = tuple(map(_rounded, value))
        return value if all(new is old for new, old in zip(found, value, strict=True)) else found
    if not is_dataclass(value) or isinstance(value, type):
        return value
    changes = {}
    for name in _names(type(value)):
        old = getattr(value, name)
        if old is not None and (new := _rounded(old)) is not old:
            changes[name] = new
    return replace(value, **changes) if changes else value


@lru_cache(maxsize=64)
def _names(kind: Any) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind) if "_per_" not in field.name)
