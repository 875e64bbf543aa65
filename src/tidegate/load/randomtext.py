"""Random text for the grep, sort and MD5 benchmarks: words of random letters, incompressible."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from tidegate.load.mixing import mixed, seeded

_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_LEXICON = 4096


@dataclass(frozen=True, slots=True)
class RandomText:
    """Lines of words drawn uniformly from a lexicon of random letters.

    >>> RandomText(words=3).texts(5, 6) == RandomText(words=3).texts(0, 10)[5:6]
    True
    """

    words: int = 12
    letters: int = 6
    seed: int = 0

    def texts(self, first: int, end: int) -> list[str]:
        lexicon = _lexicon(self.letters)
        cells = np.arange(first * self.words, end * self.words, dtype=np.uint64)
        chosen = (mixed(seeded(cells, self.seed)) % np.uint64(_LEXICON)).reshape(-1, self.words).tolist()
        return [" ".join([lexicon[word] for word in row]) for row in chosen]


@lru_cache(maxsize=4)
def _lexicon(letters: int) -> list[str]:
    cells = mixed(np.arange(_LEXICON * letters, dtype=np.uint64)) % np.uint64(len(_LETTERS))
    return ["".join(_LETTERS[letter] for letter in word) for word in cells.reshape(-1, letters).tolist()]
