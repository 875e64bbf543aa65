"""Reads YAML into a validated model. Reports every problem at once, each with its line and the fix."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from copy import deepcopy
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from tidegate.domain import InvalidInput, PolicyInvalid
from tidegate.domain.misfit import MISFIT
from tidegate.domain.section import Section

M = TypeVar("M", bound=BaseModel)
Where = tuple[int | str, ...]
Problem = tuple[Where, str]
"""The path of a setting, and what is wrong with it."""
_PLAIN = {"missing": "is missing", "model_type": "must hold settings", "dict_type": "must hold settings by name"}


def load_model(path: str | Path, model: type[M]) -> M:
    """Read a YAML file into a model."""
    return parse_model(read_text(path), model, str(path))


def read_text(path: str | Path) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{path}: cannot be read ({error})") from None


def parse_model(text: str, model: type[M], source: str) -> M:
    """Validate YAML text as a whole.

    >>> from tidegate.domain.policy import Policy
    >>> parse_model("executors: {min: 5, max: 2}\\nobjectiv: 3", Policy, "policy.yaml")
    Traceback (most recent call last):
    tidegate.domain.errors.PolicyInvalid: policy.yaml: line 1: executors.min: 5 is above max 2
    policy.yaml: line 2: objectiv: unknown setting; did you mean objective?
    """
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        data = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # an invalid date raises ValueError
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}: " if mark else ""
        said = (
            "nested too deeply" if isinstance(error, RecursionError) else getattr(error, "problem", None) or str(error)
        )
        raise PolicyInvalid(source, (f"{where}not YAML: {' '.join(said.split())}",)) from None
    if not isinstance(data, dict | None):
        raise PolicyInvalid(source, ("line 1: must be a mapping of settings",))
    made, problems = validated(data or {}, model)
    lined = [(line_of(node, where), _text(where, said)) for where, said in problems]
    lined += list(_repeated(node))
    if made is None or lined:
        raise PolicyInvalid(source, tuple(f"line {line}: {said}" for line, said in sorted(lined)))
    return made


def from_mapping(data: Mapping[str, Any], model: type[M], source: str) -> M:
    """Validate a mapping as if it came from a file."""
    made, problems = validated(dict(data), model)
    if made is None:
        raise PolicyInvalid(source, tuple(_text(where, said) for where, said in problems))
    return made


def validated(data: dict[str, Any], model: type[M]) -> tuple[M | None, list[Problem]]:
    """The model, or everything that is wrong.

    Settings that depend on each other are compared only once each is valid by itself. Invalid settings are therefore
    removed and the rest is validated again, until no new errors appear.
    """
    problems: list[Problem] = []
    rest = deepcopy(data)
    while True:
        try:
            made = model.model_validate(rest)
            return (None if problems else made), problems
        except ValidationError as error:
            errors = error.errors()
        known = {where for where, _ in problems}
        for found in errors:
            if found["type"] == "too_short" and _has_inner(found, errors):
                continue  # items are present, but wrong
            # A setting that was removed is now missing, which is not an error.
            problems += [(where, said) for where, said in _problems(found, model, known) if where not in known]
        taken = [_take_out(rest, where) for found in errors for where in _causes(found)]
        if not any(taken):
            return None, problems


def line_of(node: yaml.Node | None, path: Where) -> int:
    """The line of the value at `path`, or of its nearest ancestor that exists."""
    line = node.start_mark.line + 1 if node else 1
    for part in path:
        if isinstance(node, yaml.MappingNode):
            # If a key is present twice, YAML takes the last.
            found = next(((key, value) for key, value in reversed(node.value) if key.value == str(part)), None)
            if found is None:
                break
            line, node = found[0].start_mark.line + 1, found[1]
        elif isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
            node = node.value[part]
            line = node.start_mark.line + 1
        # A part of the path that is not a key (the tag of a union) is skipped.
    return line


def _text(where: Where, said: str) -> str:
    return f"{'.'.join(str(part) for part in where) or 'file'}: {said}"


def _has_inner(found: Any, errors: Sequence[Any]) -> bool:
    where = found["loc"]
    return any(len(other["loc"]) > len(where) and other["loc"][: len(where)] == where for other in errors)


def _causes(found: Any) -> list[Where]:
    """The settings that cause an error."""
    where = tuple(found["loc"])
    return [where + misfit.path for misfit in found["ctx"]["misfits"]] if found["type"] == MISFIT else [where]


def _problems(found: Any, model: type[BaseModel], known: Collection[Where]) -> Iterator[Problem]:
    """Translate one validation error for the reader."""
    where, value = tuple(found["loc"]), found.get("input")
    if found["type"] == MISFIT:
        for misfit in found["ctx"]["misfits"]:
            # A name may look undefined or unused because its counterpart was invalid and has been removed.
            if misfit.needs is None or not _wrong(where + misfit.needs, known):
                yield where + misfit.path, misfit.text
    elif found["type"] == "extra_forbidden":
        yield from _unknown(where, value, model)
    elif close := _close(found):
        yield where, f"{value!r} is unknown; did you mean {close}?"
    else:
        said = _PLAIN.get(found["type"]) or str(found["msg"]).removeprefix("Value error, ").removeprefix("Input ")
        plain = value is not None and not isinstance(value, dict | list)
        yield where, f"{said}, not {value!r}" if plain and repr(value) not in said else said


def _close(found: Any) -> str | None:
    """The allowed value closest to a misspelt one."""
    expected = re.findall(r"'([^']+)'", str(found.get("ctx", {}).get("expected", "")))
    return next(iter(get_close_matches(str(found.get("input")), expected, n=1)), None)


def _wrong(where: Where, known: Collection[Where]) -> bool:
    """Is this setting wrong, or one inside it, or one around it?"""
    return any(where[: len(other)] == other or other[: len(where)] == where for other in known)


def _unknown(where: Where, value: Any, model: type[BaseModel]) -> Iterator[Problem]:
    """A setting that does not exist: from an earlier version, misspelt, or neither."""
    section, name = _section_at(model, where[:-1]), str(where[-1])
    instead = section.retired.get(name) if issubclass(section, Section) else None
    if isinstance(instead, str):
        yield where, instead.replace("{value}", _inline(value))
    elif instead is not None:
        inner = value if isinstance(value, dict) and value else {}
        for key, setting in inner.items():
            said = instead.get(str(key), "no longer a setting. Remove it.")
            yield (*where, str(key)), said.replace("{value}", _inline(setting))
        if not inner:
            yield where, "no longer a section. Remove it."
    else:
        allowed = sorted(field.alias or key for key, field in section.model_fields.items())
        close = get_close_matches(name, allowed, n=1)
        meant = f"did you mean {close[0]}?" if close else f"allowed here: {', '.join(allowed)}"
        yield where, f"unknown setting; {meant}"


def _inline(value: Any) -> str:
    """A value as it is written inside `{}`."""
    return yaml.safe_dump(value, default_flow_style=True, width=10_000).removesuffix("...\n").strip()


def _section_at(model: type[BaseModel], path: Where) -> type[BaseModel]:
    """The section at the end of a path, found by following the path through the model."""
    for part in path:
        field = model.model_fields.get(str(part))
        candidates = [field.annotation] if field else []
        while candidates:
            candidate = candidates.pop()
            if isinstance(candidate, type) and issubclass(candidate, BaseModel):
                model = candidate
                break
            candidates.extend(getattr(candidate, "__args__", ()))
    return model


def _take_out(data: Any, where: Where) -> bool:
    """Remove the setting at a path, or the nearest enclosing one outside lists. False if there is none."""
    around: tuple[dict[Any, Any], Any] | None = None
    for part in where:
        if isinstance(data, dict):
            key = next((key for key in data if str(key) == str(part)), None)
            if key is None:
                continue  # a missing setting, or the tag of a union
            around, data = (data, key), data[key]
        elif isinstance(data, list) and isinstance(part, int) and part < len(data):
            data = data[part]
    if around is None:
        return False
    del around[0][around[1]]
    return True


def _repeated(node: yaml.Node | None) -> Iterator[tuple[int, str]]:
    """Keys that appear twice in a mapping: YAML would silently take the last."""
    waiting: list[tuple[yaml.Node, str]] = [(node, "")] if node else []
    seen: set[int] = set()
    while waiting:
        one, path = waiting.pop()
        if id(one) in seen:  # an alias, perhaps of an enclosing node
            continue
        seen.add(id(one))
        if isinstance(one, yaml.SequenceNode):
            waiting += [(item, f"{path}{place}.") for place, item in enumerate(one.value)]
        if isinstance(one, yaml.MappingNode):
            first: dict[str, int] = {}
            for key, value in one.value:
                name, line = str(key.value), key.start_mark.line + 1
                if name in first:
                    yield line, f"{path}{name}: written twice, first on line {first[name]}: remove one"
                first.setdefault(name, line)
                waiting.append((value, f"{path}{name}."))
