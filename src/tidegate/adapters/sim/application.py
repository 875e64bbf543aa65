"""A micro-batch application: its load, its trigger, its operators and their costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tidegate.domain.errors import InvalidInput
from tidegate.load import LoadProfile, profile_from_spec


@dataclass(frozen=True, slots=True)
class SimOperator:
    """A stage of every batch: `cost_s_per_row` slot-seconds per row, on at most `parallelism` slots at once.

    It can also model what makes more tasks useless: a hot key, a lock that lets few tasks work at once, or tasks so
    small that starting them costs more than their work.

    >>> hot = SimOperator("join", 0.001, hot_share=0.5)
    >>> hot.largest_share(1), hot.largest_share(10)  # of the rows, in the partition with the hot key
    (1.0, 0.55)
    """

    name: str
    cost_s_per_row: float
    parallelism: int = 8
    selectivity: float = 1.0
    inputs: tuple[str, ...] | None = None
    """Operators that feed it; by default the one before it in the list."""
    communication_s_per_row: float = 0.0
    """Slot-seconds per row that a task waits for the shuffle."""
    bytes_per_row: float = 0.0
    """Shuffle bytes per incoming row."""
    hot_share: float = 0.0
    """Share of its rows with the same key, which meet in one task. The others spread evenly."""
    works_at_once: int | None = None
    """Maximum number of tasks that can make progress at once, for example because of a lock. The others wait."""
    task_overhead_s: float = 0.0
    """Slot-seconds that a task costs in addition to its rows."""
    cpu_share: float = 1.0
    """Share of `cost_s_per_row` that needs a CPU. For the rest a task waits for a service or a disk."""
    stateful: bool = False
    """Stateful operators of one application share one parallelism."""
    state_keys: int = 0
    """Maximum number of keys in its state."""
    fixed: bool = False
    """A new parallelism is accepted silently and ignored."""

    def __post_init__(self) -> None:
        for what, amount in (
            ("cost per row", self.cost_s_per_row),
            ("communication per row", self.communication_s_per_row),
            ("task overhead", self.task_overhead_s),
        ):
            if not 0 <= amount < float("inf"):
                raise InvalidInput(f"operator {self.name}: {what} must be at least 0 seconds, not {amount}")
        for what, amount in (
            ("selectivity", self.selectivity),
            ("bytes per row", self.bytes_per_row),
            ("state keys", self.state_keys),
        ):
            if not amount >= 0:
                raise InvalidInput(f"operator {self.name}: {what} must be at least 0, not {amount}")
        for what, share in (("hot share", self.hot_share), ("CPU share", self.cpu_share)):
            if not 0 <= share <= 1:
                raise InvalidInput(f"operator {self.name}: {what} must be between 0 and 1, not {share}")
        for what, count in (("parallelism", self.parallelism), ("works at once", self.works_at_once)):
            if count is not None and count < 1:
                raise InvalidInput(f"operator {self.name}: {what} must be at least 1, not {count}")

    def largest_share(self, parallelism: int) -> float:
        """Share of the rows in the fullest of this many partitions."""
        return self.hot_share + (1 - self.hot_share) / parallelism


@dataclass(frozen=True, slots=True)
class SimApplication:
    """A streaming query in micro-batches.

    >>> SimApplication("words", 100, operators=(SimOperator("split", 0.002),)).load
    Constant(rate=100.0, kind='constant')
    """

    name: str
    load: LoadProfile | float | Mapping[str, Any]
    """A profile, its specification, or a constant rate."""
    interval_s: float = 1.0
    """0 if the next batch starts when the last is done."""
    overhead_s: float = 0.3
    """Planning, offsets, logs and commits of a batch: time in which it uses no slot."""
    operators: tuple[SimOperator, ...] = (SimOperator("work", 0.001),)
    admission_rows: int | None = None
    cold_s: float = 2.0
    """Extra time of the first batch after a start."""
    restart_s: float = 4.0
    """From the last commit before a restart to the next trigger."""
    gated: bool = True
    """Whether its source accepts a new admission limit at once."""
    restartable: bool = True
    sink_s: float = 0.0
    """Time that the sink takes on the driver after the stages of a batch, whatever its size."""
    sink_s_per_row: float = 0.0
    """Additional sink time per row of the batch."""
    repartition_s: float = 8.0
    """Extra time of a restart that changes the parallelism of stateful operators."""
    driver_cpu_s: float = 0.0
    """Driver CPU-seconds per batch. They matter if the driver's CPUs are limited."""
    driver_cpu_s_per_task: float = 0.0
    """Additional driver CPU-seconds per launched task. They lengthen the overhead."""
    state_reload_s: float = 0.2
    """Slot-seconds to load a state partition on an executor that it was moved to."""
    state_first_s: float = 1.8
    """Additional slot-seconds on an executor that has held no state of this application before."""

    def __post_init__(self) -> None:
        if not isinstance(self.load, LoadProfile):
            object.__setattr__(self, "load", profile_from_spec(self.load))
        object.__setattr__(self, "operators", tuple(self.operators))
        for what, seconds in (
            ("interval", self.interval_s),
            ("overhead", self.overhead_s),
            ("cold start", self.cold_s),
            ("restart", self.restart_s),
            ("sink", self.sink_s),
            ("sink per row", self.sink_s_per_row),
            ("repartition", self.repartition_s),
            ("driver CPU", self.driver_cpu_s),
            ("driver CPU per task", self.driver_cpu_s_per_task),
            ("state reload", self.state_reload_s),
            ("first state reload", self.state_first_s),
        ):
            if not 0 <= seconds < float("inf"):
                raise InvalidInput(f"application {self.name}: {what} must be at least 0 seconds, not {seconds}")
        if self.admission_rows is not None and self.admission_rows < 1:
            raise InvalidInput(
                f"application {self.name}: admission must be at least one row, not {self.admission_rows}"
            )
        self._check_operators()

    @property
    def profile(self) -> LoadProfile:
        if not isinstance(self.load, LoadProfile):
            raise TypeError(f"application {self.name}: load has not been read")
        return self.load

    def inputs_of(self, index: int) -> tuple[int, ...]:
        """Positions of the operators that feed operator `index`; none for the first."""
        inputs = self.operators[index].inputs
        if index == 0:
            return ()
        if inputs is None:
            return (index - 1,)
        names = [operator.name for operator in self.operators]
        return tuple(names.index(name) for name in inputs)

    def bytes_onward(self, index: int) -> float:
        """Bytes per row that leaves operator `index`, over all its outputs."""
        later = range(index + 1, len(self.operators))
        return sum(self.operators[child].bytes_per_row for child in later if index in self.inputs_of(child))

    def _check_operators(self) -> None:
        if not self.operators:
            raise InvalidInput(f"application {self.name}: needs at least one operator")
        names = [operator.name for operator in self.operators]
        for index, operator in enumerate(self.operators):
            if operator.name in names[:index]:
                raise InvalidInput(f"application {self.name}: operator {operator.name} is listed twice")
            if index == 0 and operator.inputs:
                raise InvalidInput(
                    f"application {self.name}: {operator.name} comes first, so it can read only the source"
                )
            if index and operator.inputs == ():
                raise InvalidInput(
                    f"application {self.name}: {operator.name} needs an input; the first reads the source"
                )
            for name in operator.inputs or ():
                if name not in names[:index]:
                    raise InvalidInput(
                        f"application {self.name}: {operator.name} reads {name}, which is not listed before it"
                    )
