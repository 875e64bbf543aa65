"""What row i says: text that depends on the row's index alone."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from tidegate.domain.errors import InvalidInput

_GOLDEN = 0x9E3779B97F4A7C15  # 2⁶⁴ ÷ the golden ratio


class Content(Protocol):
    """A generator of row texts."""

    def texts(self, first: int, end: int) -> list[str]:
        """The texts of rows `first` … `end - 1`."""
        ...


@dataclass(frozen=True, slots=True)
class Sentences:
    """Made-up sentences for WordCount, with word frequencies that fall off as in real text (Zipf).

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
        uniform = _mixed(cells + np.uint64(self.seed * _GOLDEN % 2**64)) / 2.0**64
        chosen = np.searchsorted(cumulative, uniform, side="right").reshape(-1, self.words)
        return [" ".join(vocabulary[word] for word in row) for row in chosen]


@dataclass(frozen=True, slots=True)
class TextLines:
    """The lines of a text file, over and over; empty lines are left out."""

    path: str

    def texts(self, first: int, end: int) -> list[str]:
        lines = _lines(self.path)
        return [lines[index % len(lines)] for index in range(first, end)]


def content_from_spec(spec: Any) -> Content:
    """`sentences`, `text:PATH`, or a JSON object with `kind` and its fields.

    >>> content_from_spec("sentences")
    Sentences(words=8, vocabulary=500, seed=0)
    """
    text = str(spec)
    if text.startswith("{"):
        fields = json.loads(text)
        if fields.pop("kind", None) != "sentences":
            raise InvalidInput(f"content {text!r}: use kind sentences, or text:PATH")
        try:
            return Sentences(**{name: int(value) for name, value in fields.items()})
        except (TypeError, ValueError):
            raise InvalidInput(f"content {text!r}: sentences take words, vocabulary and seed") from None
    if text == "sentences":
        return Sentences()
    if text.startswith("text:"):
        _lines(text.removeprefix("text:"))  # unreadable now is better than unreadable in a task
        return TextLines(text.removeprefix("text:"))
    raise InvalidInput(f"content {text!r}: use sentences, or text:PATH for the lines of a file")


def _mixed(values: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """SplitMix64's finaliser: neighbouring indices give independent-looking words (Steele et al., 2014)."""
    with np.errstate(over="ignore"):
        mixed = values + np.uint64(_GOLDEN)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return mixed ^ (mixed >> np.uint64(31))


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
