"""The only loop. Simulation and production differ in the cluster and the clock that are handed to it."""

from __future__ import annotations

from tidegate.control.controller import Controller
from tidegate.control.entry import Entry
from tidegate.control.overhead import Overhead
from tidegate.control.ports import Clock, Cluster, Journal, KnowledgeStore
from tidegate.domain import Decision, Mode, Receipt

_SAVE_EVERY_STEPS = 10
_REPORT_EVERY_STEPS = 300


class Runner:
    """Observe, step, apply, journal; again every interval.

    The mode is enforced in `tick` and nowhere else: `off` watches, `recommend` decides, `apply` acts.
    """

    def __init__(
        self, cluster: Cluster, controller: Controller, clock: Clock, journal: Journal, store: KnowledgeStore
    ) -> None:
        self.mode = controller.policy.mode
        self._cluster = cluster
        self._controller = controller
        self._clock = clock
        self._journal = journal
        self._store = store
        self.steps = 0
        self.last: Entry | None = None
        """The newest step, for those who look on."""
        self.overhead = Overhead(controller.policy.interval_s)

    def tick(self) -> Decision | None:
        """One turn of the loop; None where the mode is `off`."""
        began_s = self._clock.now_s()
        observation = self._cluster.observe()
        observed_s = self._clock.now_s()
        decision: Decision | None = None
        receipt: Receipt | None = None
        if self.mode is not Mode.OFF:
            decision = self._controller.step(observation)
        self.overhead.add(observed_s - began_s, self._clock.now_s() - observed_s)
        if self.mode is Mode.APPLY and decision is not None and decision.actions:
            receipt = self._cluster.apply(decision)
            self._controller.learn(receipt)
        self._journal.record(observation, decision, receipt)
        self.last = Entry(observation.time_s, observation, decision, receipt)
        self.steps += 1
        if self.steps % _REPORT_EVERY_STEPS == 0:
            if self.overhead.observing_s:  # simulated time stands still meanwhile
                self._journal.note(observation.time_s, "measuring-overhead", str(self.overhead))
            self.overhead = Overhead(self._controller.policy.interval_s)
        if decision is not None and (decision.actions or self.steps % _SAVE_EVERY_STEPS == 0):
            self._store.save(self._controller.knowledge)
        return decision

    def run(self, until_s: float | None = None) -> None:
        """Tick until the clock says stop, or until `until_s`. A late tick delays the next; none are made up for."""
        interval_s = self._controller.policy.interval_s
        due_s = self._clock.now_s()
        try:
            while until_s is None or due_s < until_s:
                if not self._clock.sleep_until(due_s):
                    break
                self.tick()
                due_s = max(due_s + interval_s, self._clock.now_s())
        finally:
            self._store.save(self._controller.knowledge)
