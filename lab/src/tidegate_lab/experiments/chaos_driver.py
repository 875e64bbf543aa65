"""The process that the chaos run kills: a driver with two stateful jobs under Tidegate and a supervising script.

python -m tidegate_lab.experiments.chaos_driver ORDERS    ORDERS: a JSON file, see `Orders`

It prints its status as a line of JSON every quarter of a second and accepts commands on standard input: `stop`,
`fail-observing`, `end-control`. It exits when its input ends.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from queue import SimpleQueue
from typing import TextIO

from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from tidegate.adapters.spark.attach import Gate, attach
from tidegate.adapters.spark.embedded import embedded_session
from tidegate.adapters.spark.restartablequery import RestartableQuery
from tidegate.adapters.spark.settings import Settings
from tidegate.domain import QueryFailed
from tidegate.domain.codec import from_json
from tidegate_lab.experiments.chaos_jobs import CHANGELOG, count_job, unique_job

COUNT, UNIQUE = "count", "unique"
_EXECUTORS, _MOST_EXECUTORS, _SLOTS, _MEMORY_MB = 2, 4, 2, 768
_SAY_EVERY_S = 0.25
_FAILED_STEPS = 2


@dataclass(frozen=True, slots=True)
class Orders:
    """What to run."""

    address: str
    topic: str
    folder: str
    journal: str
    run: int
    """Increases with every driver; the sink checks it."""
    jars: str
    settings: dict[str, str] = field(default_factory=dict)

    def sink(self, job: str) -> Path:
        return Path(self.folder) / f"{job}.db"

    def checkpoint(self, job: str) -> str:
        return str(Path(self.folder) / "checkpoints" / job)


class Driver:
    """One job started through the gate, which Tidegate may restart, and one ordinary query."""

    def __init__(self, orders: Orders) -> None:
        self._orders = orders
        settings = {"spark.jars": orders.jars, "spark.ui.enabled": "false", **CHANGELOG, **orders.settings}
        self._spark: SparkSession = embedded_session(
            "tidegate-chaos", _EXECUTORS, _MOST_EXECUTORS, _SLOTS, _MEMORY_MB, settings
        )
        self._steps_before = 0
        self._gate = self._attach()
        self.failures: list[str] = []
        """Why queries had to be restarted."""
        self._count = self._start_count()
        self._unique = self._start_unique()

    def keep_up(self) -> None:
        """Restart what has ended."""
        if not self._gate.running:
            self._steps_before += self._gate.runner.steps
            self._gate = self._attach()
        try:
            ended = self._count.await_end(0.01)
        except QueryFailed as error:
            self.failures.append(str(error))
            ended = True
        if ended:
            self._gate.forget(COUNT)
            self._count = self._start_count()
        if not self._unique.isActive:
            self.failures.append(str(self._unique.exception()).splitlines()[0])
            self._unique = self._start_unique()

    @property
    def steps(self) -> int:
        """Control steps, over all attachments."""
        return self._steps_before + self._gate.runner.steps

    def fail_observing(self) -> None:
        """Make the next control steps fail with an error."""
        cluster, left = self._gate.cluster, _FAILED_STEPS

        def failing() -> object:
            nonlocal left
            left -= 1
            if left <= 0:
                del cluster.observe  # restore the class's own method
            raise OSError("injected by the chaos run")

        cluster.observe = failing  # type: ignore[method-assign,assignment]

    def end_control(self) -> None:
        """Kill the control thread."""
        thread = next((one for one in threading.enumerate() if one.name == "tidegate-control"), None)
        if thread is not None and thread.ident is not None:
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident), ctypes.py_object(SystemExit))

    def stop(self) -> None:
        self._count.stop_at_boundary()
        self._unique.stop()
        self._gate.stop()
        self._spark.stop()

    def _attach(self) -> Gate:
        return attach(self._spark, {"journal": {"path": self._orders.journal}})

    def _start_count(self) -> RestartableQuery:
        orders = self._orders
        build = count_job(orders.address, orders.topic, orders.sink(COUNT), orders.run)
        return self._gate.start(COUNT, build, orders.checkpoint(COUNT))

    def _start_unique(self) -> StreamingQuery:
        orders = self._orders
        build = unique_job(orders.address, orders.topic, orders.sink(UNIQUE), orders.run)
        settings = Settings(UNIQUE, checkpoint=orders.checkpoint(UNIQUE))
        return build(self._spark, settings).queryName(UNIQUE).start()


def main(orders: Orders, said: TextIO) -> None:
    words: SimpleQueue[str] = SimpleQueue()
    threading.Thread(target=_listen, args=(words,), daemon=True).start()
    driver = Driver(orders)
    while True:
        while not words.empty():
            word = words.get()
            if word == "stop":
                driver.stop()
                return
            {"fail-observing": driver.fail_observing, "end-control": driver.end_control}[word]()
        driver.keep_up()
        said.write(json.dumps({"steps": driver.steps, "failures": driver.failures}) + "\n")
        said.flush()
        time.sleep(_SAY_EVERY_S)


def _listen(words: SimpleQueue[str]) -> None:
    for line in sys.stdin:
        words.put(line.strip())
    words.put("stop")


def _own_output() -> TextIO:
    """Return the pipe to the parent process. The JVM and its children write to the log instead."""
    said = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    return said


if __name__ == "__main__":
    said = _own_output()
    try:
        main(from_json(Orders, Path(sys.argv[1]).read_text()), said)
    except Exception as error:  # Spark is gone or cannot start: the next driver continues from the checkpoint
        print(f"the driver ends: {type(error).__name__}: {error}", file=sys.stderr)
        os._exit(1)  # do not wait for threads that wait for Spark
