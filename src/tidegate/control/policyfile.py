"""Reads YAML into a validated model and reports every problem at once, each with its line and what is allowed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from tidegate.domain import InvalidInput, PolicyInvalid
from tidegate.domain.policy import Policy

M = TypeVar("M", bound=BaseModel)


def load_policy(path: str | Path | None) -> Policy:
    """The policy in a file, or the default policy where there is none."""
    return Policy() if path is None else load_model(path, Policy)


def policy_from(settings: Policy | Mapping[str, Any]) -> Policy:
    """A policy from a mapping with the same keys as the file, or the policy itself."""
    if isinstance(settings, Policy):
        return settings
    return _validated(dict(settings), Policy, "policy", None)


def load_model(path: str | Path, model: type[M]) -> M:
    """Read a YAML file into a model."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{path}: cannot be read ({error})") from None
    return parse_model(text, model, str(path))


def parse_model(text: str, model: type[M], source: str) -> M:
    """Validate YAML text as a whole.

    >>> parse_model("executors: {min: 5, max: 2}", Policy, "policy.yaml")
    Traceback (most recent call last):
    tidegate.domain.errors.PolicyInvalid: policy.yaml: line 1: executors: min 5 is above max 2
    """
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        data = yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}: " if mark else ""
        raise PolicyInvalid(source, (f"{where}not YAML: {getattr(error, 'problem', error)}",)) from None
    if data is None:
        data = {}
    if not isinstance(data, dict):
        raise PolicyInvalid(source, ("line 1: must be a mapping of settings",))
    return _validated(data, model, source, node)


def _validated(data: dict[str, Any], model: type[M], source: str, node: yaml.Node | None) -> M:
    try:
        return model.model_validate(data)
    except ValidationError as error:
        raise PolicyInvalid(source, tuple(_problem(found, node, model) for found in error.errors())) from None


def line_of(node: yaml.Node | None, path: tuple[int | str, ...]) -> int:
    """The line on which the value at `path` stands, or that of the nearest thing above it that exists."""
    line = node.start_mark.line + 1 if node else 1
    for part in path:
        if isinstance(node, yaml.MappingNode):
            found = next(((key, value) for key, value in node.value if key.value == str(part)), None)
            if found is None:
                break
            line, node = found[0].start_mark.line + 1, found[1]
        elif isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
            node = node.value[part]
            line = node.start_mark.line + 1
        # A part of the path that is no key (the tag of a union) is passed over.
    return line


def _problem(found: Any, node: yaml.Node | None, model: type[BaseModel]) -> str:
    path = tuple(found["loc"])
    name = ".".join(str(part) for part in path) or "file"
    message = str(found["msg"]).removeprefix("Value error, ")
    if found["type"] == "extra_forbidden":
        message = f"unknown setting; allowed here: {', '.join(_allowed(model, path[:-1]))}"
    elif found.get("input") is not None and not isinstance(found["input"], dict | list):
        message = f"{message}, not {found['input']!r}"
    return f"{name}: {message}" if node is None else f"line {line_of(node, path)}: {name}: {message}"


def _allowed(model: type[BaseModel], path: tuple[int | str, ...]) -> list[str]:
    """The settings that a section may hold, found by walking the model along the path."""
    for part in path:
        field = model.model_fields.get(str(part))
        candidates = [field.annotation] if field else []
        while candidates:
            candidate = candidates.pop()
            if isinstance(candidate, type) and issubclass(candidate, BaseModel):
                model = candidate
                break
            candidates.extend(getattr(candidate, "__args__", ()))
    return sorted(model.model_fields)
