"""A network that can be cut: a separate namespace for the broker, connected by one virtual link.

The addresses are link-local and not routed, so nothing outside this machine can reach the broker.
"""

from __future__ import annotations

import os
import shutil
import subprocess

from tidegate.domain import EnvironmentUnfit


class Network:
    """Exists while the `with` block does."""

    def __init__(self) -> None:
        self._name = f"tidegate-{os.getpid()}"
        self._cable = f"tg{os.getpid()}"
        link = f"169.254.{2 + os.getpid() % 250}"  # differs between runs on the same machine
        self._near, self.host = f"{link}.1", f"{link}.2"
        """The address inside."""
        self.within = ("ip", "netns", "exec", self._name)
        """Prefix for commands that run inside the namespace."""

    def __enter__(self) -> Network:
        if shutil.which("ip") is None:
            raise EnvironmentUnfit("there is no ip command: install iproute2")
        try:
            _ip("netns", "add", self._name)
            _ip("link", "add", self._cable, "type", "veth", "peer", "name", "eth0", "netns", self._name)
            _ip("address", "add", f"{self._near}/30", "dev", self._cable)
            _ip("link", "set", self._cable, "up")
            _ip("-n", self._name, "address", "add", f"{self.host}/30", "dev", "eth0")
            for device in ("lo", "eth0"):
                _ip("-n", self._name, "link", "set", device, "up")
        except EnvironmentUnfit:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for words in (("link", "del", self._cable), ("netns", "del", self._name)):
            subprocess.run(["ip", *words], capture_output=True, check=False)  # nothing to remove

    def cut(self) -> None:
        """Drop packets silently in both directions from now on."""
        _ip("-n", self._name, "link", "set", "eth0", "down")

    def mend(self) -> None:
        _ip("-n", self._name, "link", "set", "eth0", "up")


def _ip(*words: str) -> None:
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise EnvironmentUnfit(f"ip {' '.join(words)}: {done.stderr.strip() or 'failed'}")
