"""The OpenAPI description: paths and parameters by hand, responses from the panels' types."""

from __future__ import annotations

from importlib.metadata import version
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from tidegate.view.panels import ClassNow, Cost, DecisionDetail, FleetNow, Lag, Moment, OperatorLoad, Overview, Series

MOST_POINTS = 2000
_LARGEST_S = 1e11
_NAME = {"type": "string", "minLength": 1, "maxLength": 300, "pattern": r"^[^\u0000\ud800-\udfff]*$"}
_TIME = {"type": "number", "minimum": -_LARGEST_S, "maximum": _LARGEST_S}

PARAMETERS: dict[str, dict[str, Any]] = {
    "journal": {"schema": _NAME, "description": "Name of a journal. Default: the first."},
    "application": {"schema": _NAME, "description": "Name of an application. Default: the first."},
    "start": {"schema": _TIME, "description": "Start of the range, seconds since 1970. Default: start of the journal."},
    "end": {"schema": _TIME, "description": "End of the range. Default: end of the journal."},
    "points": {
        "schema": {"type": "integer", "minimum": 10, "maximum": MOST_POINTS, "default": 600},
        "description": "Maximum number of values per column.",
    },
}
_OF_JOURNAL = ("journal",)
_OF_RANGE = ("journal", "start", "end")
_OF_APPLICATION = ("journal", "application", "start", "end")

READS: dict[str, tuple[str, tuple[str, ...], Any]] = {
    "journals": ("Every journal at a glance", (), list[Overview]),
    "overview": ("One journal at a glance", _OF_JOURNAL, Overview),
    "series": ("Columns over time for one application", (*_OF_APPLICATION, "points"), Series),
    "pool": ("Executors over time", (*_OF_RANGE, "points"), Series),
    "operators": ("Operators of one application over the range", _OF_APPLICATION, list[OperatorLoad]),
    "timeline": ("Decisions and holds", _OF_RANGE, list[Moment]),
    "classes": ("Service classes and shares", _OF_JOURNAL, list[ClassNow]),
    "cost": ("Cost of the pool, compared with a fixed one", _OF_RANGE, Cost),
    "lag": ("Backlog by partition of the source", ("journal", "application"), list[Lag]),
}


_Executors = Annotated[int, Field(ge=1, le=100_000)]


class SteerBody(BaseModel):
    """A request to the controller."""

    model_config = ConfigDict(extra="forbid", strict=True)

    act: Literal["pause", "resume", "mode", "bounds", "apply"]
    who: Annotated[str, Field(min_length=1, max_length=80, pattern=r"^[^\x00-\x1f\x7f]+$")]
    """Who makes the request; recorded in the journal."""
    mode: Literal["off", "recommend", "apply"] | None = None
    """With `mode`."""
    min: _Executors | None = None
    """With `bounds`."""
    max: _Executors | None = None
    step: Annotated[int, Field(ge=0, le=2**53)] | None = None
    """With `apply`: the step whose recommendation to apply."""


class Answer(BaseModel):
    """The request was accepted."""

    accepted: str


class ApiProblem(BaseModel):
    """What was wrong, and what to do."""

    model_config = ConfigDict(title="Problem")

    error: str


def description() -> dict[str, Any]:
    """The OpenAPI document."""
    schemas: dict[str, Any] = {}
    paths: dict[str, Any] = {}
    for name, (words, parameters, answer) in READS.items():
        paths[f"/api/v1/{name}"] = {"get": _get(name, words, [_query(one) for one in parameters], answer, schemas)}
    number = {"name": "number", "in": "path", "required": True, "description": "Number of the step in the journal."}
    number["schema"] = {"type": "integer", "minimum": 0, "maximum": 2**53}
    words = "One decision in full: reasons, prediction, outcome"
    paths["/api/v1/decisions/{number}"] = {
        "get": _get("decision", words, [number, _query("journal")], DecisionDetail, schemas)
    }
    fleet = _get("fleet", "Hosts, regions and applications of a fleet; null without one", [], FleetNow | None, schemas)
    fleet["responses"] |= _problems(schemas, 503)
    paths["/api/v1/fleet"] = {"get": fleet}
    paths["/api/v1/steer"] = {
        "post": {
            "operationId": "steer",
            "summary": "Send a request to the running controller",
            "security": [{"token": []}],
            "requestBody": {"required": True, "content": _json(_schema(SteerBody, schemas))},
            "responses": {
                "202": {"description": "Accepted for the next step", "content": _json(_schema(Answer, schemas))},
                **_problems(schemas, 400, 401, 403, 409, 415),
            },
        }
    }
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Tidegate",
            "version": version("tidegate"),
            "description": "What a Tidegate controller observed, decided and did. Times are seconds since 1970.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _get(name: str, words: str, parameters: list[dict[str, Any]], answer: Any, schemas: dict[str, Any]) -> Any:
    return {
        "operationId": name,
        "summary": words,
        "parameters": parameters,
        "responses": {
            "200": {"description": words, "content": _json(_schema(answer, schemas))},
            **_problems(schemas, 400, 401, 403, 404),
        },
    }


def _query(name: str) -> dict[str, Any]:
    return {"name": name, "in": "query", "required": False, **PARAMETERS[name]}


def _problems(schemas: dict[str, Any], *codes: int) -> dict[str, Any]:
    words = {
        400: "The request is invalid",
        401: "The token is missing or wrong",
        403: "Not allowed from this site or without a token",
        404: "Not found",
        409: "Not possible at the moment",
        415: "Not JSON",
        503: "The fleet does not answer",
    }
    content = _json(_schema(ApiProblem, schemas))
    return {str(code): {"description": words[code], "content": content} for code in codes}


def _json(schema: dict[str, Any]) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}


def _schema(kind: Any, schemas: dict[str, Any]) -> dict[str, Any]:
    found = TypeAdapter(kind).json_schema(ref_template="#/components/schemas/{model}")
    schemas |= found.pop("$defs", {})
    if isinstance(kind, type) and found.get("type") == "object":
        schemas[found["title"]] = found
        return {"$ref": f"#/components/schemas/{found['title']}"}
    return dict(found)
