"""`tidegate policy`: check a policy file, or show every setting there is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml
from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from tidegate.cli import output
from tidegate.control.policyfile import load_policy
from tidegate.domain.policy import Policy


def policy(
    file: Annotated[Path | None, typer.Argument(help="A policy file to check; without it, the defaults.")] = None,
    reference: Annotated[bool, typer.Option(help="Print the reference of every setting, as Markdown.")] = False,
    json: output.Json = False,
) -> None:
    """Check a policy file and show the policy that results.

    Example: tidegate policy examples/policy.yaml
    """
    if reference:
        typer.echo(policy_reference(), nl=False)
        return
    effective = load_policy(file).model_dump(mode="json")
    if json:
        output.print_json(effective)
    else:
        typer.echo(yaml.safe_dump(effective, sort_keys=False), nl=False)


def policy_reference() -> str:
    """Markdown for docs/policy.md, made from the model so that it cannot go stale."""
    lines = [
        "# The policy file",
        "",
        "YAML, validated whole: every error is reported at once, with its line and what is allowed.",
        "All settings have defaults; an empty file is a policy. This page is made by `tidegate policy --reference`.",
        "",
        "| setting | default | allowed | meaning |",
        "|---|---|---|---|",
    ]
    lines += [f"| `{name}` | {default} | {allowed} | {text} |" for name, default, allowed, text in _settings(Policy)]
    return "\n".join(lines) + "\n"


def _settings(model: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, str, str, str]]:
    schema = model.model_json_schema()
    for name, field in model.model_fields.items():
        section = _section(field.annotation)
        if section is not None:
            named = name in {"applications", "classes"}
            yield from _settings(section, f"{prefix}{name}.{'<name>.' if named else ''}")
            continue
        default = field.get_default(call_default_factory=True)
        shown = "required" if default is PydanticUndefined else "—" if default is None else f"`{_plain(default)}`"
        yield prefix + name, shown, _allowed(schema["properties"][name], schema), field.description or ""


def _section(annotation: Any) -> type[BaseModel] | None:
    """The model inside an annotation such as `Rule | None` or `dict[str, Rule]`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    for part in getattr(annotation, "__args__", ()):
        found = _section(part)
        if found is not None:
            return found
    return None


def _plain(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _allowed(schema: dict[str, Any], root: dict[str, Any]) -> str:
    if "$ref" in schema:
        schema = {**root["$defs"][schema["$ref"].rsplit("/", 1)[-1]], **schema}
    if "allOf" in schema:
        return _allowed(schema["allOf"][0], root)
    if "anyOf" in schema:
        return " or ".join(_allowed(option, root) for option in schema["anyOf"] if option.get("type") != "null")
    if "enum" in schema:
        return ", ".join(schema["enum"])
    if "const" in schema:
        return str(schema["const"])
    bounds = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}
    limits = [f"{sign} {schema[key]:g}" for key, sign in bounds.items() if key in schema]
    return " ".join([str(schema.get("type", "")), *limits]).strip()
