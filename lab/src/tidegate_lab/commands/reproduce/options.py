"""The options of `tidegate reproduce`, which every experiment gets."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tidegate.domain.python310 import StrEnum


class World(StrEnum):
    """Where an experiment runs."""

    SIM = "sim"
    SPARK = "spark"


class Source(StrEnum):
    """Where the rows of an experiment come from."""

    TIDEGATE = "tidegate"
    KAFKA = "kafka"


@dataclass(frozen=True, slots=True)
class Options:
    """The command-line options. Each experiment uses those that concern it."""

    seed: int
    samples: int
    quick: bool
    full: bool
    out: Path | None
    world: str = "spark"
    runs: tuple[str, ...] = ()
    rate: float | None = None
    source: str = "tidegate"
