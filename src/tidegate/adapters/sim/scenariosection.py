"""Building blocks of scenario files: amounts, loads, angles, and sections that refuse unknown settings."""

from __future__ import annotations

import math
import re
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainValidator

from tidegate.domain import InvalidInput
from tidegate.load import LoadProfile, profile_from_spec


def _read_load(spec: Any) -> Any:
    if isinstance(spec, LoadProfile):
        return spec
    try:
        return profile_from_spec(spec)
    except InvalidInput as error:
        raise ValueError(str(error).removeprefix("load: ")) from None


def _read_angle(value: Any) -> Any:
    """Angles may be written with π: `pi`, `pi/2`, `3pi/2`."""
    if not isinstance(value, str):
        return value
    found = re.fullmatch(r"(-?\d*\.?\d*)\s*\*?\s*(?:pi|π)\s*(?:/\s*(\d+\.?\d*))?", value.strip().lower())
    if found is None:
        raise ValueError("write an angle as a number, or with pi: pi, pi/2, 3pi/2")
    factor = {"": 1.0, "-": -1.0}.get(found[1]) or float(found[1])
    return factor * math.pi / float(found[2] or 1)


Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Name = Annotated[str, Field(min_length=1)]
Load = Annotated[LoadProfile, PlainValidator(_read_load)]
Angle = Annotated[float, BeforeValidator(_read_angle), Field(allow_inf_nan=False)]


class ScenarioSection(BaseModel):
    """A part of a scenario file."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)
