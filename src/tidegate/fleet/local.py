"""The managers on a host: one per elastic operator of its applications, and the region's on one host of the region.

They see raw figures, which never leave the host; what leaves is requests. When the centre falls silent, operators go on
by themselves within their allowance. Which host speaks for the region is settled by a lease, as for applications.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Protocol

from pydantic import TypeAdapter

from tidegate.domain.codec import to_json
from tidegate.fleet.config import FleetConfig
from tidegate.fleet.figures import SMOOTH_ALREADY, OperatorFigures
from tidegate.fleet.folder import FleetFolder, replace_file
from tidegate.fleet.naming import application_manager, operator_manager, received, region_manager
from tidegate.fleet.speaker import RegionSpeaker
from tidegate.fleet.state import HostCard, Phase, RegionWish, Tenancy
from tidegate.fleet.steady import steady_s
from tidegate.managers import (
    Message,
    Numbering,
    OperatorManager,
    OperatorSettings,
    OperatorState,
    encode,
)
from tidegate.managers.messages import Rescale
from tidegate.managers.policies import OperatorLimits, OperatorView, Threshold

logger = logging.getLogger("tidegate")

_STATES = TypeAdapter(dict[str, OperatorState])
_LOOP_S = 1.0
_OUTBOX = 256
_RETRY_S = 600.0
_SOON_S = 0.2
_BATCH_SHARE = 0.25
"""Of an objective: what a batch may take."""


class Rescaling(Protocol):
    """What the managers need of the host: views of operators, and a way to change them."""

    def operator(self, application: str, operator: str) -> OperatorFigures | None: ...

    def tasks(self, application: str) -> dict[str, int]:
        """Tasks by operator as the query was last built; operators that were never changed are left out."""
        ...

    def rescale(self, application: str, operator: str, tasks: int) -> float: ...

    def bound(self, application: str, rows_per_s: float, batch_s: float) -> None:
        """Let no batch take more rows than are done at this rate in so long, or in a trigger's interval."""
        ...


class HostStaff:
    """Steps the local managers; `begin` has that done in a thread."""

    def __init__(
        self,
        card: HostCard,
        config: FleetConfig,
        folder: FleetFolder,
        token: bytes,
        host: Rescaling,
        tenancies: Callable[[], list[Tenancy]],
    ) -> None:
        self._card = card
        self._config = config
        self._folder = folder
        self._host = host
        self._tenancies = tenancies
        self._lock = threading.Lock()
        self._outbox: deque[str] = deque(maxlen=_OUTBOX)
        self._inbox: deque[str] = deque(maxlen=_OUTBOX)
        self._said: dict[str, str] = {}
        self._operators: dict[str, dict[str, OperatorState]] = {}
        self._rescaling: dict[str, threading.Thread] = {}
        self._not_before: dict[tuple[str, str, int], float] = {}
        """Sizes that an operator could not be given, and when that is tried again."""
        self._speaker = RegionSpeaker(card, config, folder, token)
        self._ended = threading.Event()

    def begin(self) -> None:
        threading.Thread(target=self._run, name="tidegate-managers", daemon=True).start()

    def outbox(self) -> tuple[str, ...]:
        with self._lock:
            said = tuple(self._outbox)
            self._outbox.clear()
        return said

    def take(self, messages: list[str]) -> None:
        with self._lock:
            self._inbox.extend(messages)

    def wish(self) -> RegionWish | None:
        return self._speaker.wish

    def summary(self) -> dict[str, str]:
        return {**self._said, **self._speaker.summary()}

    def end(self) -> None:
        self._ended.set()
        self._speaker.resign()

    def _run(self) -> None:
        stepped_s = 0.0
        while not self._ended.wait(_LOOP_S):
            try:
                self._speaker.keep()
                if time.monotonic() - stepped_s >= self._config.managers.period_s:
                    stepped_s = time.monotonic()
                    self.step(time.time())
            except Exception as error:  # without its managers a host goes on as it is
                logger.warning("the local managers left out a step: %s", error)

    def step(self, now_s: float) -> None:
        """One period of every manager here: read, decide, carry out, ask."""
        with self._lock:
            texts = list(self._inbox)
            self._inbox.clear()
        inbox = received(texts, now_s)
        out: list[Message] = []
        running = [tenancy for tenancy in self._tenancies() if tenancy.phase is Phase.RUNNING]
        for tenancy in running:
            out += self._step_application(tenancy, inbox, now_s)
        working = {operator_manager(each.spec.name, operator) for each in running for operator in each.spec.elastic}
        self._said = {name: said for name, said in self._said.items() if name in working}
        for name in self._operators.keys() - {tenancy.spec.name for tenancy in running}:
            del self._operators[name]  # its memory is in the folder, for whoever runs it next
        out += self._speaker.step(inbox, now_s)
        with self._lock:
            self._outbox.extend(encode(message).decode() for message in out)

    def _step_application(self, tenancy: Tenancy, inbox: list[Message], now_s: float) -> list[Message]:
        """Every elastic operator of one application; orders are carried out here, the rest goes out."""
        name = tenancy.spec.name
        states = self._operators.setdefault(name, self._remembered(name))
        out: list[Message] = []
        bearable: list[float] = []
        before = to_json(list(states.values()))
        for operator, most in tenancy.spec.elastic.items():
            figures = self._host.operator(name, operator)
            if figures is None or not figures.busy_s_per_row:
                continue
            manager = self._manager(tenancy, operator, most, figures, states, now_s)
            # A micro-batch ends as a whole: its latency is every operator's.
            response_s = tenancy.latency_p99_s or 0.0
            view = OperatorView(figures.replicas, figures.rows_per_s, figures.utilisation, response_s)
            said = manager.step(view, [message for message in inbox if message.to == manager.name], now_s)
            out += [message for message in said if not isinstance(message, Rescale)]
            alone = now_s - manager.state.heard_s > self._config.managers.silence_s
            self._said[manager.name] = (
                f"{figures.replicas} tasks, {figures.utilisation:.0%} busy, {figures.rows_per_s:.0f} rows/s"
                + (", alone" if alone else "")
            )
            bearable.append(figures.replicas / figures.busy_s_per_row)
            self._carry_out(name, operator, figures.replicas, manager.state.target)
        if bearable:
            # A change waits for the end of a batch: one that holds a whole backlog would make it wait for minutes.
            self._host.bound(name, min(bearable), _BATCH_SHARE * tenancy.spec.latency_s)
        if states and to_json(list(states.values())) != before:
            replace_file(self._folder.operators_file(name), _STATES.dump_json(states))
        return out

    def _remembered(self, application: str) -> dict[str, OperatorState]:
        """What its managers knew when it last ran, wherever that was."""
        try:
            return _STATES.validate_json(self._folder.operators_file(application).read_bytes())
        except (OSError, ValueError):
            return {}

    def _manager(
        self,
        tenancy: Tenancy,
        operator: str,
        most: int,
        figures: OperatorFigures,
        states: dict[str, OperatorState],
        now_s: float,
    ) -> OperatorManager:
        """Made anew for every step: the limits follow what a row is seen to cost, and all memory is in the state."""
        application, rule = tenancy.spec.name, self._config.managers
        name = operator_manager(application, operator)
        limits = OperatorLimits(1, most, tenancy.spec.latency_s, most / (figures.busy_s_per_row or 1.0))
        state = states.setdefault(name, OperatorState(Numbering(name), figures.replicas, figures.replicas, now_s))
        settings = OperatorSettings(
            smoothing=SMOOTH_ALREADY,
            silence_s=rule.silence_s,
            allowance=rule.allowance,
            cool_down_alone_s=rule.alone_pause_s,
        )
        region = region_manager(self._card.spec.region)
        policy = Threshold(limits)
        return OperatorManager(name, limits, policy, state, application_manager(application), region, settings)

    def _carry_out(self, application: str, operator: str, replicas: int, target: int) -> None:
        """Level-triggered: whatever the query was last built with, it gets the size that was ordered."""
        ordered = (application, operator, target)
        if self._host.tasks(application).get(operator, replicas) == target:
            return
        if steady_s() < self._not_before.get(ordered, 0.0):
            return
        under_way = self._rescaling.get(application)
        if under_way is not None and under_way.is_alive():
            return
        # It waits for the end of a batch, and nobody else has to wait with it.
        self._rescaling[application] = threading.Thread(target=self._rescale, args=ordered, daemon=True)
        self._rescaling[application].start()
        self._rescaling[application].join(_SOON_S)

    def _rescale(self, application: str, operator: str, target: int) -> None:
        try:
            pause_s = self._host.rescale(application, operator, target)
            logger.info("%s.%s: %d tasks, a pause of %.1f s", application, operator, target, pause_s)
        except Exception as error:
            logger.warning("%s.%s could not be rescaled to %d tasks: %s", application, operator, target, error)
            # Every try is a pause of the query.
            self._not_before[application, operator, target] = steady_s() + _RETRY_S
