"""Load profiles: rows per second as a function of time since the start of the load.

A profile is a small frozen value that can be written as JSON or YAML (`kind` selects the type). Source options,
scenario
files and tests all use the same format:

>>> profile = profile_from_spec({"kind": "burst", "base": 100, "peak": 300, "start_s": 60, "duration_s": 30})
>>> profile.rows_per_s(np.array([0.0, 70.0, 95.0])).tolist()
[100.0, 300.0, 100.0]
"""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass as validated

from tidegate.domain.errors import InvalidInput
from tidegate.load.trace import GapRule, TraceFile, read_trace

Floats = npt.NDArray[np.float64]
Rate = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]

_STRICT: Any = {"extra": "forbid"}
_POISSON_BLOCK = 256


@validated(frozen=True, slots=True, config=_STRICT)
class Constant:
    """A constant rate."""

    rate: Rate
    kind: Literal["constant"] = "constant"

    def rows_per_s(self, t_s: Floats) -> Floats:
        return np.full_like(t_s, self.rate)


@validated(frozen=True, slots=True, config=_STRICT)
class Burst:
    """A base rate that steps to `peak` at `start_s` for `duration_s` (forever by default)."""

    base: Rate
    peak: Rate
    start_s: Seconds
    duration_s: Positive | None = None
    kind: Literal["burst"] = "burst"

    def rows_per_s(self, t_s: Floats) -> Floats:
        end_s = np.inf if self.duration_s is None else self.start_s + self.duration_s
        return np.where((t_s >= self.start_s) & (t_s < end_s), self.peak, self.base)


@validated(frozen=True, slots=True, config=_STRICT)
class Sinusoid:
    """`x(t) = a + b·sin(2πt/c + d)`, never below zero: a daily cycle."""

    baseline: Rate
    amplitude: Rate
    period_s: Positive
    phase: float = 0.0
    kind: Literal["sinusoid"] = "sinusoid"

    def rows_per_s(self, t_s: Floats) -> Floats:
        wave = self.baseline + self.amplitude * np.sin(2 * np.pi * t_s / self.period_s + self.phase)
        return np.maximum(0.0, wave)


@validated(frozen=True, slots=True, config=_STRICT)
class Spikes:
    """A short spike of `height` every `every_s`, otherwise zero; add it to another profile."""

    height: Rate
    every_s: Positive
    width_s: Positive
    first_s: Seconds = 0.0
    kind: Literal["spikes"] = "spikes"

    def rows_per_s(self, t_s: Floats) -> Floats:
        since = np.mod(t_s - self.first_s, self.every_s)
        return np.where((t_s >= self.first_s) & (since < self.width_s), self.height, 0.0)


@validated(frozen=True, slots=True, config=_STRICT)
class Trace:
    """A recorded load from a CSV file: one value per row, held until the next.

    `time_column` holds timestamps (ISO) or seconds; without it the rows are `step_s` apart. Values are counts per
    row of the file (`values: count`, such as requests per minute) or rows per second (`values: rate`).
    `time_scale` 60 plays an hour in a minute, `rate_scale` multiplies the load.
    """

    path: str
    column: str
    time_column: str | None = None
    step_s: Positive = 1.0
    values: Literal["count", "rate"] = "count"
    time_scale: Positive = 1.0
    rate_scale: Positive = 1.0
    first_row: Annotated[int, Field(ge=0)] = 0
    rows: Annotated[int, Field(gt=0)] | None = None
    gaps: GapRule = "error"
    repeat: bool = False
    kind: Literal["trace"] = "trace"

    def rows_per_s(self, t_s: Floats) -> Floats:
        file = TraceFile(self.path, self.column, self.time_column, self.first_row, self.rows)
        recorded = read_trace(file, self.step_s, self.gaps)
        rate = recorded.values / recorded.step_s if self.values == "count" else recorded.values
        played_s = t_s * self.time_scale
        if self.repeat:
            played_s = np.mod(played_s, recorded.duration_s)
        at = np.searchsorted(recorded.times_s, played_s, side="right") - 1
        inside = (played_s >= 0) & (played_s < recorded.duration_s)
        return np.where(inside, rate[np.clip(at, 0, len(rate) - 1)] * self.rate_scale, 0.0)


@validated(frozen=True, slots=True, config=_STRICT)
class Steps:
    """A sequence of rates, each held for `step_s`; the last one continues."""

    rates: Annotated[tuple[Rate, ...], Field(min_length=1)]
    step_s: Positive = 60.0
    kind: Literal["steps"] = "steps"

    def rows_per_s(self, t_s: Floats) -> Floats:
        at = np.clip(np.floor(t_s / self.step_s).astype(np.int64), 0, len(self.rates) - 1)
        return np.asarray(np.asarray(self.rates)[at])


@validated(frozen=True, slots=True, config=_STRICT)
class Sum:
    """The sum of several profiles."""

    parts: tuple[AnyProfile, ...]
    kind: Literal["sum"] = "sum"

    def rows_per_s(self, t_s: Floats) -> Floats:
        total = np.zeros_like(t_s)
        for part in self.parts:
            total += part.rows_per_s(t_s)
        return total


@validated(frozen=True, slots=True, config=_STRICT)
class Poisson:
    """Another profile with Poisson counts for each `bin_s`. A bin's count depends only on its number and the seed.

    Bins are drawn in whole blocks, each from its own generator, whichever part of a block is requested.
    """

    of: AnyProfile
    seed: int = 0
    bin_s: Positive = 0.1
    kind: Literal["poisson"] = "poisson"

    def rows_per_s(self, t_s: Floats) -> Floats:
        bins = np.floor(t_s / self.bin_s).astype(np.int64)
        blocks, where = np.unique(bins // _POISSON_BLOCK, return_inverse=True)
        numbers = blocks[:, None] * _POISSON_BLOCK + np.arange(_POISSON_BLOCK)
        middles_s = np.asarray((numbers.ravel() + 0.5) * self.bin_s, dtype=np.float64)
        expected = (self.of.rows_per_s(middles_s) * self.bin_s).reshape(numbers.shape)
        drawn = np.empty(numbers.shape)
        for row, block in enumerate(blocks):
            drawn[row] = np.random.default_rng((self.seed, int(block))).poisson(expected[row])
        return np.asarray(drawn[where, bins % _POISSON_BLOCK] / self.bin_s)


AnyProfile = Annotated[
    Constant | Burst | Sinusoid | Spikes | Trace | Steps | Sum | Poisson, Field(discriminator="kind")
]
LoadProfile = Constant | Burst | Sinusoid | Spikes | Trace | Steps | Sum | Poisson

_SPEC: TypeAdapter[LoadProfile] = TypeAdapter(AnyProfile)


_KINDS = "constant, burst, sinusoid, spikes, trace, steps, sum, poisson"


def profile_from_spec(spec: Any) -> LoadProfile:
    """Create a profile from a number (constant rate), a mapping, or JSON text.

    >>> profile_from_spec(250)
    Constant(rate=250.0, kind='constant')
    """
    if isinstance(spec, str):
        try:
            spec = json.loads(spec)
        except json.JSONDecodeError as error:
            raise InvalidInput(f"load: not JSON ({error}); give a rate or {{'kind': …}}") from None
    if isinstance(spec, int | float) and not isinstance(spec, bool):
        spec = {"kind": "constant", "rate": spec}
    try:
        profile = _SPEC.validate_python(spec)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "load"
        raise InvalidInput(f"load: {where}: {first['msg']}; kinds are {_KINDS}") from None
    profile.rows_per_s(np.zeros(1))  # read a trace now, so that an error occurs here and not in a running job
    return profile


def profile_to_json(profile: LoadProfile) -> str:
    """Return the profile as text for `profile_from_spec`."""
    return _SPEC.dump_json(profile).decode()
