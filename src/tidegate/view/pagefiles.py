"""The files of the page, as packaged, and the handlers that serve them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import lru_cache
from importlib.resources import files

from starlette.requests import Request
from starlette.responses import Response

PAGE_FILES = {
    "": ("index.html", "text/html; charset=utf-8"),
    "console.css": ("console.css", "text/css; charset=utf-8"),
    "uplot.css": ("uplot.css", "text/css; charset=utf-8"),
    "uplot.js": ("uplot.js", "text/javascript; charset=utf-8"),
    "format.js": ("format.js", "text/javascript; charset=utf-8"),
    "charts.js": ("charts.js", "text/javascript; charset=utf-8"),
    "plane.js": ("plane.js", "text/javascript; charset=utf-8"),
    "compare.js": ("compare.js", "text/javascript; charset=utf-8"),
    "panels.js": ("panels.js", "text/javascript; charset=utf-8"),
    "console.js": ("console.js", "text/javascript; charset=utf-8"),
    "icon.svg": ("icon.svg", "image/svg+xml"),
}
"""Path on the server, file and content type."""


def serve_file(name: str) -> Callable[[Request], Awaitable[Response]]:
    """The handler of one file."""
    file, kind = PAGE_FILES[name]

    async def handle(request: Request) -> Response:
        return Response(page_file(file), headers={"content-type": kind, "cache-control": "no-cache"})

    return handle


@lru_cache(maxsize=32)
def page_file(name: str) -> bytes:
    """A file of the page, as packaged."""
    return (files("tidegate.view") / "page" / name).read_bytes()
