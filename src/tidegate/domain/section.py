"""Base of all policy sections: no unknown settings, no infinite numbers, immutable."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, WithJsonSchema

from tidegate.domain.calendar import duration_text, parse_duration_s

Share = Annotated[float, Field(gt=0, lt=1)]
Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]
PositiveSeconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Duration = Annotated[
    float,
    BeforeValidator(parse_duration_s),
    Field(gt=0, allow_inf_nan=False),
    PlainSerializer(duration_text, return_type=str, when_used="json"),
    WithJsonSchema({"type": "duration"}),
]
"""Seconds, written `90s`, `15m`, `3h` or `2d`."""
Retired = Mapping[str, "str | Mapping[str, str]"]
"""Removed settings and what to write instead, by name; for a former section, by the name of each part."""


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, serialize_by_alias=True)

    retired: ClassVar[Retired] = {}
