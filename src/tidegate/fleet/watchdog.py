"""The dead man's handle of a host: a process beside it that kills it, all of it, when a lease is about to run out.

The agent fences itself, but it lives in the Python process, and the queries run in the JVM beside it: when Python hangs
or dies, the JVM goes on for a while. So the agent tells this process until when the queries may run. When that time
comes without a later one, or the agent is gone without a word, the host's whole process group gets SIGKILL.

Run as a file and with the standard library alone: it has to be small, and to start at once.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path


class Handle:
    """The agent's side: hold on by saying until when."""

    def __init__(self, group: int) -> None:
        command = [sys.executable, "-I", "-S", str(Path(__file__).resolve()), str(group)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)
        self._said: float | None = None

    def allow_until(self, deadline_s: float | None) -> None:
        """The host may live until then on the steady clock; None: as long as it likes (it runs nothing)."""
        if deadline_s == self._said or self._process.stdin is None:
            return
        self._process.stdin.write(f"{'none' if deadline_s is None else repr(deadline_s)}\n".encode())
        self._process.stdin.flush()
        self._said = deadline_s

    def let_go(self) -> None:
        """The host ends in good order: nothing is to be killed."""
        if self._process.stdin is not None:
            with contextlib.suppress(OSError):
                self._process.stdin.write(b"bye\n")
                self._process.stdin.close()
        self._process.wait(5)


def watch(group: int, words: int) -> None:
    """Read deadlines from the file descriptor `words` until the agent says goodbye, or the group has to go."""
    clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    deadline_s: float | None = None
    unread = b""
    while True:
        wait_s = None if deadline_s is None else max(0.0, deadline_s - time.clock_gettime(clock))
        if not select.select([words], [], [], wait_s)[0]:
            break  # the deadline has come
        chunk = os.read(words, 4096)
        if not chunk:
            break  # the agent has gone without a word
        *lines, unread = (unread + chunk).split(b"\n")
        for line in lines:
            if line == b"bye":
                return
            deadline_s = None if line == b"none" else float(line)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


if __name__ == "__main__":
    watch(int(sys.argv[1]), sys.stdin.fileno())
