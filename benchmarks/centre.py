"""The centre of a large fleet: one step with 1 000 hosts, 50 regions and 20 000 applications, on one core.

The centre is the production code, from network frames to the journal and the registry on disk. The agents are
simulated, and their time is not counted. Prints the CPU seconds per step and of the garbage collector after it,
messages and bytes per second, and how long it takes to place the applications of a lost region.
Run: python benchmarks/centre.py
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from tidegate.control.journal import SqliteJournal
from tidegate.domain import Request, SetParallelism
from tidegate.domain.codec import from_json, to_json
from tidegate.fleet.calls import Unreachable
from tidegate.fleet.centre import Centre
from tidegate.fleet.config import FleetConfig
from tidegate.fleet.folder import FleetFolder
from tidegate.fleet.ports import Answer, Listener, Peer
from tidegate.fleet.protocol import Body
from tidegate.fleet.registry import Registry
from tidegate.fleet.vocabulary import AgentStatus, ApplicationSpec, Assigned, HostCard, HostSpec, Phase, Tenancy

A = TypeVar("A")
B = TypeVar("B")
SLOTS = 16


class Clock:
    """Advances by the poll interval with every step."""

    now_s = 1.8e9

    def steady_s(self) -> float:
        return self.now_s

    wall_s = forward_s = steady_s


class Agents:
    """All agents of the fleet: they run the assigned applications, and a few of them send requests."""

    def __init__(self, asking: float) -> None:
        self.cards: dict[tuple[str, int], HostCard] = {}
        self.running: dict[str, tuple[int, tuple[ApplicationSpec, ...]]] = {}
        self.dead: set[str] = set()
        self.spent_s = 0.0
        self.messages, self.bytes = 0, 0
        self._asking = asking
        self._random = random.Random(1)

    def ask(self, address: tuple[str, int], kind: str, fields: Body) -> Body:
        began_s = time.process_time()
        try:
            return self._answer(self.cards[address], kind, fields)
        finally:
            self.spent_s += time.process_time() - began_s

    def _answer(self, card: HostCard, kind: str, fields: Body) -> Body:
        name = card.spec.name
        if name in self.dead:
            raise Unreachable("no answer")
        answer: Body = {}
        if kind == "status":
            answer = {"status": to_json(self._status(card))}
        elif "applications" in fields:
            specs = tuple(from_json(Assigned, text).spec for text in fields["applications"])
            self.running[name] = (int(fields["generation"]), specs)
        self.messages += 2
        self.bytes += len(json.dumps(fields)) + len(json.dumps(answer)) + 2 * len(kind)
        return answer

    def _status(self, card: HostCard) -> AgentStatus:
        generation, specs = self.running.get(card.spec.name, (0, ()))
        draw = self._random.random
        tenancies = tuple(
            Tenancy(
                spec, Phase.RUNNING, 1, 0.0, "", 0.5 + 0.2 * draw(), 3.0 + draw(), round(1e6 * draw()), {"count": 2}
            )
            for spec in specs
        )
        requests: tuple[Request, ...] = ()
        if specs and draw() < self._asking:
            change = SetParallelism(specs[0].name, "count", 3)
            requests = (Request(card.spec.name, change, "80 % busy", 1.0),)
        return AgentStatus(card, generation, tenancies, requests)


class Way:
    """The connection to one agent."""

    def __init__(self, agents: Agents, address: tuple[str, int]) -> None:
        self._agents, self._address = agents, address

    def ask(self, kind: str, fields: Body | None = None) -> Body:
        return self._agents.ask(self._address, kind, fields or {})

    def close(self) -> None:
        pass


class Wire:
    """Sequential connections, because one core is measured."""

    def __init__(self, agents: Agents) -> None:
        self._agents = agents

    def listen(self, answer: Answer) -> Listener:
        raise RuntimeError("the centre accepts no connections")

    def peer(self, address: tuple[str, int]) -> Peer:
        return Way(self._agents, tuple(address))  # type: ignore[arg-type]

    def each(self, function: Callable[[A], B], items: Sequence[A]) -> Iterable[B]:
        return [function(item) for item in items]


class NoProvider:
    """Starts nothing: the hosts already exist."""

    def start(self, host: HostSpec) -> str:
        return host.name

    def stop(self, handle: str) -> None:
        pass

    def abandon(self, host: HostSpec) -> None:
        pass

    def alive(self, handle: str) -> bool | None:
        return None


class Fleet:
    """The fleet with its centre; `step` runs one step of the centre and returns its CPU seconds."""

    def __init__(self, root: Path, hosts: int, regions: int, applications: int, asking: float) -> None:
        self.clock = Clock()
        self.collected_s = 0.0
        self.folder = FleetFolder(root, clock=self.clock)
        names = [f"r{number:02d}" for number in range(regions)]
        self.config = FleetConfig.model_validate(
            {
                "regions": {name: {"min_hosts": 0, "max_hosts": hosts} for name in names},
                "most_hosts": hosts,
                "host": {"slots": SLOTS},
                "timing": {"poll_s": 1.0, "lost_after_s": 5.0, "lease_s": 8.0, "start_limit_s": 20.0},
            }
        )
        self.agents = Agents(asking)
        self.registry = Registry(self.folder.registry, self.clock)
        with self.registry.together():
            for number in range(hosts):
                spec = HostSpec(f"{names[number % regions]}-{number}", names[number % regions], SLOTS)
                card = HostCard(spec, f"i{number}", ("sim", number), number, 0.0)
                self.registry.put_host(spec, None)
                self.agents.cards["sim", number] = card
                self.folder.write_card(card)
            for number in range(applications):
                self.registry.put_application(
                    ApplicationSpec(f"a{number}", "m:f", {}, names[number % regions], 0.5, 30.0, {"count": 4})
                )
        self.centre = Centre(
            self.folder, self.config, NoProvider(), self.registry, Wire(self.agents), SqliteJournal(root / "journal.db")
        )

    def step(self) -> float:
        self.clock.now_s += self.config.timing.poll_s
        before_s, began_s = self.agents.spent_s, time.process_time()
        self.centre.step()
        ended_s = time.process_time()
        gc.collect()  # the centre leaves the collector to the time between steps
        self.collected_s = max(self.collected_s, time.process_time() - ended_s)
        return ended_s - began_s - (self.agents.spent_s - before_s)

    def placed(self) -> int:
        return sum(len(specs) for name, (_, specs) in self.agents.running.items() if name not in self.agents.dead)


def measure(hosts: int, regions: int, applications: int, steps: int, asking: float) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        fleet = Fleet(Path(folder), hosts, regions, applications, asking)
        first_s: list[float] = []
        while fleet.placed() < applications:
            first_s.append(fleet.step())
            assert len(first_s) < 120, f"{fleet.placed()} of {applications} run"
        fleet.step()
        messages, sent = fleet.agents.messages, fleet.agents.bytes
        usual_s = [fleet.step() for _ in range(steps)]
        messages, sent = fleet.agents.messages - messages, fleet.agents.bytes - sent
        fleet.agents.dead = {card.spec.name for card in fleet.agents.cards.values() if card.spec.region == "r00"}
        lost_s: list[float] = []
        while fleet.placed() < applications and len(lost_s) < 120:
            lost_s.append(fleet.step())
        return {
            "hosts": hosts,
            "regions": regions,
            "applications": applications,
            "all_placed_after_steps": len(first_s),
            "placing_step_s": round(max(first_s), 3),
            "step_s": {"median": round(statistics.median(usual_s), 3), "worst": round(max(usual_s), 3)},
            "collector_worst_s": round(fleet.collected_s, 3),
            "messages_per_s": round(messages / steps),
            "bytes_per_s": round(sent / steps),
            "lost_region": {
                "hosts": len(fleet.agents.dead),
                "seconds_until_placed": len(lost_s),
                "of_which_noticing_s": fleet.config.timing.start_limit_s,
                "worst_step_s": round(max(lost_s), 3),
                "all_placed": fleet.placed() == applications,
            },
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hosts", type=int, default=1000)
    parser.add_argument("--regions", type=int, default=50)
    parser.add_argument("--applications", type=int, default=20_000)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--asking", type=float, default=0.02, help="share of hosts with a request in every step")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    sizes = [(given.hosts // 10, max(1, given.regions // 10), given.applications // 10)]
    sizes.append((given.hosts, given.regions, given.applications))
    found = [measure(*size, given.steps, given.asking) for size in sizes]
    if given.json:
        print(json.dumps(found, indent=1))
        return
    for one in found:
        step, lost = one["step_s"], one["lost_region"]
        print(
            f"{one['hosts']} hosts, {one['regions']} regions, {one['applications']} applications: a step takes "
            f"{step['median']:.3f} s (worst {step['worst']:.3f} s; "
            f"while all are placed, in {one['all_placed_after_steps']} steps, up to {one['placing_step_s']:.3f} s); "
            f"then the collector takes up to {one['collector_worst_s']:.3f} s; "
            f"{one['messages_per_s']} messages and {one['bytes_per_s'] / 1e6:.1f} MB a second; a lost region of "
            f"{lost['hosts']} hosts is placed again after {lost['seconds_until_placed']} s, worst step "
            f"{lost['worst_step_s']:.3f} s"
        )


if __name__ == "__main__":
    main()
