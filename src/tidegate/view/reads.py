"""What the API can be asked for: validated query parameters, and the panel that each path reads."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request

from tidegate.view import now, openapi, ranges
from tidegate.view.book import Book
from tidegate.view.library import Library
from tidegate.view.panels import Series


class Parameters:
    """The validated query parameters."""

    def __init__(self, request: Request, known: tuple[str, ...]) -> None:
        self._values: dict[str, str] = {}
        for name, value in request.query_params.multi_items():
            if name not in known:
                continue  # links may carry extra parameters
            if name in self._values:
                raise HTTPException(400, f"{name}: given more than once")
            self._values[name] = value
        for name in ("journal", "application"):
            text = self._values.get(name)
            if text is not None and not (0 < len(text) <= 300 and "\0" not in text):
                raise HTTPException(400, f"{name}: must have 1 to 300 characters")
        self.number("start"), self.number("end"), self.points()

    def text(self, name: str) -> str | None:
        return self._values.get(name)

    def number(self, name: str) -> float | None:
        text = self._values.get(name)
        if text is None:
            return None
        try:
            value = float(text)
        except ValueError:
            raise HTTPException(400, f"{name}: {text[:40]!r} is not a number") from None
        if not math.isfinite(value) or abs(value) > 1e11:
            raise HTTPException(400, f"{name}: {text[:40]!r} is not a time in seconds since 1970")
        return value

    def points(self) -> int:
        text = self._values.get("points", "600")
        most = openapi.MOST_POINTS
        if not (text.isascii() and text.isdigit() and 10 <= int(text[:9]) <= most):
            raise HTTPException(400, f"points: give a whole number from 10 to {most}")
        return int(text)

    def range(self, book: Book) -> tuple[float, float]:
        span = book.span_s or (0.0, 1.0)
        start_s, end_s = self.number("start"), self.number("end")
        start_s, end_s = span[0] if start_s is None else start_s, span[1] if end_s is None else end_s
        if start_s > end_s:
            raise HTTPException(400, f"start {start_s:g} is after end {end_s:g}")
        return start_s, end_s


def _of_application(work: Callable[..., Any]) -> Callable[[Library, Parameters], Any]:
    def read(library: Library, query: Parameters) -> Any:
        book = library.book(query.text("journal"))
        return work(book, library.application(book, query.text("application")), query)

    return read


def _of_range(work: Callable[..., Any]) -> Callable[[Library, Parameters], Any]:
    def read(library: Library, query: Parameters) -> Any:
        book = library.book(query.text("journal"))
        return work(book, *query.range(book), query)

    return read


def _series(book: Book, name: str, query: Parameters) -> Series:
    start_s, end_s = query.range(book)
    return ranges.series(book, name, start_s, end_s, query.points())


READ: dict[str, Callable[[Library, Parameters], Any]] = {
    "journals": lambda library, _: [library.overview(book) for book in library.books.values()],
    "overview": lambda library, query: library.overview(library.book(query.text("journal"))),
    "series": _of_application(_series),
    "pool": _of_range(lambda book, start_s, end_s, query: ranges.pool_series(book, start_s, end_s, query.points())),
    "operators": _of_application(lambda book, name, query: ranges.operators(book, name, *query.range(book))),
    "timeline": _of_range(lambda book, start_s, end_s, _: ranges.timeline(book, start_s, end_s)),
    "classes": lambda library, query: now.classes_now(library.book(query.text("journal"))),
    "cost": _of_range(lambda book, start_s, end_s, _: ranges.cost(book, start_s, end_s)),
    "lag": _of_application(lambda book, name, _: now.lag_now(book, name)),
}
