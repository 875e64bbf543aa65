"""Starts and stops hosts: as processes on this machine, or through the user's commands for any other cluster."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import Protocol

import psutil

from tidegate import extensions
from tidegate.domain import EnvironmentUnfit, InvalidInput
from tidegate.fleet.config import FleetConfig, ProviderRule
from tidegate.fleet.folder import FleetFolder
from tidegate.fleet.identity import ProcessIdentity, identify
from tidegate.fleet.vocabulary import HostSpec

_COMMAND_LIMIT_S = 300.0


class Provider(Protocol):
    """Starts and stops hosts. A handle is whatever identifies a host later, even from another process."""

    def start(self, host: HostSpec) -> str:
        """Start a host. It is ready when its agent answers."""
        ...

    def stop(self, handle: str) -> None:
        """Remove it, whatever state it is in. Idempotent."""
        ...

    def abandon(self, host: HostSpec) -> None:
        """Its start failed, or the process that requested it was killed: remove whatever was started."""
        ...

    def alive(self, handle: str) -> bool | None:
        """False if it is known to be gone; None if that is unknown."""
        ...


Command = Callable[[HostSpec], Sequence[str]]


class LocalProcesses:
    """Hosts as processes on this machine, in their own process groups, so that they outlive their parent."""

    def __init__(self, folder: FleetFolder, command: Command) -> None:
        self._folder = folder
        self._command = command
        self._children: dict[int, subprocess.Popen[bytes]] = {}

    def start(self, host: HostSpec) -> str:
        log = self._folder.host(host.name) / "host.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as output:
            try:
                child = subprocess.Popen(
                    list(self._command(host)),
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    start_new_session=True,
                )
            except OSError as error:
                raise EnvironmentUnfit(f"host {host.name} cannot be started: {error}") from None
        self._children[child.pid] = child
        try:
            return str(identify(child.pid))
        except psutil.NoSuchProcess:
            raise EnvironmentUnfit(f"host {host.name} exited at once; see {log}") from None

    def stop(self, handle: str) -> None:
        meant = ProcessIdentity.parse(handle)
        if not meant.here:
            raise EnvironmentUnfit(f"{handle}: the host is a process of another machine; stop it there")
        if meant.alive:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(meant.pid, signal.SIGKILL)
        self._reap(meant.pid)

    def abandon(self, host: HostSpec) -> None:
        """The centre may have been killed before it recorded the process. The host's card also names it."""
        card = self._folder.read_card(host.name)
        if card is not None and card.process:
            self.stop(card.process)

    def alive(self, handle: str) -> bool | None:
        meant = ProcessIdentity.parse(handle)
        if not meant.here:
            return None
        self._reap(meant.pid)
        return meant.alive

    def _reap(self, pid: int) -> None:
        child = self._children.get(pid)
        if child is not None and child.poll() is not None:
            del self._children[pid]


class CommandHook:
    """Hosts by commands with `{name}`, `{region}`, `{slots}`, `{fleet}` and (stop and alive) `{handle}` filled in."""

    def __init__(self, rule: ProviderRule, folder: FleetFolder) -> None:
        if not rule.start or not rule.stop:
            raise InvalidInput("provider: commands needs both a start and a stop command")
        self._rule = rule
        self._folder = folder

    def start(self, host: HostSpec) -> str:
        done = self._call(self._rule.start, name=host.name, region=host.region, slots=str(host.slots))
        if done.returncode:
            raise EnvironmentUnfit(f"host {host.name}: the start command failed: {_last_line(done.stderr)}")
        return _last_line(done.stdout) or host.name

    def stop(self, handle: str) -> None:
        self._stop(handle)

    def abandon(self, host: HostSpec) -> None:
        """There is no handle, so the stop command gets the name instead, and also as `{name}`."""
        self._stop(host.name, name=host.name, region=host.region)

    def _stop(self, handle: str, **values: str) -> None:
        done = self._call(self._rule.stop, handle=handle, **values)
        if done.returncode:
            raise EnvironmentUnfit(f"{handle}: the stop command failed: {_last_line(done.stderr)}")

    def alive(self, handle: str) -> bool | None:
        if not self._rule.alive:
            return None
        return self._call(self._rule.alive, handle=handle).returncode == 0

    def _call(self, template: str, **values: str) -> subprocess.CompletedProcess[str]:
        filled = {"fleet": str(self._folder.root), "name": "", "region": "", "slots": "", "handle": "", **values}
        try:
            # Split before filling in, so that each value stays one argument whatever it contains.
            words = [word.format(**filled) for word in shlex.split(template)]
            return subprocess.run(
                words, capture_output=True, text=True, timeout=_COMMAND_LIMIT_S, check=False, stdin=subprocess.DEVNULL
            )
        except (KeyError, IndexError, ValueError) as error:
            text = f"provider: command {template!r} has a syntax error or an unknown placeholder: {error}"
            raise InvalidInput(text) from None
        except (OSError, subprocess.TimeoutExpired) as error:
            raise EnvironmentUnfit(f"provider: {template!r} could not be run: {error}") from None


def host_command(config: FleetConfig, folder: FleetFolder) -> Command:
    """The command that starts a host on this machine: `tidegate host`."""

    def command(host: HostSpec) -> list[str]:
        words = [sys.executable, "-m", "tidegate.cli.host", "--fleet", str(folder.root)]
        words += ["--name", host.name, "--region", host.region, "--slots", str(host.slots)]
        words += ["--memory-mb", str(config.host.memory_mb), "--lease", str(config.timing.lease_s)]
        if config.host.master:
            words += ["--master", config.host.master]
        # Spark settings may be secrets. The host reads them from the fleet's folder, so they do not show in `ps`.
        return words

    return command


def make_provider(config: FleetConfig, folder: FleetFolder) -> Provider:
    """The provider that the fleet's file selects."""
    if config.provider.kind == "commands":
        return CommandHook(config.provider, folder)
    if config.provider.kind == "local":
        return LocalProcesses(folder, host_command(config, folder))
    known = ("local", "commands", *extensions.names("providers"))
    if config.provider.kind not in known:
        raise InvalidInput(f"provider.kind {config.provider.kind!r}: use one of {', '.join(known)}")
    plugged_in: Provider = extensions.part("providers", config.provider.kind)(config, folder)
    return plugged_in


def wait_gone(provider: Provider, handle: str, limit_s: float) -> bool:
    """Does it end by itself within the limit?"""
    deadline_s = time.monotonic() + limit_s
    while provider.alive(handle):
        if time.monotonic() > deadline_s:
            return False
        time.sleep(0.1)
    return True


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1].strip() if lines else ""


__all__ = ["Command", "CommandHook", "LocalProcesses", "Provider", "host_command", "make_provider", "wait_gone"]
