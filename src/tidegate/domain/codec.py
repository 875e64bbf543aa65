"""Exact JSON for the vocabulary. Values read back equal, so a recorded run can be replayed."""

from __future__ import annotations

from collections.abc import Hashable
from functools import lru_cache
from typing import Any, TypeVar, cast

from pydantic import TypeAdapter

T = TypeVar("T")


@lru_cache(maxsize=64)
def _adapter(kind: Hashable) -> TypeAdapter[Any]:
    return TypeAdapter(cast(type[Any], kind))


def to_json(value: Any) -> str:
    """
    >>> from tidegate.domain.action import ScaleExecutors
    >>> to_json(ScaleExecutors(2))
    '{"target":2,"kind":"scale-executors"}'
    """
    return _adapter(cast(Hashable, type(value))).dump_json(value).decode()


def from_json(kind: type[T], text: str | bytes) -> T:
    """
    >>> from tidegate.domain.action import ScaleExecutors
    >>> from_json(ScaleExecutors, '{"target":2}')
    ScaleExecutors(target=2, kind='scale-executors')
    """
    value: T = _adapter(cast(Hashable, kind)).validate_json(text)
    return value


def to_tree(value: Any) -> Any:
    """Return the value as its JSON would read back: mappings, lists, strings, numbers. Infinity and NaN are kept.

    >>> from tidegate.domain.action import ScaleExecutors
    >>> to_tree(ScaleExecutors(2))
    {'target': 2, 'kind': 'scale-executors'}
    """
    return _adapter(cast(Hashable, type(value))).dump_python(value, mode="json")


def from_tree(kind: type[T], tree: Any) -> T:
    """
    >>> from tidegate.domain.action import ScaleExecutors
    >>> from_tree(ScaleExecutors, {"target": 2})
    ScaleExecutors(target=2, kind='scale-executors')
    """
    value: T = _adapter(cast(Hashable, kind)).validate_python(tree)
    return value
