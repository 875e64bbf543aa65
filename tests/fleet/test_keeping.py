"""What the centre keeps: hosts that it can account for, a book that others cannot read and that does not grow."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from tidegate.domain import EnvironmentUnfit, InvalidInput
from tidegate.fleet.centrelock import centre_process, only_centre, signal_centre
from tidegate.fleet.config import FleetConfig
from tidegate.fleet.files import DISK
from tidegate.fleet.folder import FleetFolder
from tidegate.fleet.hostkeeper import HostKeeper
from tidegate.fleet.identity import ProcessIdentity, identify
from tidegate.fleet.look import Lookout
from tidegate.fleet.provider import CommandHook, LocalProcesses, host_command
from tidegate.fleet.registry import MOST_EVENTS, STARTING, Registry
from tidegate.fleet.vocabulary import HostSpec
from tidegate.managers.tokenbucket import TokenBucket, TokenRule


class Broken:
    """A provider whose starts fail, after something was started."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.abandoned: list[str] = []
        self.works = False

    def start(self, host: HostSpec) -> str:
        self.asked.append(host.name)
        if not self.works:
            raise ZeroDivisionError("other people's code")
        return f"handle-of-{host.name}"

    def stop(self, handle: str) -> None:
        pass

    def abandon(self, host: HostSpec) -> None:
        self.abandoned.append(host.name)

    def alive(self, handle: str) -> bool | None:
        return None


def test_a_start_that_fails_is_cleared_away(tmp_path: Path) -> None:
    """Nobody stopped what had started before. When it is tried again is the sizing proposer's to say."""
    provider, folder, registry = Broken(), FleetFolder(tmp_path), Registry(None)
    keeper = HostKeeper(folder, FleetConfig(), provider, registry, Lookout(folder, None))  # type: ignore[arg-type]
    with pytest.raises(EnvironmentUnfit, match="other people's code"):
        keeper.start("local-1", "local")
    assert provider.abandoned == provider.asked == ["local-1"]
    assert registry.hosts() == {}
    assert registry.fact("hosts-of-local") == 1, "its name is not used again"
    provider.works = True
    keeper.start("local-2", "local")
    assert [entry.handle for entry in registry.hosts().values()] == ["handle-of-local-2"]


def test_a_host_is_in_the_book_before_it_is_started(tmp_path: Path) -> None:
    """A centre that is killed in between leaves an entry that the next one clears away."""
    folder, registry, provider = FleetFolder(tmp_path), Registry(None), Broken()
    seen: list[str | None] = []
    provider.start = lambda host: seen.extend(e.handle for e in registry.hosts().values()) or "h"  # type: ignore
    keeper = HostKeeper(folder, FleetConfig(), provider, registry, Lookout(folder, None))  # type: ignore[arg-type]
    keeper.start("local-1", "local")
    assert seen == [STARTING]
    entry = replace(registry.hosts()["local-1"], handle=STARTING)
    keeper.clear_away("local-1", entry)
    assert provider.abandoned == ["local-1"]


def test_a_command_that_failed_is_answered_with_the_stop_command(tmp_path: Path) -> None:
    rule = FleetConfig.model_validate(
        {"provider": {"kind": "commands", "start": "false", "stop": f"touch {tmp_path}/stopped-{{handle}}-{{name}}"}}
    ).provider
    CommandHook(rule, FleetFolder(tmp_path)).abandon(HostSpec("east-1", "east", 2))
    assert (tmp_path / "stopped-east-1-east-1").exists()


def test_signals_go_to_the_process_that_was_meant(tmp_path: Path) -> None:
    sleeper = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], start_new_session=True)
    try:
        meant = identify(sleeper.pid)
        assert ProcessIdentity.parse(str(meant)) == meant
        provider = LocalProcesses(FleetFolder(tmp_path), lambda host: [])
        before = replace(meant, born_s=meant.born_s - 100)
        assert provider.alive(str(before)) is False
        provider.stop(str(before))
        elsewhere = replace(meant, machine="another/1234")
        assert provider.alive(str(elsewhere)) is None, "nobody can tell from here"
        with pytest.raises(EnvironmentUnfit, match="another machine"):
            provider.stop(str(elsewhere))
        assert sleeper.poll() is None
        provider.stop(str(meant))
        assert sleeper.wait(10) == -signal.SIGKILL
    finally:
        sleeper.kill()
    with pytest.raises(InvalidInput, match="does not identify a process"):
        ProcessIdentity.parse("12")


def test_the_centre_is_signalled_only_where_it_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = FleetFolder(tmp_path)
    sent: list[int] = []
    with only_centre(folder):
        found = centre_process(folder)
        assert found is not None
        assert found.pid == os.getpid()
        monkeypatch.setattr(os, "kill", lambda pid, number: sent.append(pid))
        folder.centre_lock.write_text(str(replace(found, machine="another/1234")))
        with pytest.raises(EnvironmentUnfit, match="runs on another"):
            signal_centre(folder, signal.SIGTERM)
        folder.centre_lock.write_text(str(replace(found, born_s=found.born_s - 100)))
        signal_centre(folder, signal.SIGTERM)
        assert sent == [], "another process has its number by now"
        folder.centre_lock.write_text(str(found))
        signal_centre(folder, signal.SIGTERM)
        assert sent == [os.getpid()]
    assert psutil.pid_exists(os.getpid())


def test_the_book_is_its_owners_alone_and_has_no_write_ahead_log(tmp_path: Path) -> None:
    path = tmp_path / "centre" / "registry.db"
    registry = Registry(path)
    registry.note("a", "b", "half a character: \ud800")
    assert path.stat().st_mode & 0o777 == 0o600
    assert sqlite3.connect(path).execute("PRAGMA journal_mode").fetchone() == ("delete",)
    assert not list(path.parent.glob("*-wal"))
    folder = FleetFolder(tmp_path)
    folder.enrol(HostSpec("e", "east", 1))
    assert (folder.host("e") / "member.json").stat().st_mode & 0o777 == 0o600


def test_events_are_forgotten_when_there_are_many() -> None:
    registry = Registry(None)
    for number in range(MOST_EVENTS + 700):
        registry.note("something", str(number))
    rows = registry._all("SELECT count(*) FROM events")[0][0]
    assert MOST_EVENTS <= rows <= MOST_EVENTS + 256
    assert registry.events(1)[0].subject == str(MOST_EVENTS + 699)


def test_logs_begin_anew_when_they_are_long(tmp_path: Path) -> None:
    path = tmp_path / "host.log"
    with path.open("ab") as log:
        log.write(b"old\n" * 400 + b"new\n" * 100)
        log.flush()
        DISK.trim(path, 1000)
        log.write(b"newest\n")
    assert path.read_bytes() == b"newest\n"
    assert path.with_name("host.log.1").read_bytes() == b"old\n" * 25 + b"new\n" * 100
    DISK.trim(tmp_path / "none.log", 1000)


def test_the_newest_hosts_keep_their_logs_whatever_their_region_is_called(tmp_path: Path) -> None:
    folder = FleetFolder(tmp_path)
    for number in range(1, 16):
        for region in ("east", "north-west"):
            (folder.host(f"{region}-{number}")).mkdir(parents=True)
    folder.forget_hosts(known={"east-1"})
    left = {path.name for path in folder.host("east-1").parent.iterdir()}
    newest = {f"{region}-{number}" for region in ("east", "north-west") for number in range(6, 16)}
    assert left == newest | {"east-1"}


def test_secrets_of_the_fleets_file_are_not_on_a_command_line(tmp_path: Path) -> None:
    config = FleetConfig.model_validate({"host": {"settings": {"spark.hadoop.fs.s3a.secret.key": "hunter2"}}})
    words = host_command(config, FleetFolder(tmp_path))(HostSpec("e", "east", 1))
    assert not any("hunter2" in word for word in words)


def test_a_bucket_fills_again_after_its_clock_was_set_back() -> None:
    rule, bucket = TokenRule(size=1, refill_s=60), TokenBucket(tokens=1)
    assert bucket.take(rule, 7200.0)
    assert not bucket.take(rule, 3600.0), "going back fills nothing"
    assert bucket.take(rule, 3660.0), "and an hour later is not what it waits for"


class FullAtTheEnd(Registry):
    """A registry whose first commit finds the disk full."""

    full = True

    def _do(self, statement: str, values: tuple[object, ...] = ()) -> None:
        if statement == "COMMIT" and self.full:
            self.full = False
            raise sqlite3.OperationalError("database or disk is full")
        super()._do(statement, values)


def test_a_commit_that_fails_does_not_stop_the_next_one(tmp_path: Path) -> None:
    registry = FullAtTheEnd(tmp_path / "registry.db")
    with pytest.raises(sqlite3.OperationalError, match="full"), registry.together():
        registry.put_fact("first", 1)
    with registry.together():
        registry.put_fact("second", 2)
    assert (registry.fact("first"), registry.fact("second")) == (None, 2)
    registry.close()
