"""The page and its data in one file: the same panels and code, without a server."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable
from dataclasses import asdict
from importlib.resources import files
from pathlib import Path
from typing import Any

from tidegate.view import now, ranges
from tidegate.view.book import Book, journal_names
from tidegate.view.comparison import Comparison

_POINTS = 800
_MOST_DECISIONS = 200
_SCRIPTS = ("format.js", "charts.js", "plane.js", "panels.js", "compare.js", "console.js")
_FOREVER_S = 3600.0


def write_report(
    journals: Iterable[Path],
    out: Path,
    title: str = "Tidegate report",
    comparison: Comparison | None = None,
    name: str = "report.html",
) -> Path:
    """Write the page into the folder and return its path. A comparison is placed above the journals' panels."""
    collected = []
    for path, own in journal_names(list(journals)).items():
        book = Book(path, own)
        try:
            collected.append(figures(book))
        finally:
            book.close()
    data = {"journals": collected, "comparison": None if comparison is None else comparison.to_dict()}
    out.mkdir(parents=True, exist_ok=True)
    target = out / name
    target.write_text(page(data, title), encoding="utf-8")
    return target


def figures(book: Book) -> dict[str, Any]:
    """The data of all panels, over the whole journal."""
    book.index(_FOREVER_S)
    start_s, end_s = book.span_s or (0.0, 1.0)
    overview = now.overview(book)
    names = [one.application for one in overview.applications]
    timeline = ranges.timeline(book, start_s, end_s)
    acted = [one.number for one in timeline if one.kind != "held"][-_MOST_DECISIONS:]
    decisions = {number: ranges.decision(book, number) for number in acted}
    return {
        "overview": asdict(overview),
        "series": {name: asdict(ranges.series(book, name, start_s, end_s, _POINTS)) for name in names},
        "operators": {name: [asdict(one) for one in ranges.operators(book, name, start_s, end_s)] for name in names},
        "lag": {name: [asdict(one) for one in now.lag_now(book, name)] for name in names},
        "timeline": [asdict(one) for one in timeline],
        "classes": [asdict(one) for one in now.classes_now(book)],
        "cost": asdict(ranges.cost(book, start_s, end_s)),
        "decisions": {str(number): asdict(found) for number, found in decisions.items() if found is not None},
    }


def page(data: dict[str, Any], title: str) -> str:
    """The page with styles, scripts and data inside. Its content policy forbids loading anything else."""
    text = _file("index.html")
    script = "\n".join(_plain(_file(name)) for name in _SCRIPTS)
    # In a script element only "</" and "<!--" end the text early.
    body = json.dumps(data, allow_nan=False).replace("<", "\\u003c")
    policy = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:"
    icon = base64.b64encode(_file("icon.svg").encode()).decode()
    text = text.replace('<html lang="en">', '<html lang="en" data-report>')
    text = text.replace("<title>Tidegate</title>", f"<title>{_escaped(title)}</title>")
    text = text.replace(
        '<meta charset="utf-8">',
        f'<meta charset="utf-8">\n<meta http-equiv="Content-Security-Policy" content="{policy}">',
    )
    text = text.replace('href="icon.svg"', f'href="data:image/svg+xml;base64,{icon}"')
    text = re.sub(r'<link rel="stylesheet" href="([a-z.]+)">', lambda found: f"<style>{_file(found[1])}</style>", text)
    text = text.replace(
        '<script src="uplot.js" defer></script>', f"<script>/*{_file('uplot.LICENSE')}*/\n{_file('uplot.js')}</script>"
    )
    text = text.replace('<script type="module" src="console.js"></script>', "")
    return text.replace(
        "</body>",
        f'<script type="application/json" id="data">{body}</script>\n<script type="module">{script}</script>\n</body>',
    )


def _plain(module: str) -> str:
    """A module as part of one script, without its imports and exports."""
    without = re.sub(r"^import [^;]*;\n", "", module, flags=re.MULTILINE)
    return re.sub(r"^export ", "", without, flags=re.MULTILINE)


def _file(name: str) -> str:
    return (files("tidegate.view") / "page" / name).read_text(encoding="utf-8")


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;")
