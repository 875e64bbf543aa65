"""The managers of the fleet: requests and grants between host and centre, and what the host does alone."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tidegate.fleet.config import FleetConfig
from tidegate.fleet.figures import OperatorFigures
from tidegate.fleet.folder import FleetFolder
from tidegate.fleet.local import HostStaff
from tidegate.fleet.look import Glance
from tidegate.fleet.protocol import make_token
from tidegate.fleet.registry import Registry
from tidegate.fleet.staff import CentralStaff
from tidegate.fleet.state import AgentStatus, ApplicationSpec, HostCard, HostSpec, Phase, Tenancy

SPEC = ApplicationSpec("words", "m:build", region="east", latency_s=10.0, elastic={"lookup": 4})
CARD = HostCard(HostSpec("east-1", "east", 2), "i1", ("127.0.0.1", 1), 1, 0.0)
ROW_S = 0.01


@dataclass
class Plant:
    """A look-up of 10 ms a row behind `rate` rows per second; its latency falls when it keeps up."""

    rate: float = 30.0
    built: dict[str, int] = field(default_factory=dict)
    restarts: int = 0
    bound_rows: float | None = None

    @property
    def replicas(self) -> int:
        return self.built.get("lookup", 1)

    def operator(self, application: str, operator: str) -> OperatorFigures:
        return OperatorFigures(self.replicas, self.rate, min(1.0, self.rate * ROW_S / self.replicas), ROW_S)

    def tasks(self, application: str) -> dict[str, int]:
        return dict(self.built)

    def rescale(self, application: str, operator: str, tasks: int) -> float:
        self.built[operator] = tasks
        self.restarts += 1
        return 0.1

    def bound(self, application: str, rows_per_s: float, batch_s: float) -> None:
        self.bound_rows = rows_per_s * batch_s

    def tenancy(self) -> Tenancy:
        late = self.rate * ROW_S > self.replicas
        return Tenancy(SPEC, Phase.RUNNING, 1, 0.0, latency_p99_s=20.0 if late else 3.0)


class World:
    """One host and the centre, their messages carried by hand; time in steps of a manager's period."""

    def __init__(self, root: Path) -> None:
        self.folder = FleetFolder(root)
        self.config = FleetConfig.model_validate({"managers": {"silence_s": 12, "alone_pause_s": 10, "allowance": 1}})
        self.folder.region_lease("east").create()
        self.registry = Registry(self.folder.registry)
        self.plant = Plant()
        self.now_s = 1000.0
        self.staff = self.new_staff()
        self.centre: CentralStaff | None = CentralStaff(self.config, self.registry)

    def new_staff(self) -> HostStaff:
        token = make_token(self.folder.token)
        return HostStaff(CARD, self.config, self.folder, token, self.plant, lambda: [self.plant.tenancy()])

    def play(self, steps: int) -> None:
        for _ in range(steps):
            self.now_s += 5.0
            self.staff.step(self.now_s)
            status = AgentStatus(CARD, 0, (self.plant.tenancy(),), self.staff.outbox(), self.staff.wish())
            if self.centre is not None:
                answers = self.centre.step({"east-1": Glance(CARD, status)}, self.now_s)
                self.staff.take(answers.get("east-1", []))


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_a_busy_operator_gets_what_the_centre_grants(world: World) -> None:
    world.play(4)
    assert world.plant.restarts == 0
    world.plant.rate = 150.0
    world.play(8)
    assert world.plant.replicas == 3, "150 rows/s of 10 ms keep three tasks half busy"
    assert any(event.event == "granted" for event in world.registry.events())
    assert world.registry.fact("tokens")["words"] < world.config.managers.tokens
    assert "3 tasks" in world.staff.summary()["words.lookup"]


def test_no_batch_is_longer_than_a_part_of_the_objective(world: World) -> None:
    world.play(2)
    assert world.plant.bound_rows == pytest.approx(2.5 / ROW_S), "one task for a quarter of 10 s"
    world.plant.rate = 150.0
    world.play(9)
    assert world.plant.bound_rows == pytest.approx(3 * 2.5 / ROW_S)


def test_alone_it_acts_within_its_allowance_and_the_centre_returns_without_a_jump(world: World) -> None:
    world.play(4)
    world.centre = None
    world.plant.rate = 250.0
    world.play(12)
    assert world.plant.replicas == 2, "one more than granted, not four"
    assert world.staff.summary()["words.lookup"].endswith("alone")
    alone = world.plant.restarts
    world.centre = CentralStaff(world.config, world.registry)
    world.play(1)
    assert world.plant.restarts == alone, "the centre's return alone changes nothing"
    world.play(6)
    assert world.plant.replicas == 4, "then requests are granted again"


def test_a_centre_without_memory_adopts_what_it_finds(world: World, tmp_path: Path) -> None:
    world.plant.rate = 150.0
    world.play(10)
    restarts = world.plant.restarts
    world.centre = CentralStaff(world.config, Registry(tmp_path / "other" / "registry.db"))
    world.play(6)
    assert world.plant.restarts == restarts


def test_a_size_moves_along_with_its_application(world: World) -> None:
    world.plant.rate = 150.0
    world.play(10)
    assert world.folder.tasks("words") == {"lookup": 3}
    world.staff = world.new_staff()
    world.plant.built.clear()  # the new host built the query without it
    world.play(1)
    assert world.plant.replicas == 3
