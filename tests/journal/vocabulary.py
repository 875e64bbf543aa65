"""Any value of the vocabulary, from its type hints alone: new fields and types are covered as they come."""

from __future__ import annotations

import types
import typing
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any, Literal, get_args, get_origin, get_type_hints

from hypothesis import strategies as st

from tidegate.domain import Decision, LatencySample, Observation, Receipt

_FLOATS = st.one_of(
    st.integers(0, 20_000).map(lambda value: value / 10_000),
    st.integers(0, 10**7).map(lambda value: 1.7e9 + value / 1000),
    st.floats(allow_nan=False),
    st.just(-0.0),
)
_INTEGERS = st.one_of(st.integers(0, 5), st.integers(), st.just(2**63), st.just(2**53))
_TEXTS = st.one_of(
    st.sampled_from(["", "words", "a: 300 rows/s × 1.35 ms", "007", "\x1a0"]),
    st.tuples(st.integers(0, 999), st.floats(0, 9)).map(lambda pair: f"{pair[0]} rows, {pair[1]:.2f} ms"),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=12),
)
_PLAIN: dict[Any, st.SearchStrategy[Any]] = {
    float: _FLOATS,
    int: _INTEGERS,
    str: _TEXTS,
    bool: st.booleans(),
    type(None): st.none(),
}


def values_of(hint: Any) -> st.SearchStrategy[Any]:
    """Values that fit a type hint."""
    if hint in _PLAIN:
        return _PLAIN[hint]
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Literal:
        return st.sampled_from(arguments)
    if origin in {typing.Union, types.UnionType}:
        return st.one_of(*map(values_of, arguments))
    if origin is tuple:
        return st.lists(values_of(arguments[0]), max_size=2).map(tuple)
    if origin is Mapping:
        return st.dictionaries(values_of(arguments[0]), values_of(arguments[1]), max_size=2)
    if origin is frozenset:
        return st.frozensets(values_of(arguments[0]), max_size=2)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return st.sampled_from(list(hint))
    assert is_dataclass(hint), hint
    hints = get_type_hints(hint)
    members = {field.name: values_of(hints[field.name]) for field in fields(hint)}
    return st.fixed_dictionaries(members).map(lambda given: _build(hint, given)).filter(lambda value: value is not None)


def _build(kind: Any, given: dict[str, Any]) -> Any:
    if kind is LatencySample:
        names = ("p50_s", "p90_s", "p99_s", "max_s")
        given = {"rows": abs(given["rows"]) + 1, **dict(zip(names, sorted(given[name] for name in names), strict=True))}
    try:
        return kind(**given)
    except ValueError:  # the type refuses the combination
        return None


STEPS = st.lists(
    st.tuples(values_of(Observation), st.none() | values_of(Decision), st.none() | values_of(Receipt)),
    min_size=1,
    max_size=6,
)
"""What a journal is given."""
