"""Settings that are fine by themselves and do not fit together, reported with the place of each."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pydantic_core import PydanticCustomError

MISFIT = "misfit"
"""The type of the validation error; its context holds the misfits."""


@dataclass(frozen=True, slots=True)
class Misfit:
    """A setting that does not fit to others."""

    path: tuple[int | str, ...]
    text: str
    needs: tuple[str, ...] | None = None
    """The other settings. While those are wrong by themselves, nothing can be said of this one."""


def misfit_error(misfits: Iterable[Misfit]) -> PydanticCustomError:
    """For a validator to raise: all of them at once, each with its place."""
    listed = tuple(misfits)
    text = "; ".join(f"{'.'.join(map(str, misfit.path))}: {misfit.text}" for misfit in listed)
    return PydanticCustomError(MISFIT, "{text}", {"text": text, "misfits": listed})
