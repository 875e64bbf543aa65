"""The pages of the documentation, their links and their code blocks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    [*ROOT.glob("*.md"), *ROOT.glob("lab/*.md"), *(ROOT / "docs").rglob("*.md")],
    key=lambda path: path.relative_to(ROOT).as_posix(),
)
_FENCE = re.compile(r"^(```+)([\w-]*)[^\n]*\n(.*?)^\1[ \t]*$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(?<!\\)\[[^\]]*\]\(([^)\s]+)(?:\s+\"[^\"]*\")?\)")
_HEADING = re.compile(r"^#{1,6}\s+(.+?)\s*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Block:
    """One code block."""

    page: Path
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def blocks(*languages: str) -> list[Block]:
    """The code blocks of all pages in one of the languages; "" is a block that names none."""
    found = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for match in _FENCE.finditer(text):
            line = text.count("\n", 0, match.start()) + 1
            if match[2] in languages:
                found.append(Block(page, line, match[2], match[3]))
    return found


def links(page: Path) -> list[str]:
    """Where its links and pictures point to."""
    return _LINK.findall(_without_code(page))


def anchors(page: Path) -> set[str]:
    """The headings of a page as GitHub and the site name them."""
    return set(_anchors(_without_code(page)))


def _anchors(text: str) -> Iterator[str]:
    seen: dict[str, int] = {}
    for heading in _HEADING.findall(text):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        anchor = re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
        number = seen.get(anchor, 0)
        seen[anchor] = number + 1
        yield anchor if not number else f"{anchor}-{number}"


def _without_code(page: Path) -> str:
    text = _FENCE.sub("", page.read_text(encoding="utf-8"))
    return re.sub(r"`[^`\n]*`", lambda found: found[0] if "](" not in found[0] else "", text)
