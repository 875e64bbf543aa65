"""Runs `tidegate` as a fresh process would, many times for the price of one start.

The process that is started here knows the command line, with or without the laboratory, and nothing else. For every
command it forks, and the child blocks what is said to be missing before it runs. Nothing that one command loads is
there for the next.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

_SERVER = """
import json, os, sys, tempfile

if sys.argv[1:] == ["without-laboratory"]:
    from importlib import metadata
    points = metadata.entry_points
    def without(**wanted):
        return metadata.EntryPoints(point for point in points(**wanted) if not point.value.startswith("tidegate_lab"))
    metadata.entry_points = without
    sys.modules["tidegate_lab"] = None

import tidegate.cli

def run(arguments, missing, out, err):
    os.dup2(out, 1)
    os.dup2(err, 2)
    for name in missing:
        assert name not in sys.modules, f"{name} is loaded with the command line"
        sys.modules[name] = None
    sys.argv = ["tidegate", *arguments]
    tidegate.cli.main()

for line in sys.stdin:
    arguments, missing, folder = json.loads(line)
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        child = os.fork()
        if child == 0:
            os.chdir(folder)
            run(arguments, missing, out.fileno(), err.fileno())
            sys.exit()
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read().decode())
    print(json.dumps([code, *texts]), flush=True)
"""


@dataclass(frozen=True, slots=True)
class Told:
    """How a command ended, and what it wrote."""

    returncode: int
    stdout: str
    stderr: str


class FreshCommands:
    """A process that forks for every command."""

    def __init__(self, laboratory: bool) -> None:
        self._command = [sys.executable, "-c", _SERVER, *([] if laboratory else ["without-laboratory"])]

    def __enter__(self) -> FreshCommands:
        self._server = subprocess.Popen(self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.communicate(timeout=60)

    def run(self, *arguments: str, folder: Path, missing: tuple[str, ...] = ()) -> Told:
        """Run `tidegate ARGUMENTS` in a folder, with some modules not to be found."""
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._server.stdin.write(json.dumps([arguments, missing, str(folder)]) + "\n")
        self._server.stdin.flush()
        return Told(*json.loads(self._server.stdout.readline()))
