"""A class-data archive for the executors of embedded clusters: the JVM maps Spark's classes instead of loading them.

The archive belongs to one Java and one Spark. It is made when they are first used together, by an executor that runs
what most jobs use and writes the archive when it ends. If that fails, executors start without one, and it is not tried
again. `TIDEGATE_CLASS_ARCHIVE=off` switches archives off.

    python -m tidegate.adapters.spark.classarchive FILE
"""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pyspark

logger = logging.getLogger("tidegate")

SWITCH = "TIDEGATE_CLASS_ARCHIVE"
_LIMIT_S = 180.0
_WRITING_S, _SETTLED_S = 60.0, 2.0


def archive_option(java: str, flags: str) -> str:
    """The JVM option for executors started with these flags; empty without an archive.

    `java`: the full version of the Java that runs them.
    """
    if os.environ.get(SWITCH) == "off":
        return ""
    try:
        archive = _folder(java, flags) / "executor.jsa"
        if not archive.parent.exists():
            _make(archive)
    except (OSError, RuntimeError) as error:  # without a home folder, Path.home() raises the latter
        logger.debug("executors start without a class archive: %s", error)
        return ""
    return f'"-XX:SharedArchiveFile={archive}"' if archive.exists() else ""


def kept_folder() -> Path:
    """Where files are kept that outlive a process: the user's cache."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tidegate"


def _folder(java: str, flags: str) -> Path:
    made_for = f"{java} {flags} {pyspark.__version__} {pyspark.__file__}"
    return kept_folder() / f"classes-{hashlib.sha256(made_for.encode()).hexdigest()[:12]}"


def _make(archive: Path) -> None:
    """In a process of its own. The folder appears when it is done, with or without an archive."""
    logger.warning("first start with this Java and this Spark: making a class archive, once (about 20 s)")
    archive.parent.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=f"{archive.parent.name}-", dir=archive.parent.parent))
    command = [sys.executable, "-m", "tidegate.adapters.spark.classarchive", str(draft / archive.name)]
    try:
        environment = {**os.environ, SWITCH: "off"}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=_LIMIT_S, check=False)
        if done.returncode:
            logger.warning("executors start without a class archive: %s", (done.stderr.splitlines() or [""])[-1])
    except subprocess.TimeoutExpired:
        logger.warning("executors start without a class archive: making it took longer than %.0f s", _LIMIT_S)
    try:
        draft.rename(archive.parent)
    except OSError:  # another process was faster
        shutil.rmtree(draft, ignore_errors=True)


def main(target: Path) -> None:
    """Run an executor that writes its classes to this file when it ends."""
    from pyspark.sql import functions as F

    from tidegate.adapters.spark.embedded import JAVA, embedded_session
    from tidegate.adapters.spark.warmup import rehearsal

    draft = target.with_name("draft.jsa")
    flags = {"spark.executor.extraJavaOptions": f'{JAVA} "-XX:ArchiveClassesAtExit={draft}"'}
    spark = embedded_session("tidegate-class-archive", 1, 1, slots=2, settings=flags)
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    rehearsal(spark).collect()
    with tempfile.TemporaryDirectory(prefix="tidegate-classes-") as folder:
        spark.range(0, 1000, 1, 2).withColumn("key", F.col("id") % 8).write.parquet(f"{folder}/rows")
        rows = spark.readStream.schema("id long, key long").parquet(f"{folder}/rows").groupBy("key").count()
        writer = rows.writeStream.format("noop").outputMode("update").trigger(availableNow=True)
        writer.option("checkpointLocation", f"{folder}/checkpoint").start().awaitTermination()
    spark.stop()
    _await_written(draft)
    draft.rename(target)


def _await_written(file: Path) -> None:
    """The executor writes while it ends, and nobody tells when it has ended: wait until the file stops growing."""
    deadline_s, size, since_s = time.monotonic() + _WRITING_S, -1, time.monotonic()
    while time.monotonic() < deadline_s and (size <= 0 or time.monotonic() - since_s < _SETTLED_S):
        now = file.stat().st_size if file.exists() else 0
        if now != size:
            size, since_s = now, time.monotonic()
        time.sleep(0.1)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
