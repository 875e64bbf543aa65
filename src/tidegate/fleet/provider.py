"""Who makes hosts and takes them away: processes on this machine, or commands of the user's for any other cluster."""

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
from tidegate.fleet.state import HostSpec

_COMMAND_LIMIT_S = 300.0


class Provider(Protocol):
    """Makes hosts. A handle is whatever it needs to find one again, also from another process."""

    def start(self, host: HostSpec) -> str:
        """Have it started; it is there when its agent answers."""
        ...

    def stop(self, handle: str) -> None:
        """Take it away, whatever state it is in. Doing it twice is doing it once."""
        ...

    def abandon(self, host: HostSpec) -> None:
        """Its start has failed, or whoever asked for it was killed: take away whatever may have come of it."""
        ...

    def alive(self, handle: str) -> bool | None:
        """False where it is known to be gone; None where nobody can tell."""
        ...


Command = Callable[[HostSpec], Sequence[str]]


class LocalProcesses:
    """Hosts as processes of this machine, in process groups of their own: they outlive whoever started them."""

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
            raise EnvironmentUnfit(f"host {host.name} ended at once; see {log}") from None

    def stop(self, handle: str) -> None:
        meant = ProcessIdentity.parse(handle)
        if not meant.here:
            raise EnvironmentUnfit(f"{handle}: the host is a process of another machine; stop it there")
        if meant.alive:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(meant.pid, signal.SIGKILL)
        self._reap(meant.pid)

    def abandon(self, host: HostSpec) -> None:
        """Whoever asked for it may have been killed before it wrote down which process it is: its card says so too."""
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
    """Hosts by commands: `{name}`, `{region}`, `{slots}`, `{fleet}` and (to stop and ask) `{handle}` are filled in."""

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
        """No handle was ever given: the stop command gets the name in its place, and `{name}` besides."""
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
            # Split before filling in: a value is one word of the command, whatever it contains.
            words = [word.format(**filled) for word in shlex.split(template)]
            return subprocess.run(
                words, capture_output=True, text=True, timeout=_COMMAND_LIMIT_S, check=False, stdin=subprocess.DEVNULL
            )
        except (KeyError, IndexError, ValueError) as error:
            raise InvalidInput(f"provider: command {template!r} cannot be filled in: {error}") from None
        except (OSError, subprocess.TimeoutExpired) as error:
            raise EnvironmentUnfit(f"provider: {template!r} does not run: {error}") from None


def host_command(config: FleetConfig, folder: FleetFolder) -> Command:
    """How this machine starts a host: `tidegate host`."""

    def command(host: HostSpec) -> list[str]:
        words = [sys.executable, "-m", "tidegate.cli.host", "--fleet", str(folder.root)]
        words += ["--name", host.name, "--region", host.region, "--slots", str(host.slots)]
        words += ["--memory-mb", str(config.host.memory_mb), "--lease", str(config.timing.lease_s)]
        if config.host.master:
            words += ["--master", config.host.master]
        # Spark settings may be secrets: the host reads them from the fleet's folder, where `ps` does not look.
        return words

    return command


def make_provider(config: FleetConfig, folder: FleetFolder) -> Provider:
    """The provider that the fleet's file asks for."""
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
    """Has it ended by itself within the limit?"""
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
