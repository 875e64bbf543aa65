"""The page, the API, the event stream and the metrics as one ASGI application."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import asdict
from functools import lru_cache
from importlib.resources import files
from typing import Any

from pydantic import ValidationError
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tidegate.control.steering import Request as SteerRequest
from tidegate.control.steering import Steering
from tidegate.domain import InvalidInput, Mode
from tidegate.domain.policy import Policy
from tidegate.view import now, openapi, ranges
from tidegate.view.access import SECURITY_HEADERS, Access
from tidegate.view.book import Book
from tidegate.view.library import Library
from tidegate.view.panels import Series

_STATIC = {
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
_NEWS_EVERY_S = 1.0
_BODY_MOST = 4096
_LOOKS = {"GET", "HEAD"}


class Steer:
    """Gives the API access to a controller in this process."""

    def __init__(self, steering: Steering, policy: Callable[[], Policy], running: Callable[[], bool]) -> None:
        self.steering, self.policy, self.running = steering, policy, running


def application(library: Library, access: Access, steer: Steer | None = None, page: bool = True) -> ASGIApp:
    """The whole server, without a socket."""
    api = _Api(library, access, steer)
    routes = [Route(f"/api/v1/{name}", api.read(name), methods=["GET"]) for name in openapi.READS]
    routes += [
        Route("/api/v1/decisions/{number}", api.decision, methods=["GET"]),
        Route("/api/v1/fleet", api.fleet, methods=["GET"]),
        Route("/api/v1/openapi.json", api.describe, methods=["GET"]),
        Route("/api/v1/events", api.events, methods=["GET"]),
        Route("/api/v1/steer", api.steer, methods=["POST"]),
        Route("/metrics", api.metrics, methods=["GET"]),
        Route("/healthz", api.health, methods=["GET"]),
    ]
    if page:
        routes += [Route(f"/{name}", _static(name), methods=["GET"]) for name in _STATIC]
    inner = Starlette(routes=routes, exception_handlers={HTTPException: _problem, Exception: _failure})
    return _Guarded(inner, access)


class _Api:
    def __init__(self, library: Library, access: Access, steer: Steer | None) -> None:
        self._library, self._access, self._steer = library, access, steer
        self._news = _News(library)

    def read(self, name: str) -> Callable[[Request], Awaitable[Response]]:
        """The handler of one path."""

        async def handle(request: Request) -> Response:
            self._check(request)
            return _json(await self._run(_READ[name], _Query(request, openapi.READS[name][1])))

        return handle

    async def decision(self, request: Request) -> Response:
        self._check(request)
        text = request.path_params["number"]
        if not (text.isascii() and text.isdigit() and int(text) <= 2**53):
            raise HTTPException(400, f"{text[:40]!r} is not the number of a step")
        found = await self._run(
            lambda library, query: ranges.decision(library.book(query.text("journal")), int(text)),
            _Query(request, ("journal",)),
        )
        if found is None:
            raise HTTPException(404, f"this journal has no decision {text}")
        return _json(found)

    async def fleet(self, request: Request) -> Response:
        self._check(request)
        try:
            found = await asyncio.to_thread(self._library.fleet)
        except (OSError, InvalidInput) as error:
            raise HTTPException(503, f"the fleet does not answer: {error}") from None
        return JSONResponse(None if found is None else asdict(found), headers={"cache-control": "no-store"})

    async def describe(self, request: Request) -> Response:
        return JSONResponse(_description())

    async def health(self, request: Request) -> Response:
        return Response("ok\n", media_type="text/plain")

    async def metrics(self, request: Request) -> Response:
        from tidegate.view.metrics import exposition

        self._check(request)
        library = self._library

        def work() -> tuple[bytes, str]:
            library.poll()
            return exposition(library.books.values(), request.headers.get("accept", ""))

        body, kind = await asyncio.wrap_future(library.run(work))
        return Response(body, headers={"content-type": kind})

    async def events(self, request: Request) -> Response:
        """Server-sent events: the overview and the new data, whenever there is any."""
        self._check(request)
        query = _Query(request, ("journal", "application"))

        def chosen(library: Library, query: _Query) -> tuple[str, str]:
            book = library.book(query.text("journal"))
            return book.name, library.application(book, query.text("application"))

        journal, name = await self._run(chosen, query)
        return StreamingResponse(
            self._news.follow(journal, name), media_type="text/event-stream", headers={"cache-control": "no-store"}
        )

    async def steer(self, request: Request) -> Response:
        if self._access.token is None:
            raise HTTPException(403, "steering is off: start the console with a token (console.token_file)")
        if not self._access.may_steer(request.headers):
            raise HTTPException(401, "the token is missing or wrong: send it as Authorization: Bearer TOKEN")
        if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
            raise HTTPException(415, "send JSON, with content-type: application/json")
        body = await request.body()
        if len(body) > _BODY_MOST:
            raise HTTPException(400, f"the request is longer than {_BODY_MOST} bytes")
        try:
            asked = openapi.SteerBody.model_validate_json(body)
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(map(str, first["loc"]))
            raise HTTPException(400, f"{place}: {first['msg']}" if place else str(first["msg"])) from None
        if self._steer is None or not self._steer.running():
            raise HTTPException(409, "no controller runs in this process; use the console of the job's driver")
        wanted = await self._steer_request(asked, request)
        try:
            self._steer.steering.ask(wanted, self._steer.policy())
        except InvalidInput as error:
            raise HTTPException(400, str(error)) from None
        return JSONResponse({"accepted": asked.act}, status_code=202)

    async def _steer_request(self, asked: openapi.SteerBody, request: Request) -> SteerRequest:
        client = request.client.host if request.client else "unknown"
        who = f"{asked.who} from {client}"
        if asked.act == "mode":
            if asked.mode is None:
                raise HTTPException(400, "mode: give off, recommend or apply")
            return SteerRequest("mode", who, mode=Mode(asked.mode))
        if asked.act == "bounds":
            if asked.min is None and asked.max is None:
                raise HTTPException(400, "bounds: give min, max or both")
            return SteerRequest("bounds", who, least=asked.min, most=asked.max)
        if asked.act == "apply":
            found = await self._run(lambda library, _: now.recommended(library.book(library.steerable)), None)
            if found is None or (asked.step is not None and asked.step > found.step):
                raise HTTPException(409, "nothing is recommended at the moment")
            return SteerRequest("apply", who, actions=found.actions)
        return SteerRequest(asked.act, who)

    def _check(self, request: Request) -> None:
        if not self._access.may_read(request.headers):
            raise HTTPException(401, "the token is missing or wrong: send it as Authorization: Bearer TOKEN")

    async def _run(self, work: Callable[[Library, Any], Any], query: Any) -> Any:
        def fresh() -> Any:
            self._library.poll()
            return work(self._library, query)

        try:
            return await asyncio.wrap_future(self._library.run(fresh))
        except LookupError as error:
            raise HTTPException(404, str(error.args[0])) from None


class _Query:
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


def _of_application(work: Callable[..., Any]) -> Callable[[Library, _Query], Any]:
    def read(library: Library, query: _Query) -> Any:
        book = library.book(query.text("journal"))
        return work(book, library.application(book, query.text("application")), query)

    return read


def _of_range(work: Callable[..., Any]) -> Callable[[Library, _Query], Any]:
    def read(library: Library, query: _Query) -> Any:
        book = library.book(query.text("journal"))
        return work(book, *query.range(book), query)

    return read


def _series(book: Book, name: str, query: _Query) -> Series:
    start_s, end_s = query.range(book)
    return ranges.series(book, name, start_s, end_s, query.points())


_READ: dict[str, Callable[[Library, _Query], Any]] = {
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


class _News:
    """Reads news once per second for all viewers of an application together, and only while there are viewers."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._viewers: dict[tuple[str, str], set[asyncio.Queue[bytes]]] = {}
        self._since: dict[tuple[str, str], float] = {}
        self._task: asyncio.Task[None] | None = None

    async def follow(self, journal: str, application: str) -> AsyncIterator[bytes]:
        """The stream of one viewer. A slow viewer misses news, and does not delay the others."""
        key, queue = (journal, application), asyncio.Queue[bytes](maxsize=8)
        self._viewers.setdefault(key, set()).add(queue)
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._look())
        try:
            yield b"retry: 2000\n\n"
            while True:
                try:
                    yield await asyncio.wait_for(queue.get(), 15.0)
                except asyncio.TimeoutError:
                    yield b": still here\n\n"
        finally:
            self._viewers[key].discard(queue)
            if not self._viewers[key]:
                del self._viewers[key]
                self._since.pop(key, None)

    async def _look(self) -> None:
        while self._viewers:
            keys = list(self._viewers)
            for key, text in (await asyncio.wrap_future(self._library.run(self._read, keys))).items():
                for queue in self._viewers.get(key, ()):
                    if not queue.full():
                        queue.put_nowait(text)
            await asyncio.sleep(_NEWS_EVERY_S)

    def _read(self, keys: list[tuple[str, str]]) -> dict[tuple[str, str], bytes]:
        library = self._library
        library.poll()
        found: dict[tuple[str, str], bytes] = {}
        for key in keys:
            book = library.books.get(key[0])
            span = book.span_s if book is not None else None
            if book is None or span is None:
                continue
            since_s = self._since.get(key)
            if since_s is not None and span[1] <= since_s and book.indexed >= 1:
                continue
            delta = library.delta(book, key[1], span[1] if since_s is None else since_s)
            self._since[key] = span[1]
            found[key] = b"event: news\ndata: " + json.dumps(delta, allow_nan=False).encode() + b"\n\n"
        return found


class _Guarded:
    """Refuses foreign host names and cross-site requests first, and adds the security headers to responses."""

    def __init__(self, inner: ASGIApp, access: Access) -> None:
        self._inner, self._access = inner, access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._inner(scope, receive, send)
            return
        headers = {key.decode("latin-1").lower(): value.decode("latin-1") for key, value in scope["headers"]}

        async def dressed(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = [(key.encode(), value.encode()) for key, value in SECURITY_HEADERS.items()]
                message = {**message, "headers": [*message["headers"], *own]}
            await send(message)

        problem = None
        if not self._access.knows(headers.get("host", "")):
            problem = "unknown host name: use localhost or 127.0.0.1"
        elif not self._access.same_site(headers) and not (scope["method"] in _LOOKS and _is_page(scope["path"])):
            problem = "requests from other sites are refused"
        if problem is not None:
            await JSONResponse({"error": problem}, status_code=403)(scope, receive, dressed)
            return
        await self._inner(scope, receive, dressed)


def _is_page(path: str) -> bool:
    """Other sites may link to the page. They may not request data or change anything."""
    return not path.startswith("/api/") and path != "/metrics"


def _static(name: str) -> Callable[[Request], Awaitable[Response]]:
    file, kind = _STATIC[name]

    async def handle(request: Request) -> Response:
        return Response(page_file(file), headers={"content-type": kind, "cache-control": "no-cache"})

    return handle


@lru_cache(maxsize=32)
def page_file(name: str) -> bytes:
    """A file of the page, as packaged."""
    return (files("tidegate.view") / "page" / name).read_bytes()


@lru_cache(maxsize=1)
def _description() -> dict[str, Any]:
    return openapi.description()


def _json(value: Any) -> Response:
    """A panel, or a list of panels."""
    plain = [asdict(one) for one in value] if isinstance(value, list) else asdict(value)
    text = json.dumps(plain, allow_nan=False)
    return Response(text, media_type="application/json", headers={"cache-control": "no-store"})


async def _problem(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return JSONResponse({"error": error.detail}, status_code=error.status_code, headers=error.headers)


async def _failure(request: Request, error: Exception) -> Response:
    return JSONResponse({"error": f"{type(error).__name__} while reading the journal"}, status_code=500)
