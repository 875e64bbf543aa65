"""Compiles our Java classes inside the driver with Janino, which every Spark ships for its generated code."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

_classes: WeakKeyDictionary[Any, dict[str, Any]] = WeakKeyDictionary()


def compiled(gateway: Any, name: str, loader: Any = None) -> Any:
    """The class `tidegate.<name>`, compiled once, because py4j caches methods by class name and would mix up copies.

    `loader` must know the classes that it needs; the default knows those of Spark and of the job.
    """
    known = _classes.setdefault(gateway, {})
    if name not in known:
        known[name] = _cooked(gateway, name, loader).getClassLoader().loadClass(f"tidegate.{name}")
    return known[name]


def bytecodes(gateway: Any, name: str) -> dict[str, bytes]:
    """The compiled class and its inner classes by name, for a jar."""
    return {str(each): bytes(code) for each, code in _cooked(gateway, name, None).getBytecodes().items()}


def _cooked(gateway: Any, name: str, loader: Any) -> Any:
    compiler = gateway.jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(loader or gateway.jvm.java.lang.Thread.currentThread().getContextClassLoader())
    compiler.setTargetVersion(8)  # needed to call static methods of interfaces
    compiler.cook(Path(__file__).with_name(f"{name}.java").read_text())
    return compiler


def new_inside(gateway: Any, name: str, *arguments: Any, loader: Any = None) -> Any:
    """A new object of the class `tidegate.<name>`."""
    given = gateway.new_array(gateway.jvm.java.lang.Object, len(arguments))
    for place, argument in enumerate(arguments):
        given[place] = argument
    return compiled(gateway, name, loader).getConstructors()[0].newInstance(given)
