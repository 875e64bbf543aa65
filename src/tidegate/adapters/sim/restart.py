"""Changes that need a restart: planned until the running batch is done, applied with a pause, reported meanwhile."""

from __future__ import annotations

from collections.abc import Sequence

from tidegate.adapters.sim.application import SimApplication

Knob = tuple[str, ...]
"""The knob that changes: `("interval",)` or `("parallelism", operator)`."""


class Restart:
    """The plan for the next start of an application, and the pause of the restart in progress.

    >>> from tidegate.adapters.sim.application import SimOperator
    >>> words = SimApplication("words", 100, operators=(SimOperator("count", 0.001, 4, stateful=True),), restart_s=4.0)
    >>> restart = Restart(words, now_s=0.0)
    >>> restart.plan_parallelism("count", 8), restart.plan_parallelism("count", 8)
    (True, False)
    >>> restart.pause_s([4], now_s=0.0)  # with its state repartitioned
    12.0
    """

    def __init__(self, application: SimApplication, now_s: float) -> None:
        self._application = application
        self._asked: dict[str, int] = {}
        self.forget()
        self.due = False
        """Requested, and waiting for the running batch."""
        self.count = 0
        self.from_s = self.until_s = now_s
        self.repartitions = False
        self.changing: set[Knob] = set()
        self._stateful = [index for index, operator in enumerate(application.operators) if operator.stateful]

    def forget(self) -> None:
        """Reset the plan to the application's initial configuration."""
        self.parallelism = [operator.parallelism for operator in self._application.operators]
        self.interval_s = self._application.interval_s
        self._asked.clear()

    def under_way(self, now_s: float) -> bool:
        if self.due or now_s < self.until_s:
            return True
        self.changing.clear()
        return False

    def pause_s(self, in_force: Sequence[int], now_s: float) -> float:
        """Duration of the restart that is due or in progress, from the last commit before it to the next trigger."""
        repartitions = self._changes_state(in_force) or (self.repartitions and now_s < self.until_s)
        return self._application.restart_s + (self._application.repartition_s if repartitions else 0.0)

    def plan_parallelism(self, operator: str, tasks: int) -> bool:
        """Plan it for the next start. Stateful operators change together. False if it has been requested before.

        An operator that ignores a new parallelism is restarted for it once, as Spark would do.
        """
        if self._asked.get(operator) == tasks:
            return False
        operators = self._application.operators
        index = self.index_of(operator)
        together = self._stateful if index in self._stateful else [index]
        free = [place for place in together if not operators[place].fixed]
        ignored = operators[index].fixed and self.parallelism[index] != tasks
        news = ignored or any(self.parallelism[place] != tasks for place in free)
        self._asked[operator] = tasks
        for place in free:
            self.parallelism[place] = tasks
        return news

    def index_of(self, operator: str) -> int:
        return [known.name for known in self._application.operators].index(operator)

    def begin(self, now_s: float) -> None:
        """The query has stopped."""
        self.due, self.repartitions = False, False
        self.count += 1
        self.from_s = now_s

    def extend(self, in_force: Sequence[int], now_s: float) -> None:
        """Apply the current plan. A change that comes during the pause may extend it."""
        pause_s = self.pause_s(in_force, now_s)
        self.repartitions = self.repartitions or self._changes_state(in_force)
        self.until_s = self.from_s + pause_s

    def _changes_state(self, in_force: Sequence[int]) -> bool:
        return any(in_force[index] != self.parallelism[index] for index in self._stateful)
