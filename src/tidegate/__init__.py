"""Tidegate keeps Spark Structured Streaming applications inside their latency objectives.

>>> import tidegate
>>> callable(tidegate.attach)
True
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tidegate.adapters.spark.attach import Gate, attach
    from tidegate.adapters.spark.topology import Topology

__version__ = "0.2.0"
__all__ = ["Gate", "Topology", "__version__", "attach"]

_SPARK_SIDE = {
    "attach": "tidegate.adapters.spark.attach",
    "Gate": "tidegate.adapters.spark.attach",
    "Topology": "tidegate.adapters.spark.topology",
}


def __getattr__(name: str) -> Any:
    """Load the Spark side on first use, so that the core works where pyspark does not."""
    if name in _SPARK_SIDE:
        from importlib import import_module

        return getattr(import_module(_SPARK_SIDE[name]), name)
    raise AttributeError(f"module 'tidegate' has no attribute {name!r}")
