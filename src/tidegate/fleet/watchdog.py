"""The dead man's switch of a host: a separate process that kills the whole host when a lease is about to expire.

The agent fences itself, but it runs in the Python process, while the queries run in the JVM. When Python hangs or dies,
the JVM goes on for a while. The agent therefore tells this process how long the queries may run. If that time passes
without an extension, or the agent disappears without a message, the host's whole process group gets SIGKILL.

Run as a file, with the standard library only: it must be small and start at once.
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
    """The agent's side: it extends the deadline."""

    def __init__(self, group: int) -> None:
        command = [sys.executable, "-I", "-S", str(Path(__file__).resolve()), str(group)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)
        self._said: float | None = None

    def allow_until(self, deadline_s: float | None) -> None:
        """The host may live until then on the steady clock; None: without limit, because it runs nothing."""
        if deadline_s == self._said or self._process.stdin is None:
            return
        self._process.stdin.write(f"{'none' if deadline_s is None else repr(deadline_s)}\n".encode())
        self._process.stdin.flush()
        self._said = deadline_s

    def let_go(self) -> None:
        """The host ends normally: nothing needs to be killed."""
        if self._process.stdin is not None:
            with contextlib.suppress(OSError):
                self._process.stdin.write(b"bye\n")
                self._process.stdin.close()
        self._process.wait(5)


def watch(group: int, words: int) -> None:
    """Read deadlines from the file descriptor `words` until the agent says goodbye or the group must be killed."""
    clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    deadline_s: float | None = None
    unread = b""
    while True:
        wait_s = None if deadline_s is None else max(0.0, deadline_s - time.clock_gettime(clock))
        if not select.select([words], [], [], wait_s)[0]:
            break  # the deadline has passed
        chunk = os.read(words, 4096)
        if not chunk:
            break  # the agent disappeared without a message
        *lines, unread = (unread + chunk).split(b"\n")
        for line in lines:
            if line == b"bye":
                return
            deadline_s = None if line == b"none" else float(line)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


if __name__ == "__main__":
    watch(int(sys.argv[1]), sys.stdin.fileno())
