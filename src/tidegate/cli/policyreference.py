"""The reference page of the policy file, made from the model so that it cannot go stale."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import Any, get_origin

from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from tidegate.domain.policy import FIXED_WHILE_RUNNING, Policy
from tidegate.domain.retired import RETIRED, RETIRED_OF_APPLICATIONS, RETIRED_OF_EXECUTORS
from tidegate.domain.section import Retired

_OPENING = """\
# The policy file

State what you want kept and what may be spent; Tidegate chooses the knob. Three lines suffice:

```yaml
mode: apply
objective: {latency_s: 10, percentile: 0.99}
executors: {min: 1, max: 4}
```

Everything else has a default. A longer one:

```yaml
mode: apply
timezone: Europe/Berlin
objective: {latency_s: 10, percentile: 0.99}
executors:
  min: 1
  max: 4
  price_per_hour: 0.5
  budget_per_day: 40
  minimum:
    - {cron: "0 7 * * 1-5", for: 3h, executors: 4}        # ready for the morning
classes:
  gold: {latency_s: 5, violations: 0.05, window_s: 60, weight: 6, floor: 0.1}
applications:
  orders: {class: gold}
  backfill: {ignore: true}
freeze:
  - {cron: "0 18 * * 5", for: 62h, reason: weekend}
knobs: {parallelism: false}
```

`tidegate policy FILE` checks a file. All problems are reported at once, one per line, with the line of the file and
what to write. `tidegate policy FILE --json` prints the policy with all defaults filled in. This page is made by
`tidegate policy --reference`.

## Settings

| setting | default | allowed | meaning |
|---|---|---|---|
"""

_NOTES = """
## Objectives and classes

An application's objective is its own; what that leaves out is its class's, and what the class leaves out is
`objective`. A class that no application uses is an error, and so is an application whose class is not defined.

## Times

`cron` has five fields: minute (0–59), hour (0–23), day of the month (1–31), month (1–12 or `jan`–`dec`) and day of
the week (0–7 or `sun`–`sat`; 0 and 7 are Sunday). A field is `*`, a number, a range `1-5`, a list `1,3,5` or a step
`*/15`. If both days are restricted, either suffices. Durations are written `90s`, `15m`, `3h` or `2d`, and count
elapsed time. Cron lines are read in `timezone`. A start that clocks skip in spring happens when they jump; a start
that they show twice in autumn happens twice.

In a freeze nothing disruptive is done: no shrink, no restart, no move of state. Executors may be added unless the
freeze says `growth: false`. Admission at a gate and shares stay in use, since they pause nothing. In the simulator
second 0 is midnight of Thursday, 1 January 1970.

## Money

`budget_per_day` limits the executor-hours of a day, from midnight to midnight in `timezone`. `executors.min` is paid
for first, to the end of the day; what is left buys more executors, each for at least an hour. A minimum, scheduled or
not, is kept even when the money is gone. With `price_per_hour` left at 1 the budget is in executor-hours.

## Changing it while a job runs

A policy that was given as a file is read again when the file changes. An invalid file changes nothing and is reported
once. These settings take effect at the next start: FIXED.

## From older files

An older file is refused with a message for each of these settings.

| setting | what to do |
|---|---|
"""


def policy_reference() -> str:
    """Markdown for docs/policy.md."""
    settings = [f"| `{name}` | {default} | {allowed} | {text} |" for name, default, allowed, text in _settings(Policy)]
    fixed = ", ".join(f"`{name}`" for name in FIXED_WHILE_RUNNING)
    former = [f"| `{name}` | {text} |" for name, text in _former()]
    return _OPENING + "\n".join(settings) + "\n" + _NOTES.replace("FIXED", fixed) + "\n".join(former) + "\n"


def _settings(model: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, str, str, str]]:
    schema = model.model_json_schema()
    for key, field in model.model_fields.items():
        name = field.alias or key
        section = _section(field.annotation)
        if section is not None:
            kind = get_origin(field.annotation)
            inner = ".NAME." if kind is dict else "[]." if kind is tuple else "."
            yield from _settings(section, f"{prefix}{name}{inner}")
            continue
        default = field.get_default(call_default_factory=True)
        shown = "required" if default is PydanticUndefined else "—" if default in {None, ""} else f"`{_plain(default)}`"
        yield prefix + name, shown, _allowed(schema["properties"][name], schema), field.description or ""


def _former() -> Iterator[tuple[str, str]]:
    sections: tuple[tuple[str, Retired], ...] = (
        ("", RETIRED),
        ("executors.", RETIRED_OF_EXECUTORS),
        ("applications.NAME.", RETIRED_OF_APPLICATIONS),
    )
    for prefix, retired in sections:
        for name, instead in retired.items():
            inner = {name: instead} if isinstance(instead, str) else {f"{name}.{key}": s for key, s in instead.items()}
            for setting, text in inner.items():
                yield prefix + setting, text.replace("{value}", "VALUE")


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
    if isinstance(value, bool):
        return str(value).lower()
    return str(value.value) if isinstance(value, Enum) else f"{value:g}" if isinstance(value, float) else str(value)


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
