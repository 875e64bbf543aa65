"""Settings that are valid on their own but inconsistent with each other, each reported with its place."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pydantic_core import PydanticCustomError

MISFIT = "misfit"
"""Type of the validation error; its context contains the misfits."""


@dataclass(frozen=True, slots=True)
class Misfit:
    """A setting that is inconsistent with others."""

    path: tuple[int | str, ...]
    text: str
    needs: tuple[str, ...] | None = None
    """The other settings. While those are invalid, this one cannot be checked."""


def misfit_error(misfits: Iterable[Misfit]) -> PydanticCustomError:
    """Return an error for a validator to raise, with all misfits and their places."""
    listed = tuple(misfits)
    text = "; ".join(f"{'.'.join(map(str, misfit.path))}: {misfit.text}" for misfit in listed)
    return PydanticCustomError(MISFIT, "{text}", {"text": text, "misfits": listed})
