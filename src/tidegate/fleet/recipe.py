"""Finds the function that builds an application: `module:function`, or `path/to/file.py[:function]`."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from functools import partial
from pathlib import Path
from types import ModuleType

from pyspark import cloudpickle

from tidegate.adapters.spark.restartablequery import Build
from tidegate.domain import InvalidInput
from tidegate.fleet.vocabulary import ApplicationSpec

_DEFAULT = "build"


def load_build(spec: ApplicationSpec) -> Build:
    """The application's `build(spark, settings)`, with its arguments filled in."""
    place, _, function = spec.build.rpartition(":") if ":" in spec.build else (spec.build, "", _DEFAULT)
    module = _from_file(Path(place)) if place.endswith(".py") else _from_name(place)
    build = getattr(module, function, None)
    if not callable(build):
        raise InvalidInput(f"{spec.build}: {place} has no function {function}(spark, settings)")
    return partial(build, **spec.arguments) if spec.arguments else build


def _from_name(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except Exception as error:
        raise InvalidInput(f"{name}: cannot be imported: {type(error).__name__}: {error}") from None


def _from_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise InvalidInput(f"{path}: no such file")
    name = f"tidegate_recipe_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise InvalidInput(f"{path}: not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and pickling look it up there
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise InvalidInput(f"{path}: cannot be imported: {type(error).__name__}: {error}") from None
    # The Python workers were started before this file was known, so they cannot import it.
    cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
    return module
