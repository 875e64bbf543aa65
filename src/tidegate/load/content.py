"""The content of row i: text that depends only on the row's index."""

from __future__ import annotations

import json
from dataclasses import dataclass
from dataclasses import fields as dataclass_fields
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from tidegate.domain.errors import InvalidInput
from tidegate.load.mixing import mixed, seeded
from tidegate.load.nexmark import Nexmark
from tidegate.load.randomtext import RandomText
from tidegate.load.rides import RecordedRides, Rides


class Content(Protocol):
    """A generator of row texts."""

    def texts(self, first: int, end: int) -> list[str]:
        """Return the texts of rows `first` … `end - 1`."""
        ...


@dataclass(frozen=True, slots=True)
class Sentences:
    """Synthetic sentences for WordCount, with Zipf-distributed word frequencies as in real text.

    >>> Sentences().texts(0, 2) == Sentences().texts(0, 2)
    True
    >>> len(Sentences(words=5).texts(7, 8)[0].split())
    5
    """

    words: int = 8
    vocabulary: int = 500
    seed: int = 0

    def texts(self, first: int, end: int) -> list[str]:
        vocabulary, cumulative = _vocabulary(self.vocabulary)
        cells = np.arange(first * self.words, end * self.words, dtype=np.uint64)
        uniform = mixed(seeded(cells, self.seed)) / 2.0**64
        chosen = np.searchsorted(cumulative, uniform, side="right").reshape(-1, self.words)
        return [" ".join(vocabulary[word] for word in row) for row in chosen]


@dataclass(frozen=True, slots=True)
class TextLines:
    """The lines of a text file, repeated forever, without empty lines."""

    path: str

    def texts(self, first: int, end: int) -> list[str]:
        lines = _lines(self.path)
        return [lines[index % len(lines)] for index in range(first, end)]


_MADE_UP: dict[str, type[Sentences | RandomText | Rides | Nexmark]] = {
    "sentences": Sentences,
    "random-text": RandomText,
    "rides": Rides,
    "nexmark": Nexmark,
}
_FROM_FILE: dict[str, type[TextLines | RecordedRides]] = {"text": TextLines, "rides": RecordedRides}
_KINDS = "sentences, random-text, rides, nexmark, text:PATH or rides:PATH"


def content_from_spec(spec: Any) -> Content:
    """Create content from a kind (`sentences`, `random-text`, `rides`, `nexmark`), a kind with a file (`text:PATH`,
    `rides:PATH`), or a JSON object with `kind` and its fields.

    >>> content_from_spec("sentences")
    Sentences(words=8, vocabulary=500, seed=0)
    >>> content_from_spec('{"kind": "random-text", "words": 40}')
    RandomText(words=40, letters=6, seed=0)
    """
    text = str(spec)
    if text.startswith("{"):
        return _from_fields(text)
    if text in _MADE_UP:
        return _MADE_UP[text]()
    kind, _, path = text.partition(":")
    if path and kind in _FROM_FILE:
        content = _FROM_FILE[kind](path)
        content.texts(0, 1)  # fail here and not later in a task
        return content
    raise InvalidInput(f"content {text!r}: use {_KINDS}")


def _from_fields(text: str) -> Content:
    try:
        fields = json.loads(text)
        kind = _MADE_UP[fields.pop("kind")]
    except (ValueError, KeyError, TypeError):
        raise InvalidInput(f"content {text!r}: use kind {', '.join(_MADE_UP)}") from None
    try:
        return kind(**{name: int(value) for name, value in fields.items()})
    except (TypeError, ValueError):
        known = ", ".join(field.name for field in dataclass_fields(kind))
        raise InvalidInput(f"content {text!r}: its fields are {known}, whole numbers") from None


@lru_cache(maxsize=8)
def _vocabulary(size: int) -> tuple[list[str], npt.NDArray[np.float64]]:
    consonants, vowels = "bdfgklmnprstvz", "aeiou"
    syllables = [consonant + vowel for consonant in consonants for vowel in vowels]
    words = [syllables[number % 70] + syllables[number // 70 % 70] + syllables[number % 67] for number in range(size)]
    weights = 1.0 / np.arange(1, size + 1)
    return words, np.cumsum(weights / weights.sum())


@lru_cache(maxsize=8)
def _lines(path: str) -> list[str]:
    try:
        lines = [line.strip() for line in Path(path).read_text(encoding="utf-8").splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"text file {path}: cannot be read ({error})") from None
    lines = [line for line in lines if line]
    if not lines:
        raise InvalidInput(f"text file {path}: has no text")
    return lines
