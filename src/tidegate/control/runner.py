"""The only control loop. Simulation and production differ in the cluster and the clock passed to it."""

from __future__ import annotations

import logging
from collections.abc import Callable

from tidegate.control.controller import Controller
from tidegate.control.journal import Entry
from tidegate.control.overhead import Overhead
from tidegate.control.ports import Cluster, Journal, KnowledgeStore, RunnerClock
from tidegate.control.steering import Steering
from tidegate.domain import Decision, Mode, Receipt
from tidegate.domain.codec import to_tree
from tidegate.domain.policy import Policy

logger = logging.getLogger("tidegate")

KNOWLEDGE, POLICY = "knowledge", "policy"
MOST_FAILURES = 10
"""Consecutive failed steps after which control ends."""
_LONGEST_BACK_OFF_S = 60.0
_SAVE_EVERY_STEPS = 60
"""Knowledge is also saved after every step that acts. A kill loses at most a minute of observations."""
_REPORT_EVERY_STEPS = 300


class Runner:
    """Observe, decide, converge, learn, journal; again every interval.

    The mode is enforced only in `tick`: `off` observes, `recommend` decides, `apply` acts. A failed step is journalled,
    and the next one runs after a growing delay. Control ends only after `MOST_FAILURES` failures in a row. However it
    ends, every knob is restored.
    """

    def __init__(
        self,
        cluster: Cluster,
        controller: Controller,
        clock: RunnerClock,
        journal: Journal,
        store: KnowledgeStore,
        reload: Callable[[], Policy | None] = lambda: None,
    ) -> None:
        self.mode = controller.policy.mode
        self.controller = controller
        self._cluster = cluster
        self._clock = clock
        self._journal = journal
        self._store = store
        self._reload = reload
        self.steering = Steering()
        """Users' requests while control runs."""
        self._turned = False
        self._by_hand = False
        self._save_policy(controller.policy)
        self.steps = 0
        self._saved = 0
        """The step after which knowledge was last saved."""
        self.last: Entry | None = None
        """The newest step, for observers."""
        self.overhead = Overhead(controller.policy.interval_s)

    def tick(self) -> Decision | None:
        """One iteration of the loop. None if the mode is `off`."""
        self._take_new_policy()
        self._take_requests()
        began_s = self._clock.monotonic_s()
        observation = self._cluster.observe()
        observed_s = self._clock.monotonic_s()
        decision: Decision | None = None
        receipt: Receipt | None = None
        if self.mode is not Mode.OFF:
            decision = self.controller.step(observation)
        self.overhead.add(observed_s - began_s, self._clock.monotonic_s() - observed_s)
        if decision is not None and (self.mode is Mode.APPLY or self._approved(decision)):
            self._turned = True
            receipt = self._cluster.converge(self.controller.knowledge.targets.after(decision.actions))
            self.controller.learn(decision, receipt)
        elif decision is not None and self._by_hand:  # what was applied by hand may still be in progress
            self._cluster.converge(self.controller.knowledge.targets)
        self._journal.record(observation, decision, receipt)
        for judgement in decision.judged if decision is not None else ():
            self._journal.judge(judgement.step, to_tree(judgement))
        self.last = Entry(observation.time_s, observation, decision, receipt)
        self.steps += 1
        if self.steps % _REPORT_EVERY_STEPS == 0:
            if self.overhead.observing_s:  # simulated time does not advance meanwhile
                self._journal.note(observation.time_s, "measuring-overhead", str(self.overhead))
            self.overhead = Overhead(self.controller.policy.interval_s)
        if decision is not None and (decision.actions or self.steps - self._saved >= _SAVE_EVERY_STEPS):
            self._save()
        return decision

    def run(self, until_s: float | None = None) -> None:
        """Tick until the clock says stop, or until `until_s`.

        If a tick overruns, the next one starts late. Missed ticks are not replayed.
        """
        failures, due_s = 0, self._clock.monotonic_s()
        try:
            while self._clock.sleep_until(due_s) and (until_s is None or self._clock.now_s() < until_s):
                interval_s = self.controller.policy.interval_s
                try:
                    self.tick()
                    failures = 0
                except Exception as error:
                    failures += 1
                    interval_s = min(interval_s * 2.0**failures, _LONGEST_BACK_OFF_S)
                    self._report(error, failures, interval_s)
                    if failures >= MOST_FAILURES:
                        raise
                due_s = max(due_s + interval_s, self._clock.monotonic_s())
        finally:
            self._end()

    def _take_new_policy(self) -> None:
        found = self._reload()
        if found is None:
            return
        policy, fixed = found.live_from(self.controller.policy)
        self._take_policy(policy)
        self.steering.forget()
        text = f"mode {policy.mode}"
        text += f"; {', '.join(fixed)} cannot change while control runs: start it again for that" if fixed else ""
        self._journal.note(self._clock.now_s(), "policy-reloaded", text)

    def _take_policy(self, policy: Policy) -> None:
        self.controller.take_policy(policy)
        self.mode = policy.mode
        self._by_hand = False
        self._save_policy(policy)

    def _take_requests(self) -> None:
        """Apply users' requests since the last tick, with a note of who made each."""
        for request in self.steering.requests():
            policy, text = self.steering.applied(request, self.controller.policy)
            if policy != self.controller.policy:
                self._take_policy(policy)
            self._journal.note(self._clock.now_s(), f"steered-{request.act}", f"{text}, asked by {request.who}")

    def _approved(self, decision: Decision) -> bool:
        """Was the current recommendation approved? If it has changed since, it is not applied."""
        request = self.steering.approval()
        if request is None:
            return False
        stands = self.mode is Mode.RECOMMEND and decision.actions == request.actions
        self._by_hand = self._by_hand or stands
        actions = ", ".join(map(str, request.actions))
        text = f"applied: {actions}" if stands else f"not applied, because it is not recommended any more: {actions}"
        self._journal.note(self._clock.now_s(), "steered-apply", f"{text}, asked by {request.who}")
        return stands

    def _save_policy(self, policy: Policy) -> None:
        """For readers of the journal: objectives, bounds and prices."""
        self._store.save_blob(POLICY, policy.model_dump_json().encode())

    def _report(self, error: Exception, failures: int, pause_s: float) -> None:
        text = f"{type(error).__name__}: {next(iter(str(error).strip().splitlines()), '')}"
        after = "control ends" if failures >= MOST_FAILURES else f"next step in {pause_s:g} s"
        logger.warning("a control step failed (%d in a row): %s; %s", failures, text, after, exc_info=failures == 1)
        self._journal.note(self._clock.now_s(), "step-failed", f"{text} ({failures} in a row); {after}")

    def _save(self) -> None:
        self._saved = self.steps
        self._store.save_blob(KNOWLEDGE, self.controller.knowledge.to_bytes())

    def _end(self) -> None:
        """Restore every knob and save the knowledge. If one fails, the other is still done."""
        try:
            if self._turned:
                self._cluster.release()
                self.controller.forget_targets()
        finally:
            self._save()
