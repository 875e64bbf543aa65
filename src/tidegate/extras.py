"""Which extra installs which library. `pip install tidegate` alone installs what attaching needs."""

from __future__ import annotations

from importlib.util import find_spec

from tidegate.domain.capability import Capability

_BROUGHT_BY = {
    "spark": ("pyspark", "py4j", "pyarrow", "pandas", "datasketches", "psutil"),
    "console": ("starlette", "uvicorn", "prometheus_client"),
    "otel": ("opentelemetry",),
    "analysis": ("scipy", "sklearn", "river", "matplotlib"),
    "fast": ("numba",),
}


_FOR = {
    "spark": "a PySpark of its own, Python functions, finer latencies",
    "console": "the live page, the API and metrics",
    "otel": "metrics and traces for OpenTelemetry",
    "analysis": "tidegate analyze, figures",
    "fast": "compiled kernels: thousands of applications, long simulations",
}


def extras() -> tuple[Capability, ...]:
    """Which extras are complete here, and what each is for."""
    found = []
    for extra, modules in _BROUGHT_BY.items():
        missing = [module for module in modules if find_spec(module) is None]
        how = f"{_FOR[extra]}: pip install 'tidegate[{extra}]' brings {', '.join(missing)}" if missing else _FOR[extra]
        found.append(Capability(f"[{extra}]", not missing, how))
    return tuple(found)


def how_to_get(module: str | None) -> str | None:
    """What to install if a module is missing; None for a module that no extra installs.

    >>> how_to_get("sklearn.decomposition")
    "scikit-learn is not installed: pip install 'tidegate[analysis]'"
    >>> how_to_get("pyspark.sql")
    "PySpark is not installed: pip install 'tidegate[spark]', or pyspark in the version of your cluster (3.5 to 4.3)"
    >>> how_to_get("json") is None
    True
    """
    package = (module or "").partition(".")[0]
    if package == "confluent_kafka":
        return "confluent-kafka is not installed: pip install tidegate-lab"
    extra = next((extra for extra, packages in _BROUGHT_BY.items() if package in packages), None)
    if extra is None:
        return None
    if package in ("pyspark", "py4j"):
        way = "pip install 'tidegate[spark]', or pyspark in the version of your cluster (3.5 to 4.3)"
        return f"PySpark is not installed: {way}"
    name = {"sklearn": "scikit-learn"}.get(package, package.replace("_", "-"))
    return f"{name} is not installed: pip install 'tidegate[{extra}]'"
