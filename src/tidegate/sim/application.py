"""What a micro-batch application is like: its load, its trigger, its operators and what they cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tidegate.domain.errors import InvalidInput
from tidegate.load import LoadProfile, profile_from_spec


@dataclass(frozen=True, slots=True)
class SimOperator:
    """A stage of every batch: `cost_s_per_row` slot-seconds for a row, at most `parallelism` slots at once."""

    name: str
    cost_s_per_row: float
    parallelism: int = 8
    selectivity: float = 1.0
    inputs: tuple[str, ...] | None = None
    """Operators that feed it; left out: the one before it in the list."""

    def __post_init__(self) -> None:
        if not self.cost_s_per_row >= 0:
            raise InvalidInput(f"operator {self.name}: cost per row is 0 or more seconds, not {self.cost_s_per_row}")
        if not self.selectivity >= 0:
            raise InvalidInput(f"operator {self.name}: selectivity is 0 or more, not {self.selectivity}")
        if self.parallelism < 1:
            raise InvalidInput(f"operator {self.name}: parallelism is at least 1, not {self.parallelism}")


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
    """0: the next batch starts when the last is done."""
    overhead_s: float = 0.3
    """Planning, offsets, logs and commits of a batch: time in which it uses no slot."""
    operators: tuple[SimOperator, ...] = (SimOperator("work", 0.001),)
    admission_rows: int | None = None
    cold_s: float = 2.0
    """What the first batch after a start takes longer."""
    restart_s: float = 4.0
    """From the last commit before a restart to the next trigger."""
    gated: bool = True
    restartable: bool = True

    def __post_init__(self) -> None:
        if not isinstance(self.load, LoadProfile):
            object.__setattr__(self, "load", profile_from_spec(self.load))
        object.__setattr__(self, "operators", tuple(self.operators))
        for what, seconds in (
            ("interval", self.interval_s),
            ("overhead", self.overhead_s),
            ("cold start", self.cold_s),
            ("restart", self.restart_s),
        ):
            if not 0 <= seconds < float("inf"):
                raise InvalidInput(f"application {self.name}: {what} is 0 or more seconds, not {seconds}")
        if self.admission_rows is not None and self.admission_rows < 1:
            raise InvalidInput(f"application {self.name}: admission is at least one row, not {self.admission_rows}")
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

    def _check_operators(self) -> None:
        if not self.operators:
            raise InvalidInput(f"application {self.name}: needs at least one operator")
        names = [operator.name for operator in self.operators]
        for index, operator in enumerate(self.operators):
            if operator.name in names[:index]:
                raise InvalidInput(f"application {self.name}: operator {operator.name} is there twice")
            if index == 0 and operator.inputs:
                raise InvalidInput(f"application {self.name}: {operator.name} comes first and reads the source alone")
            if index and operator.inputs == ():
                raise InvalidInput(
                    f"application {self.name}: {operator.name} needs an input; the first reads the source"
                )
            for name in operator.inputs or ():
                if name not in names[:index]:
                    raise InvalidInput(
                        f"application {self.name}: {operator.name} reads {name}, which is not listed before it"
                    )
