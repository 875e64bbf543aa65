"""Coverage-guided fuzzing of all external inputs: no crash, no hang, no unbounded memory.

    pip install atheris        # for CPython 3.11 to 3.13; not among the project's own dependencies
    python benchmarks/fuzz.py [--seconds N] [--only policy,journal] [--out DIR]

Each target starts from a few valid inputs. Errors that the caller reports in one line are allowed. Any other error, an
input that takes longer than ten seconds, or a gigabyte of memory ends the target, and the input is kept in --out
(default: out/fuzz). Prints JSON. The exit code is 1 if something was found.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import re
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import track

_LONGEST_INPUT_S, _MOST_MEGABYTES, _MOST_BYTES = 10, 1024, 8192


@dataclass(frozen=True, slots=True)
class Target:
    """One external input."""

    read: Callable[[bytes], object]
    refusals: tuple[type[Exception], ...]
    """Errors that the reader may raise and its caller handles."""
    seeds: tuple[bytes, ...]


def _targets(folder: Path) -> dict[str, Target]:
    from tests.history.logs import event_log, progress
    from tests.journal.worlds import steps

    from tidegate.adapters.sim.scenariofile import parse_scenario
    from tidegate.control.journal import SqliteJournal, read_entries, read_notes
    from tidegate.control.yamlmodel import parse_model
    from tidegate.domain import InvalidInput
    from tidegate.domain.policy import Policy
    from tidegate.fleet.protocol import Channel, ProtocolError, welcome
    from tidegate.history.eventlog import EventLog
    from tidegate.history.notes import Notes
    from tidegate.history.progress import parse_progress
    from tidegate.load.trace import TraceFile, read_trace

    def policy(data: bytes) -> None:
        parse_model(_text(data), Policy, "policy")

    def scenario(data: bytes) -> None:
        parse_scenario(_text(data))

    def event_lines(data: bytes) -> None:
        log = EventLog(Notes())
        for line in _text(data).splitlines():
            log.take(line)
        log.tables()

    def report(data: bytes) -> None:
        parse_progress(_text(data))

    def trace(data: bytes) -> None:
        path = folder / "trace.csv"
        path.write_bytes(b"time,load\n" + data)
        read_trace.__wrapped__(TraceFile(str(path), "load", None, 0, None), 60.0, "error")

    def greeting(data: bytes) -> None:
        """A handshake from a peer that may not know the token."""
        with _wires(data) as near:
            welcome(near, b"t" * 32, limit_s=1.0)

    def frame(data: bytes) -> None:
        """A body with a valid signature, from a member that may still misbehave."""
        text = data.decode("latin-1")
        signed = Channel(socket.socket(), b"k" * 32, "client", "server")._mac("client", 0, text)
        body = json.dumps({"body": text, "mac": signed}).encode()
        with _wires(struct.pack(">I", len(body)) + body) as near:
            Channel(near, b"k" * 32, "server", "client", frame_s=1.0).receive()

    def journal(data: bytes) -> None:
        path = folder / "journal.db"
        for old in folder.glob("journal.db*"):
            old.unlink()
        path.write_bytes(data)
        for read in (read_entries, read_notes):
            with contextlib.suppress(InvalidInput):  # one may be readable where the other is not
                list(read(path))

    def journal_seed() -> bytes:
        written = SqliteJournal(folder / "seed.db")
        for observation, decision, receipt in steps(3):
            written.record(observation, decision, receipt)
        written.note(1.0, "started", "now")
        written.close()
        return written.path.read_bytes()

    hello = json.dumps({"version": 1, "nonce": "0" * 32}).encode()
    yaml = b"objective: {latency_s: 5}\nexecutors: {min: 1, max: 4}\napplications: {a: {class: x}}\nclasses: {x: {}}\n"
    pool = b"duration_s: 5\npool:\n  applications: [{name: a, load: 8, operators: [{name: w, cost_s_per_row: 0.1}]}]\n"
    peers = (ProtocolError, OSError)
    return {
        "policy": Target(policy, (InvalidInput,), (yaml,)),
        "scenario": Target(scenario, (InvalidInput,), (pool,)),
        "event-log": Target(event_lines, (), ("\n".join(event_log()[:6]).encode(),)),
        "progress": Target(report, (ValueError,), (json.dumps(progress(1)).encode(),)),
        "trace": Target(trace, (InvalidInput,), (b"0,1\n60,2.5\n", b"2025-01-01T00:00:00Z,3\n")),
        "greeting": Target(greeting, peers, (struct.pack(">I", len(hello)) + hello,)),
        "frame": Target(frame, peers, (b'{"id": "1", "kind": "desire", "fields": {"generation": 1}}',)),
        "journal": Target(journal, (), (journal_seed(),)),
    }


def _text(data: bytes) -> str:
    return data.decode("utf-8", errors="replace")


@contextlib.contextmanager
def _wires(said: bytes) -> Any:
    """Return a connection whose peer has sent these bytes and closed."""
    near, far = socket.socketpair()
    with near, far:
        far.sendall(said)
        far.shutdown(socket.SHUT_WR)
        yield near


def _fuzz_one(name: str, corpus: Path, flags: list[str]) -> None:
    """Fuzz in a separate process, which the fuzzer ends."""
    import atheris

    with atheris.instrument_imports(include=["tidegate"]):
        target = _targets(Path(tempfile.mkdtemp(prefix="tidegate-fuzz-")))[name]
    for number, seed in enumerate(target.seeds):
        (corpus / f"seed-{number}").write_bytes(seed)

    def once(data: bytes) -> None:
        with contextlib.suppress(*target.refusals):
            target.read(data)

    atheris.Setup([sys.argv[0], str(corpus), *flags], once)
    atheris.Fuzz()


def _fuzz(name: str, seconds: int, out: Path) -> dict[str, Any]:
    """Fuzz one target for some time and return the result."""
    flags = [
        f"-max_total_time={seconds}", f"-timeout={_LONGEST_INPUT_S}", f"-rss_limit_mb={_MOST_MEGABYTES}",
        f"-artifact_prefix={out / name}-", f"-max_len={_MOST_BYTES if name != 'journal' else 1 << 20}",
        "-print_final_stats=1", "-seed=1",
    ]  # fmt: skip
    began_s = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="tidegate-corpus-") as corpus:
        command = [sys.executable, __file__, "--one", name, "--corpus", corpus, "--", *flags]
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
        inputs = sum(1 for _ in Path(corpus).iterdir())
    (out / f"{name}.log").write_text(done.stderr)
    runs = re.findall(r"number_of_executed_units: (\d+)", done.stderr)
    covered = re.findall(r"cov: (\d+)", done.stderr)
    took_s = time.monotonic() - began_s
    return {
        "runs": int(runs[-1]) if runs else None,
        "runs_per_s": round(int(runs[-1]) / took_s) if runs else None,
        "coverage": int(covered[-1]) if covered else None,
        "inputs_kept": inputs,
        "found": sorted(path.name for path in out.glob(f"{name}-*")),
        "ended_well": done.returncode == 0,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=60, help="for each target")
    parser.add_argument("--only", default="", help="targets, separated by commas")
    parser.add_argument("--out", type=Path, default=Path("out/fuzz"))
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--corpus", type=Path, help=argparse.SUPPRESS)
    given, flags = parser.parse_known_args()
    try:
        import atheris  # noqa: F401
    except ModuleNotFoundError:
        print("fuzz.py needs atheris: pip install atheris", file=sys.stderr)
        return 2
    if given.one:
        _fuzz_one(given.one, given.corpus, [flag for flag in flags if flag != "--"])
    with tempfile.TemporaryDirectory() as folder:
        known = list(_targets(Path(folder)))
    names = given.only.split(",") if given.only else known
    if not set(names) <= set(known):
        print(f"--only {given.only}: use some of {', '.join(known)}", file=sys.stderr)
        return 2
    given.out.mkdir(parents=True, exist_ok=True)
    screen = Console(stderr=True)
    found = {name: _fuzz(name, given.seconds, given.out) for name in track(names, "fuzzing", console=screen)}
    print(json.dumps(found, indent=2))
    return 0 if all(result["ended_well"] for result in found.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
