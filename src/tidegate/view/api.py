"""The page, the API, the event stream and the metrics as one ASGI application."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from functools import lru_cache
from typing import Any

from pydantic import ValidationError
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tidegate.control.steering import Steering, SteerRequest
from tidegate.domain import InvalidInput, Mode
from tidegate.domain.policy import Policy
from tidegate.view import now, openapi, ranges
from tidegate.view.access import SECURITY_HEADERS, Access
from tidegate.view.library import Library
from tidegate.view.news import News
from tidegate.view.pagefiles import PAGE_FILES, serve_file
from tidegate.view.reads import READ, Parameters

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
        routes += [Route(f"/{name}", serve_file(name), methods=["GET"]) for name in PAGE_FILES]
    inner = Starlette(routes=routes, exception_handlers={HTTPException: _problem, Exception: _failure})
    return _Guarded(inner, access)


class _Api:
    def __init__(self, library: Library, access: Access, steer: Steer | None) -> None:
        self._library, self._access, self._steer = library, access, steer
        self._news = News(library)

    def read(self, name: str) -> Callable[[Request], Awaitable[Response]]:
        """The handler of one path."""

        async def handle(request: Request) -> Response:
            self._check(request)
            return _json(await self._run(READ[name], Parameters(request, openapi.READS[name][1])))

        return handle

    async def decision(self, request: Request) -> Response:
        self._check(request)
        text = request.path_params["number"]
        if not (text.isascii() and text.isdigit() and int(text) <= 2**53):
            raise HTTPException(400, f"{text[:40]!r} is not the number of a step")
        found = await self._run(
            lambda library, query: ranges.decision(library.book(query.text("journal")), int(text)),
            Parameters(request, ("journal",)),
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
        from tidegate.view.openmetrics import exposition

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
        query = Parameters(request, ("journal", "application"))

        def chosen(library: Library, query: Parameters) -> tuple[str, str]:
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
