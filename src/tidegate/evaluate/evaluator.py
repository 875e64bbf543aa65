"""From observation to evaluation: learns from observations and states what is known. It never plans or acts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tidegate.domain import BatchSample, Objective, Observation, Reason
from tidegate.domain.codec import from_tree, to_tree
from tidegate.domain.policy import Policy
from tidegate.evaluate import alone, lateness, profiles, qos, quality, residual, waves, workload
from tidegate.evaluate.evaluation import Detail, Evaluation
from tidegate.evaluate.expected import ALL_AT_ONCE, ClassForecasts, Expected
from tidegate.evaluate.forecast.arrivals import FINE_S, ArrivalForecaster, Recent
from tidegate.evaluate.intake import Intake, Reader
from tidegate.evaluate.lateness import Budgets, Promises
from tidegate.evaluate.profiles import ProfileMemory
from tidegate.evaluate.qos import QosMemory
from tidegate.evaluate.residual import ResidualMemory
from tidegate.evaluate.saturation import SaturationMemory, judge, largest
from tidegate.evaluate.table import Flags, Floats, Ints, Table
from tidegate.evaluate.violations import ClassCounts, ClassProfile, ClassReport, record, report
from tidegate.evaluate.waves import WavesMemory
from tidegate.evaluate.workload import Loads, SetAside, Workload
from tidegate.model.batch import batch_time
from tidegate.model.sharing import room
from tidegate.model.slotpath import effective_slots_at

MAX_ABSENT = 64
"""Knowledge of stopped applications that is kept, most recent first."""
DETAILS_PER_STEP = 16
"""Applications whose operators, tables and residuals are examined in one step. With more, they take turns."""
_OBJECTIVE_WINDOW_S = 60.0
"""The window of the error budget if no class sets one."""


@dataclass(slots=True)
class DetailMemory:
    """Memory of one application beyond its columns."""

    operators: ProfileMemory = field(default_factory=ProfileMemory)
    qos: QosMemory = field(default_factory=QosMemory)
    residual: ResidualMemory = field(default_factory=ResidualMemory)
    waves: WavesMemory = field(default_factory=WavesMemory)


@dataclass(slots=True)
class EvaluationMemory:
    """Everything the evaluator remembers between two steps."""

    step: int = 0
    table: Table = field(default_factory=lambda: Table({**workload.COLUMNS, **lateness.COLUMNS}))
    details: dict[str, DetailMemory] = field(default_factory=dict)
    classes: dict[str, ClassProfile] = field(default_factory=dict)
    saturation: SaturationMemory = field(default_factory=SaturationMemory)
    executors: int = 0
    settled_s: float = 0.0
    """Batches that began before this time ran beside cold executors."""
    turn: int = 0
    """Whose details are examined next."""
    arrivals: ArrivalForecaster = field(default_factory=ArrivalForecaster)
    counted_s: float = 0.0
    """The newest count of arrivals passed to the forecasts."""
    told_s: float = 0.0
    class_rows: dict[str, float] = field(default_factory=dict)
    """Rows that have arrived at each class, if there are too many applications to forecast one by one."""

    def state(self) -> dict[str, Any]:
        """Everything as plain values and arrays, for saving."""
        return {
            "step": self.step,
            "table": self.table.state(),
            "details": {name: to_tree(known) for name, known in self.details.items()},
            "classes": {name: to_tree(known) for name, known in self.classes.items()},
            "saturation": to_tree(self.saturation),
            "executors": self.executors,
            "settled_s": self.settled_s,
            "turn": self.turn,
            "arrivals": {
                name: list(map(str, value)) if value.dtype.kind == "U" else value
                for name, value in self.arrivals.state().items()
            },
            "counted_s": self.counted_s,
            "told_s": self.told_s,
            "class_rows": dict(self.class_rows),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore what `state` returned."""
        self.step, self.executors = state["step"], state["executors"]
        self.settled_s, self.turn = state["settled_s"], state["turn"]
        self.table.restore(state["table"])
        self.details = {name: from_tree(DetailMemory, known) for name, known in state["details"].items()}
        self.classes = {name: from_tree(ClassProfile, known) for name, known in state["classes"].items()}
        self.saturation = from_tree(SaturationMemory, state["saturation"])
        self.arrivals = ArrivalForecaster.from_state(
            {
                name: np.array(value, dtype=np.str_) if isinstance(value, list) else value
                for name, value in state["arrivals"].items()
            }
        )
        self.counted_s, self.told_s = state["counted_s"], state["told_s"]
        self.class_rows = dict(state.get("class_rows", {}))


@dataclass(frozen=True, slots=True)
class Promised:
    """What follows from the policy and the names of the applications alone."""

    names: tuple[str, ...]
    promises: Promises
    ignored: Flags
    places: Mapping[str, int]
    members: Mapping[str, Ints]
    """The indices of each class's applications."""
    forecast: tuple[str, ...]
    """What is forecast: the applications and, if there are too many to examine each, the sums of the classes."""


class Evaluator:
    """Evaluates one observation after another. Its whole state is `memory`."""

    def __init__(self, policy: Policy, memory: EvaluationMemory) -> None:
        self.policy = policy
        self.memory = memory
        self._reader = Reader(memory.table)
        self._promised: Promised | None = None
        self._class_forecasts = ClassForecasts()

    def evaluate(self, observation: Observation, spent_s: float = 0.0) -> Evaluation:
        """Learn from the observation, and return everything that is known.

        `spent_s`: executor-seconds that the budget day has cost so far.
        """
        memory, policy, now_s = self.memory, self.policy, observation.time_s
        memory.step += 1
        self._settle(observation)
        intake = self._reader.read(observation.applications)
        names = intake.names
        promised = self._promises(names)
        promises = promised.promises
        by_class = tuple(policy.classes) if len(names) > ALL_AT_ONCE else ()
        before = memory.table["arrived"][intake.rows] if by_class else None
        aside, loads, budgets, codes = self._figures(intake, promises, now_s)
        planned = ~(promised.ignored | intake.status.bounded)
        usable = planned & (codes == quality.USABLE) & loads.known
        details = self._details(intake, observation, loads, promises.weight)
        found = Evaluation(
            step=memory.step,
            time_s=now_s,
            policy=policy,
            pool=observation.pool,
            hosts=observation.hosts,
            samples=observation.applications,
            loads=loads,
            promises=promises,
            budgets=budgets,
            codes=codes,
            planned=planned,
            usable=usable,
            telling=intake.telling,
            status=intake.status,
            limits=intake.limits,
            busy_s=intake.busy_s(len(memory.table)),
            places=promised.places,
            expected=self._expect(intake, now_s, promised, loads, by_class, before),
            details=details,
            saturation=judge(
                memory.saturation,
                largest(names, usable, loads),
                next((host.signal for host in observation.hosts if host.signal is not None), None),
            ),
            classes=self._classes(intake, promised),
            set_aside=tuple([_aside(memory.table, one) for one in aside]),
            spent_s=spent_s,
            fleet=observation.fleet,
            standing=observation.standing,
        )
        self._forget(names)  # last, because it renumbers the rows of the table
        return found

    def _figures(
        self, intake: Intake, promises: Promises, now_s: float
    ) -> tuple[tuple[SetAside, ...], Loads, Budgets, Ints]:
        """Learn from batches and arrivals. Returns the current loads, budgets and quality of the metrics."""
        table, settled_s, max_age_s = self.memory.table, self.memory.settled_s, self.policy.guards.max_age_s
        if alone.stands_alone(intake):
            aside = alone.learn(table, intake, promises, settled_s)
            loads = alone.read(table, intake, now_s)
            codes = alone.judge(table, intake, loads.row_s.item(0), now_s, max_age_s)
            return aside, loads, alone.budgets(table, intake, promises, now_s), codes
        aside = workload.learn(table, intake, settled_s)
        self._learn_tasks(intake)
        lateness.learn(table, intake, promises)
        loads = workload.read(table, intake, now_s)
        codes = quality.judge(table, intake, loads.row_s, now_s, max_age_s)
        return aside, loads, lateness.read(table, intake, promises, now_s), codes

    def _learn_tasks(self, intake: Intake) -> None:
        """Learn unknown tasks at once, without waiting for the application's turn, because they bound the plan."""
        table = self.memory.table
        for batches in intake.rounds:
            unknown = np.isnan(table["parallelism"][batches.rows])
            for at in np.flatnonzero(unknown).tolist() if unknown.any() else ():
                workload.learn_tasks(table, int(batches.rows[at]), batches.sample(at))

    def _settle(self, observation: Observation) -> None:
        """New executors are cold for a while: batches beside them are slow for reasons other than load."""
        registered = observation.pool.registered
        if registered > self.memory.executors > 0:
            self.memory.settled_s = observation.time_s + observation.pool.warmup_s
        self.memory.executors = registered

    def _promises(self, names: tuple[str, ...]) -> Promised:
        """Objectives as columns. Computed again only when the applications change."""
        if self._promised is not None and self._promised.names == names:
            return self._promised
        policy = self.policy
        rows, groups = [], {name: number for number, name in enumerate(policy.classes)}
        for name in names:
            objective, allowed, window_s = policy.objective_of(name), None, _OBJECTIVE_WINDOW_S
            rule, group = policy.class_of(name), policy.class_name(name)
            if group is not None:
                allowed, window_s = rule.violations, rule.window_s
            allowed = allowed or objective.violation_bound
            number = groups.setdefault(group or name, len(groups))
            rows.append((objective.latency_s, objective.percentile, allowed, window_s, rule.weight, rule.floor, number))
        latency_s, percentile, allowed_of, windows_s, weight, floor, group_of = np.ascontiguousarray(
            np.array(rows, dtype=np.float64).reshape(-1, 7).T
        )
        promises = Promises(
            latency_s=latency_s,
            percentile=percentile,
            allowed=allowed_of,
            window_s=windows_s,
            weight=weight,
            floor=floor,
            group=group_of.astype(np.int64),
            level=np.unique(-weight, return_inverse=True)[1].astype(np.int64),
            groups=tuple(groups),
        )
        ignored = np.array([policy.ignores(name) for name in names], dtype=np.bool_)
        members = {name: np.flatnonzero(promises.group == number) for number, name in enumerate(policy.classes)}
        places = {name: place for place, name in enumerate(names)}
        sums = tuple(f"Σ {name}" for name in policy.classes) if len(names) > ALL_AT_ONCE else ()
        self._promised = Promised(names, promises, ignored, places, members, names + sums)
        return self._promised

    def _expect(
        self, intake: Intake, now_s: float, promised: Promised, loads: Loads, classes: tuple[str, ...],
        before: Floats | None,
    ) -> Expected:  # fmt: skip
        """Pass the arrivals counted since the last step to the forecasts.

        If there are too many applications to examine every forecast, the forecasts of the classes' sums stand in for
        the near future. The applications themselves are forecast by the minute only; until then their recent level is
        assumed.
        """
        memory = self.memory
        counted_s, arrived = memory.table.gather(memory.table.span("arrived_s", "arrived"), intake.rows)
        fresh = counted_s > memory.counted_s
        if np.count_nonzero(fresh) == len(fresh):
            memory.counted_s, totals = float(counted_s.max(initial=memory.counted_s)), arrived
        else:
            memory.counted_s = float(counted_s.max(initial=memory.counted_s, where=fresh))
            totals = np.where(fresh, arrived, np.nan)
        memory.told_s = max(memory.told_s, now_s)  # the clock may have been set back
        if before is not None:
            promises = promised.promises
            news = np.fmax(arrived - before, 0.0)  # a source that restarts its count adds nothing
            sums = np.bincount(promises.group, news, len(promises.groups))[: len(classes)]
            for name, more in zip(classes, sums.tolist(), strict=True):
                memory.class_rows[name] = memory.class_rows.get(name, 0.0) + more
            totals = np.concatenate([totals, [memory.class_rows[name] for name in classes]])
        many = len(intake.names) > ALL_AT_ONCE
        memory.arrivals.tell(memory.told_s, promised.forecast, totals, near_from=len(intake.names) if many else 0)
        # The variance of the rate is per second; that of a bucket's mean is smaller by its length.
        noise = memory.table["noise"][intake.rows] if many else None
        recent = None if noise is None else Recent(loads.expected, np.sqrt(noise / FINE_S))
        if classes:
            self._class_forecasts.look(now_s, memory.arrivals, len(intake.names), len(classes))
        return Expected(memory.arrivals, len(intake.names), self._class_forecasts if classes else None, recent)

    def _details(self, intake: Intake, observation: Observation, loads: Loads, weight: Floats) -> dict[str, Detail]:
        """Operators, tables and residuals of the applications whose turn it is."""
        samples, memory = intake.samples, self.memory
        count = len(samples)
        places = range(count)
        if count > DETAILS_PER_STEP:
            places = range(memory.turn % count, memory.turn % count + DETAILS_PER_STEP)
            memory.turn = (memory.turn + DETAILS_PER_STEP) % count
        busy = np.fmax(loads.arrival * (loads.row_s + loads.batch_s / np.maximum(loads.arrival, 1.0)), 0.0)
        all_busy = busy.item(0) if count == 1 else float(busy.sum())
        pressure = max((host.cpu_pressure or 0.0 for host in observation.hosts), default=0.0)
        slots = observation.pool.slots
        busy_from: dict[float, float] = {}
        """Busy slots of all applications of at least this weight."""
        found: dict[str, Detail] = {}
        for turn in places:
            place = turn % count
            sample = samples[place]
            known = memory.details.get(sample.name)
            if known is None:
                known = memory.details[sample.name] = DetailMemory()
            own = busy.item(place)
            arrival, others = max(loads.arrival.item(place), 0.0), all_busy - own
            metrics = [0.0, 0.0, arrival, 0.0, 0.0, others, float(slots), pressure]
            work = loads.of(place) if sample.batches else None
            if sample.rebalancing:  # its new number of tasks is not known before its first batch
                known.operators = ProfileMemory()
                memory.table["parallelism"][intake.rows[place]] = np.nan
            for batch in sample.batches:
                workload.learn_tasks(memory.table, int(intake.rows[place]), batch)
                profiles.learn(known.operators, batch)
                if work is None or batch.warming or not batch.rows or batch.overhead_s is None:
                    continue
                metrics[0], metrics[1] = float(batch.rows), float(batch.backlog_rows or 0)
                metrics[3], metrics[4] = float(batch.state_rows or 0), batch.overhead_s
                level = weight.item(place)
                if level not in busy_from:
                    busy_from[level] = own if count == 1 else float(busy[weight >= level].sum())
                share = room(own, busy_from[level] - own, all_busy, slots)
                modelled_s = batch_time(work.cost, batch.rows, _usable(known, work, batch, share * slots))
                if modelled_s > 0:
                    residual.learn(known.residual, metrics, batch.duration_s / modelled_s)
            wanted = qos.wanted_of(self.policy, sample.name)
            if wanted and not sample.bounded:
                qos.observe(known.qos, sample, wanted, observation.time_s)
            found[sample.name] = Detail(
                operators=known.operators,
                slots=slots,
                residuals=known.residual,
                metrics=metrics,
                qos=tuple([qos.evaluate(known.qos, sample.name, one) for one in wanted if not sample.bounded]),
                in_waves=known.waves.in_waves,
            )
        return found

    def _classes(self, intake: Intake, promised: Promised) -> tuple[ClassReport, ...]:
        """Rows, and rows over the objective, of every service class in its own window."""
        policy, memory, promises = self.policy, self.memory, promised.promises
        if not policy.classes:
            return ()
        for batches in intake.rounds:
            at = intake.index_in(batches, ~np.isnan(batches.max_s) & ~batches.warming, len(memory.table))
            for name, places in promised.members.items():
                present, mine = places, places
                if at is not None:
                    mine = at[places]
                    present, mine = places[mine >= 0], mine[mine >= 0]
                if not len(mine):
                    continue
                last = int(places[-1])  # if objectives differ, the last one stands for the class
                objective = Objective(float(promises.latency_s[last]), float(promises.percentile[last]))
                bounds_s = promises.latency_s[present]
                counts = ClassCounts(
                    rows=float(batches.size[mine].sum()),
                    late_rows=float(lateness.late_rows(batches, mine, bounds_s).sum()),
                    worst_p99_s=float(batches.p99_s[mine].max()),
                )
                profile = memory.classes.setdefault(name, ClassProfile())
                committed_s = float(batches.committed_s[mine].max())
                record(profile, committed_s, counts, policy.classes[name].with_objective(objective))
        return report(memory.classes)

    def _forget(self, names: tuple[str, ...]) -> None:
        """Keep knowledge of at most `MAX_ABSENT` stopped applications, most recent first."""
        memory = self.memory
        if len(memory.table) <= len(names) + MAX_ABSENT:
            return
        present = set(names)
        absent = [name for name in memory.table.names if name not in present]
        memory.table.keep(present | set(absent[-MAX_ABSENT:]))
        memory.details = {name: known for name, known in memory.details.items() if memory.table.row(name) is not None}


def _usable(known: DetailMemory, work: Workload, batch: BatchSample, slots: float) -> float:
    """Slots that the batch kept busy on average according to the rollouts, whose error is then learned.

    Whether tasks come in waves is learned from the batch first.
    """
    operators = [one for one in known.operators.operators.values() if one.batches and one.busy > 0]
    if not operators:
        return float(slots if work.parallelism is None else min(slots, work.parallelism))
    tasks, shares = [one.parallelism for one in operators], [one.busy for one in operators]
    if slots > 0:
        return waves.learn(known.waves, work.cost, waves.WarmBatch(batch.rows, slots, tasks, shares, batch.duration_s))
    return effective_slots_at(slots, tasks, shares, known.waves.in_waves)


def _aside(table: Table, one: SetAside) -> Reason:
    what = "held its slots" if one.metric == "cost" else "spent outside of tasks"
    text = f"{table.names[one.application_row]}: batch {one.batch_id} {what} {one.ratio:.1f} times as long as usual"
    return Reason("abnormal", f"{text}; its times are not learned from")
