"""Python workers that start warm: the daemon they are forked from has imported their libraries already.

Spark forks its Python workers from one daemon per executor, which by itself has imported next to nothing: every worker
of a new executor then imports pyarrow and its kin at the same time, on the cores that the running job needs. Set
`spark.python.daemon.module` to this module, and a new executor pays that once.
"""

import importlib
import runpy
import sys

_USED_BY_WORKERS = (
    "numpy",
    "pandas",
    "pyarrow",
    "pyspark.worker",
    "pyspark.sql.pandas.serializers",
    "tidegate.adapters.spark.source",
)

if __name__ == "__main__":
    for module in _USED_BY_WORKERS:
        try:
            importlib.import_module(module)
        except Exception as error:  # a worker that needs it will say so; others can do without
            print(f"tidegate: workers start without {module}: {error}", file=sys.stderr)
    runpy.run_module("pyspark.daemon", run_name="__main__")
