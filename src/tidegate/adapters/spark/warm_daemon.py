"""Python workers that start warm, because the daemon they are forked from has already imported their libraries.

Spark forks its Python workers from one daemon per executor, which by itself imports almost nothing. All workers of a
new executor then import pyarrow and other libraries at the same time, on cores that the running job needs. With
`spark.python.daemon.module` set to this module, a new executor imports them once.
"""

import gc
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
        except Exception as error:  # a worker that needs it will report it; others do not need it
            print(f"tidegate: workers start without {module}: {error}", file=sys.stderr)
    # PySpark collects garbage after every task. In workers with these libraries that takes 40 ms of CPU each time,
    # unless what the daemon has imported is exempt.
    gc.collect()
    gc.freeze()
    runpy.run_module("pyspark.daemon", run_name="__main__")
