"""Control on a host: the ordinary runner over the host's own Spark, and the region's if this host speaks for it.

Admission, intervals, shares and state moves are decided here. What the guard `AskCentre` holds becomes a request to the
centre. While the centre is silent, operators may still change within an allowance.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Protocol

from tidegate.control.clock import WallClock
from tidegate.control.journal import SqliteJournal
from tidegate.control.knowledge import Knowledge
from tidegate.control.ports import Cluster
from tidegate.control.runner import KNOWLEDGE, Runner
from tidegate.domain import Action, HostSample, Mode, Observation, Receipt, Request, Standing, Targets
from tidegate.domain.policy import Policy
from tidegate.domain.rules import ApplicationRule, OwnObjectiveRule
from tidegate.fleet.config import FleetConfig
from tidegate.fleet.controllers import host_controller
from tidegate.fleet.folder import FleetFolder
from tidegate.fleet.plan.asking import requests_of
from tidegate.fleet.ports import Wire
from tidegate.fleet.speaker import RegionSpeaker
from tidegate.fleet.vocabulary import ApplicationSpec, HostCard

logger = logging.getLogger("tidegate")

_KEEP_S = 1.0


@dataclass(frozen=True, slots=True)
class Handover:
    """What is known about an application, stored beside its checkpoint for the next host that runs it.

    >>> Handover.from_bytes(Handover({"look-up": {"policy": "threshold"}}, 900).to_bytes()).batch_rows
    900
    """

    policies: dict[str, Any] = field(default_factory=dict)
    """By operator."""
    batch_rows: int | None = None
    """The limit on its batches. Without it, the first batch on a new host would take all that has piled up."""

    @classmethod
    def from_bytes(cls, body: bytes) -> Handover:
        """Raises `ValueError` or `TypeError` if the file was written by another version."""
        return cls(**json.loads(body))

    def to_bytes(self) -> bytes:
        return json.dumps(asdict(self)).encode()


class HostWorld(Cluster, Protocol):
    """The host's own Spark. It also receives every observation."""

    def seen(self, observation: Observation) -> None:
        """Called with every observation; the host's reports are made from them."""
        ...


class StandingCluster:
    """A cluster whose observations include the host's standing with the centre."""

    def __init__(
        self, world: HostWorld, standing: Callable[[], Standing], after: Callable[[Observation], None]
    ) -> None:
        self._world = world
        self._standing = standing
        self._after = after

    def observe(self) -> Observation:
        observation = replace(self._world.observe(), standing=self._standing())
        self._world.seen(observation)
        self._after(observation)
        return observation

    def converge(self, targets: Targets) -> Receipt:
        return self._world.converge(targets)

    def release(self) -> None:
        self._world.release()


class HostControl:
    """Runs the host's controller and, under the region's lease, the region's controller. Answers the agent."""

    def __init__(
        self,
        card: HostCard,
        config: FleetConfig,
        folder: FleetFolder,
        wire: Wire,
        world: HostWorld,
        journal: SqliteJournal,
    ) -> None:
        self._card = card
        self._config = config
        self._folder = folder
        self._journal = journal
        self._lock = threading.Lock()
        self._specs: dict[str, ApplicationSpec] = {}
        self._news = False
        self._granted: tuple[Action, ...] = ()
        self._heard_s = folder.clock.steady_s()
        self._sample: HostSample | None = None
        self._saved: dict[str, bytes] = {}
        self._batch_rows: dict[str, int] = {}
        """The limit on the batches of each application, as last in force."""
        self._saved_s = folder.clock.steady_s()
        saved = journal.load_blob(KNOWLEDGE)
        controller, self._policies, self.asking = host_controller(
            self._policy(), config.managers, Knowledge.from_bytes(saved) if saved is not None else None
        )
        self._clock = WallClock()
        cluster = StandingCluster(world, self.standing, self._after)
        self.runner = Runner(cluster, controller, self._clock, journal, journal, self._new_policy)
        self._speaker = RegionSpeaker(card, config, folder, wire, self.standing)
        self._ended = threading.Event()
        self._threads = [
            threading.Thread(target=self._run, name="tidegate-control", daemon=True),
            threading.Thread(target=self._speak, name="tidegate-region", daemon=True),
        ]

    def begin(self) -> None:
        for thread in self._threads:
            thread.start()

    def end(self) -> None:
        """Restore what was changed, and save what was learned."""
        self._ended.set()
        self._clock.stop()
        for thread in self._threads:
            if thread.is_alive():  # it may never have started
                thread.join(10.0)
        self._speaker.resign()
        self._save_learned()
        self._journal.close()

    # called by the agent

    def requests(self) -> tuple[Request, ...]:
        entry = self.runner.last
        own: tuple[Request, ...] = ()
        if self.runner.mode is Mode.APPLY and entry is not None:
            own = requests_of(entry.decision, self._card.spec.name)
        return (*own, *self._speaker.requests())

    def hear(self, granted: tuple[Action, ...]) -> None:
        with self._lock:
            self._granted, self._heard_s = granted, self._folder.clock.steady_s()

    @property
    def speaks_for(self) -> str | None:
        return self._speaker.region if self._speaker.speaks else None

    def summary(self) -> dict[str, str]:
        entry = self.runner.last
        decision = entry.decision if entry is not None else None
        own = {self._card.spec.name: "; ".join(map(str, decision.reasons[:2]))} if decision is not None else {}
        return {**own, **self._speaker.summary()}

    def sample(self) -> HostSample | None:
        return self._sample

    def changes_alone(self, application: str) -> int:
        return self.asking.memory.changes.get(application, 0)

    # called by tenants

    def began(self, spec: ApplicationSpec) -> int | None:
        """An application starts here: add its objective to the policy, and load what was learned about it.

        Returns the limit on its batches that was last in force, on whatever host; None if there was none.
        """
        known = self._learned(spec.name)
        if self._policies is not None:
            self._policies.know(spec.name, known.policies)
        with self._lock:
            if known.batch_rows is not None:  # what is known from an earlier stay here is older
                self._batch_rows[spec.name] = known.batch_rows
            self._specs[spec.name] = spec
            self._news = True
        return known.batch_rows

    def ended(self, application: str) -> None:
        with self._lock:
            if self._specs.pop(application, None) is not None:
                self._news = True

    # internals

    def standing(self) -> Standing:
        with self._lock:
            silent_s = self._folder.clock.steady_s() - self._heard_s
            most = {name: dict(spec.elastic) for name, spec in self._specs.items()}
            return Standing(round(silent_s, 1), self._granted, most)

    def _policy(self) -> Policy:
        """The fleet's policy, with the objectives of the submitted applications."""
        fleet = self._config.policy
        with self._lock:
            specs = dict(self._specs)
        rules = dict(fleet.applications)
        for name, spec in specs.items():
            rule = rules.get(name, ApplicationRule())
            if rule.objective is None and rule.qos_class is None:
                rules[name] = rule.model_copy(update={"objective": OwnObjectiveRule(latency_s=spec.latency_s)})
        return fleet.model_copy(update={"applications": rules, "interval_s": self._config.timing.measure_s})

    def _new_policy(self) -> Policy | None:
        with self._lock:
            news, self._news = self._news, False
        return self._policy() if news else None

    def _after(self, observation: Observation) -> None:
        self._sample = observation.hosts[0] if observation.hosts else None
        for sample in observation.applications:
            if sample.admission_rows is not None and sample.running:
                self._batch_rows[sample.name] = sample.admission_rows
        if self._folder.clock.steady_s() - self._saved_s >= self._config.managers.period_s:
            self._save_learned()

    def _learned(self, application: str) -> Handover:
        try:
            return Handover.from_bytes(self._folder.files.read(self._folder.learned(application)))
        except (OSError, ValueError, TypeError):
            logger.info("%s: nothing has been learned about it yet", application)
            return Handover()

    def _save_learned(self) -> None:
        """Save beside the application's checkpoint, for the next host that runs it."""
        self._saved_s = self._folder.clock.steady_s()
        with self._lock:
            here = set(self._specs)
        for name in here:
            policies = self._policies.learned(name) if self._policies is not None else {}
            learned = Handover(policies, self._batch_rows.get(name))
            body = learned.to_bytes()
            if learned == Handover() or self._saved.get(name) == body:
                continue
            try:
                self._folder.put(self._folder.learned(name), body)
                self._saved[name] = body
            except OSError as error:
                logger.info("%s: what was learned about it could not be saved: %s", name, error)

    def _run(self) -> None:
        """Run control. Whatever happens here, the host and its queries go on."""
        while not self._ended.is_set():
            try:
                self.runner.run()
            except Exception as error:
                logger.warning("the control of this host failed and starts again: %s", error)
                self._ended.wait(_KEEP_S)

    def _speak(self) -> None:
        stepped_s = 0.0
        while not self._ended.wait(_KEEP_S):
            try:
                self._speaker.keep()
                if time.monotonic() - stepped_s >= self._config.managers.period_s:
                    stepped_s = time.monotonic()
                    self._speaker.step()
            except Exception as error:  # a host goes on without its region's manager
                logger.warning("the region's manager skipped a step: %s", error)
