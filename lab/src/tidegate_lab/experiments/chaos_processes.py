"""The driver of the chaos run as seen from outside: its processes, what it says, and how to end and restart it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil

from tidegate.domain import EnvironmentUnfit
from tidegate.domain.codec import to_json
from tidegate_lab.experiments.chaos_driver import Orders

_VICTIM_WAIT_S = 240.0
_STOP_S = 60.0


class DriverProcess:
    """Starts a driver and its successors. All of them are gone when the `with` block ends."""

    def __init__(self, orders: Orders) -> None:
        self._orders = orders
        self._process: subprocess.Popen[str] | None = None
        self._sessions: list[int] = []
        self._steps_before = 0
        self._said: dict[str, Any] = {}
        self.began_s: dict[int, float] = {}
        """When each driver was started, by its number."""
        self.failures: list[str] = []
        """Failures of queries, and drivers that exited on their own."""

    def __enter__(self) -> DriverProcess:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._all():
            process.kill()

    @property
    def steps(self) -> int:
        """Steps of the control in all drivers so far."""
        return self._steps_before + int(self._said.get("steps", 0))

    @property
    def runs(self) -> int:
        return len(self._sessions)

    def start(self) -> None:
        """Start the next driver, which continues where the last one stopped."""
        self._steps_before, self._said = self.steps, {}
        orders = replace(self._orders, run=self.runs + 1)
        self.began_s[orders.run] = time.time()
        folder = Path(orders.folder)
        file = folder / "orders.json"
        file.write_text(to_json(orders))
        command = [sys.executable, "-m", "tidegate_lab.experiments.chaos_driver", str(file)]
        environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"}  # executors and Spark's UI listen only here
        with (folder / "driver.log").open("ab") as log:
            self._process = subprocess.Popen(
                command, text=True, start_new_session=True, env=environment,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log,
            )  # fmt: skip
        self._sessions.append(self._process.pid)
        threading.Thread(target=self._listen, args=(self._process,), daemon=True).start()

    def ensure(self) -> None:
        """Start another driver if the last one has exited."""
        if self._process is not None and self._process.poll() is not None:
            self.failures.append(f"driver {self.runs} ended with {self._process.returncode}")
            self.start()

    def tell(self, word: str) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write(word + "\n")
        self._process.stdin.flush()

    def stop(self) -> None:
        """Stop the driver gracefully."""
        assert self._process is not None
        try:
            self.tell("stop")
            self._process.wait(_STOP_S)
        except BrokenPipeError:
            self.failures.append(f"driver {self.runs} had exited before it was asked to")
        except subprocess.TimeoutExpired:
            self.failures.append(f"driver {self.runs} did not stop within {_STOP_S:g} s")
            self._process.kill()

    def python(self) -> psutil.Process:
        assert self._process is not None
        return psutil.Process(self._process.pid)

    def jvm(self) -> psutil.Process:
        return self._victims("the driver's JVM", lambda words: "org.apache.spark.deploy.SparkSubmit" in words)[0]

    def executors(self) -> list[psutil.Process]:
        return self._victims(
            "an executor", lambda words: any(word.endswith("CoarseGrainedExecutorBackend") for word in words)
        )

    def python_workers(self) -> list[psutil.Process]:
        """Return the processes that run a job's Python functions: the daemon's children, not the daemon."""

        def daemon(words: list[str]) -> bool:
            return any(word.endswith("warm_daemon") for word in words)

        return self._victims("a Python worker", daemon, lambda process: daemon(process.parent().cmdline()))

    def wait_killed(self) -> None:
        """Reap the driver after it was killed."""
        assert self._process is not None
        self._process.wait(_STOP_S)

    def _victims(
        self,
        what: str,
        chosen: Callable[[list[str]], bool],
        fits: Callable[[Any], bool] = lambda _: True,
    ) -> list[psutil.Process]:
        """Processes of this driver, in a fixed order; waits until there is one."""
        deadline_s = time.monotonic() + _VICTIM_WAIT_S
        while time.monotonic() < deadline_s:
            found = []
            for process in self._all(self._sessions[-1:]):
                try:
                    if chosen(process.cmdline()) and fits(process):
                        found.append(process)
                except (psutil.Error, AttributeError):  # it or its parent has ended in the meantime
                    continue
            if found:
                return sorted(found, key=lambda process: process.create_time())
            time.sleep(0.1)
        raise EnvironmentUnfit(f"chaos: no process found to kill for {_VICTIM_WAIT_S:g} s: {what}")

    def _all(self, sessions: list[int] | None = None) -> list[psutil.Process]:
        """Return the processes of these drivers, by default of all. Each driver has its own session."""
        wanted = set(self._sessions if sessions is None else sessions)
        found = []
        for process in psutil.process_iter():
            try:
                if os.getsid(process.pid) in wanted:
                    found.append(process)
            except (OSError, psutil.Error):
                continue
        return found

    def _listen(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        known = 0
        for line in process.stdout:
            if process is self._process and line.endswith("}\n"):  # the last line of a killed process may be truncated
                said = json.loads(line)
                self._said = said
                self.failures += said["failures"][known:]
                known = len(said["failures"])
