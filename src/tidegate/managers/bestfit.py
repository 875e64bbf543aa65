"""Where replicas run: best fit by their current work instead of reserved slots, so that idle replicas pack densely.

The schedulers of `tidegate.placement` pack whole fleets over time series. Here there are a dozen hosts, and replicas
come and go one by one. A decision is needed every few seconds and must move as little as possible.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class HostView:
    """One host: cores, slots, and the replicas of each operator on it."""

    name: str
    cores: float
    slots: int
    up: bool
    """False while it is starting."""
    replicas: Mapping[str, int]


class Seating:
    """A working copy of the placement, on which changes are tried before they are ordered."""

    def __init__(self, hosts: Sequence[HostView], work: Mapping[str, float]) -> None:
        """`work`: arriving work of each operator, in cores. Its replicas share it, and none uses more than one core."""
        self.hosts = {host.name: host for host in hosts if host.up}
        self.counts = {name: dict(host.replicas) for name, host in self.hosts.items()}
        self.taken = {name: sum(counts.values()) for name, counts in self.counts.items()}
        replicas: dict[str, int] = {}
        for counts in self.counts.values():
            for operator, n in counts.items():
                replicas[operator] = replicas.get(operator, 0) + n
        self._work = work
        self.use = {operator: min(1.0, work.get(operator, 0.0) / n) for operator, n in replicas.items()}
        self.load = {
            name: sum(n * self.use[operator] for operator, n in counts.items()) for name, counts in self.counts.items()
        }

    def placed(self, operator: str) -> dict[str, int]:
        """The operator's hosts and its replicas on each."""
        return {host: counts[operator] for host, counts in self.counts.items() if counts.get(operator)}

    def resize(self, operator: str, replicas: int) -> None:
        """Spread the same work over another number of replicas. Call it before they are placed or removed."""
        use = min(1.0, self._work.get(operator, 0.0) / max(1, replicas))
        for host, n in self.placed(operator).items():
            self.load[host] += n * (use - self.use[operator])
        self.use[operator] = use

    def find(self, operator: str, fill: float, without: Sequence[str] = (), spread: bool = False) -> str | None:
        """A host that stays within `fill` of its cores: one with this operator first, then the fullest that fits.

        Keeping replicas of one operator together means fewer operators to pause when a host is emptied. With `spread`:
        the host with the most idle cores, so that noise overloads none.
        """
        use = self.use.get(operator, 0.0)
        best: tuple[bool, float, str] | None = None
        for name, host in self.hosts.items():
            load = self.load[name]
            if self.taken[name] >= host.slots or name in without or load + use > fill * host.cores:
                continue
            idle = host.cores - load
            option = (False, -idle, name) if spread else (operator not in self.counts[name], idle, name)
            best = option if best is None or option < best else best
        return None if best is None else best[2]

    def add(self, operator: str, host: str, count: int = 1) -> None:
        self.counts[host][operator] = self.counts[host].get(operator, 0) + count
        self.load[host] += count * self.use.get(operator, 0.0)
        self.taken[host] += count

    def remove(self, operator: str, host: str, count: int = 1) -> None:
        left = self.counts[host].get(operator, 0) - count
        if left < 0:
            raise ValueError(f"{host} does not have {count} replicas of {operator}")
        if left:
            self.counts[host][operator] = left
        else:
            del self.counts[host][operator]
        self.load[host] -= count * self.use.get(operator, 0.0)
        self.taken[host] -= count

    def move(
        self,
        operator: str,
        origin: str,
        count: int,
        fills: Sequence[float],
        without: Sequence[str] = (),
        spread: bool = False,
    ) -> int:
        """Move up to `count` replicas off `origin`, within the first of `fills` that has room. Returns how many."""
        for moved in range(count):
            barred = (origin, *without)
            target = next((t for fill in fills if (t := self.find(operator, fill, barred, spread)) is not None), None)
            if target is None:
                return moved
            self.remove(operator, origin)
            self.add(operator, target)
        return count

    def can_empty(self, host: str, fill: float, without: Sequence[str] = ()) -> bool:
        """Could the other hosts take everything on `host`? Tried on a copy, busiest replicas first."""
        trial = Seating((), {})
        trial.hosts, trial.use = self.hosts, self.use
        trial.load, trial.taken = dict(self.load), dict(self.taken)
        trial.counts = {name: dict(counts) for name, counts in self.counts.items()}
        for operator, n in sorted(self.counts[host].items(), key=lambda item: -self.use.get(item[0], 0.0)):
            if trial.move(operator, host, n, (fill,), without) < n:
                return False
        return True
