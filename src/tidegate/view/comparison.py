"""The comparison part of a report: several runs as text, tables, lines over time and points, above their panels.

The types are plain data. The page draws them with the same code as everything else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

Colour = Literal["blue", "orange", "green", "pink", "sky", "yellow", "grey"]
"""Colours of the page's palette, which are distinguishable with any kind of colour vision."""
Unit = Literal["s", "rows", "rows/s", "", "share"]


@dataclass(frozen=True, slots=True)
class Line:
    """One run's values; None if there is no value."""

    label: str
    values: Sequence[float | None]
    colour: Colour
    dashed: bool = False
    step: bool = False
    fill: bool = False
    wide: bool = False
    hidden: bool = False
    """Hidden at first. A click on its name in the legend shows it."""


@dataclass(frozen=True, slots=True)
class Lines:
    """Runs over time. Every line has a value for every time."""

    title: str
    hint: str
    unit: Unit
    time_s: list[float]
    lines: Sequence[Line]
    log: bool = False
    kind: Literal["lines"] = "lines"

    def __post_init__(self) -> None:
        for line in self.lines:
            if len(line.values) != len(self.time_s):
                raise ValueError(f"{self.title}: {line.label} has {len(line.values)} values, not {len(self.time_s)}")


@dataclass(frozen=True, slots=True)
class Point:
    """One run, or the mean of several, as a point."""

    label: str
    x: float
    y: float
    colour: Colour
    hollow: bool = False
    large: bool = False


@dataclass(frozen=True, slots=True)
class Plane:
    """Runs as points of two metrics; the y axis is logarithmic."""

    title: str
    hint: str
    x_label: str
    y_label: str
    points: Sequence[Point]
    y_mark: float | None = None
    """A dashed line, for example the allowed maximum."""
    kind: Literal["plane"] = "plane"


@dataclass(frozen=True, slots=True)
class TextTable:
    """A table; the first column is text, the others are numbers."""

    title: str
    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    folded: bool = False
    kind: Literal["table"] = "table"


@dataclass(frozen=True, slots=True)
class Comparison:
    """A title, one or two sentences, and the parts below them."""

    title: str
    text: str
    parts: Sequence[Lines | Plane | TextTable] = field(default_factory=tuple)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)
