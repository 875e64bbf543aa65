"""Why an application is slow, whether more tasks can help, and if not, what would."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tidegate.domain.python310 import StrEnum
from tidegate.evaluate.bottleneck.metrics import ApplicationMetrics, OperatorMetrics
from tidegate.evaluate.bottleneck.scaling import Rescaling, row_gain_s
from tidegate.evaluate.bottleneck.times import UNEVEN, BottleneckTime

LEAST_GAIN = 0.15
"""Share of a batch that a new parallelism must save. Less is within the variation between two runs."""
_LEAST_ROW_GAIN = 0.1  # share of a row's latency, including its wait for the batch
_DOMINATES = 0.5
_WAITS_FOR_TRIGGER = 3.0


class Cause(StrEnum):
    """What limits an application."""

    FEW_TASKS = "few-tasks"
    SMALL_TASKS = "small-tasks"
    SKEW = "skew"
    SLOW_SINK = "slow-sink"
    DRIVER = "driver-bound"
    TRIGGER = "trigger-bound"
    SERIAL = "serial"
    SLOTS = "no-free-slots"
    NOTHING = "no-better-parallelism"


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What limits an application, in which operator, and a sentence about the remedy."""

    cause: Cause
    operator: str | None
    text: str

    @property
    def rescale(self) -> bool:
        """Does a different parallelism help?"""
        return self.cause in {Cause.FEW_TASKS, Cause.SMALL_TASKS}


def diagnose(
    metrics: ApplicationMetrics,
    worst: BottleneckTime,
    rescaling: Rescaling,
    slots: int,
    useless: Mapping[str, str],
    suffices: bool,
) -> Diagnosis:
    """Name the cause. `useless` are operators for which more tasks are known not to help, and why.

    `suffices`: the rescaling alone would meet the objective. If the driver takes most of a batch, nothing less is worth
    a restart.
    """
    driver = metrics.driver
    fixed_s = driver.planning_s + driver.offsets_s + driver.log_s
    outside = _outside(metrics, fixed_s)
    dominated = max(driver.sink_s, fixed_s) >= _DOMINATES * metrics.batch_s
    waits = metrics.interval_s > _WAITS_FOR_TRIGGER * metrics.batch_s
    if dominated and not suffices and not waits:
        return outside
    row_s = max(metrics.interval_s, metrics.batch_s) + metrics.batch_s
    worth = row_gain_s(metrics, rescaling.gain_s) >= _LEAST_ROW_GAIN * row_s
    if rescaling.after and worth and rescaling.gain_s >= LEAST_GAIN * metrics.batch_s:
        return _rescale(metrics, worst, rescaling)
    if waits:
        return Diagnosis(
            Cause.TRIGGER,
            None,
            f"rows wait for their trigger, every {metrics.interval_s:.2f} s; a batch takes {metrics.batch_s:.2f} s: "
            "a shorter interval would help",
        )
    if max(driver.sink_s, fixed_s) > max(operator.execute_latency_s for operator in metrics.operators):
        return outside
    operator = next(known for known in metrics.operators if known.name == worst.operator)
    return _stuck(operator, worst, rescaling, slots, useless)


def _outside(metrics: ApplicationMetrics, fixed_s: float) -> Diagnosis:
    driver, batch_s = metrics.driver, metrics.batch_s
    if driver.sink_s >= fixed_s:
        return Diagnosis(
            Cause.SLOW_SINK,
            None,
            f"the sink takes {driver.sink_s:.2f} s of {batch_s:.2f} s a batch, on the driver, when all tasks are done: "
            "more tasks would not help; make the sink faster, or write from the tasks",
        )
    return Diagnosis(
        Cause.DRIVER,
        None,
        f"the driver takes {fixed_s:.2f} s of {batch_s:.2f} s a batch (planning {driver.planning_s:.2f} s, offsets "
        f"{driver.offsets_s:.2f} s, log {driver.log_s:.2f} s) in which no task runs: more tasks would not help; "
        "fewer, larger batches or a faster checkpoint store would help",
    )


def _rescale(metrics: ApplicationMetrics, worst: BottleneckTime, rescaling: Rescaling) -> Diagnosis:
    share = (
        f"{worst.operator} is the bottleneck ({worst.kind}, {worst.time_s:.2f} s of {metrics.batch_s:.2f} s a batch)"
    )
    name = worst.operator
    if rescaling.after.get(name, 0) >= rescaling.before.get(name, 0):
        return Diagnosis(Cause.FEW_TASKS, worst.operator, share)
    return Diagnosis(Cause.SMALL_TASKS, worst.operator, f"{share}: its tasks are too small, fewer are faster")


def _stuck(
    operator: OperatorMetrics, worst: BottleneckTime, rescaling: Rescaling, slots: int, useless: Mapping[str, str]
) -> Diagnosis:
    share = f"{operator.name} ({worst.kind}, {worst.time_s:.2f} s a batch)"
    if operator.parallelism > 1 and operator.skew is not None and operator.skew >= UNEVEN:
        where = "one partition" if operator.slowest_task is None else f"partition {operator.slowest_task}"
        return Diagnosis(
            Cause.SKEW,
            operator.name,
            f"{share} waits for {where}, {operator.skew:.1f} times the mean task: more tasks would not split its key; "
            "salt the key, or aggregate before the exchange",
        )
    if operator.name in useless:
        return Diagnosis(Cause.SERIAL, operator.name, f"{share}: {useless[operator.name]}")
    if rescaling.after:
        text = f"{share}: another parallelism would save {rescaling.gain_s:.2f} s a batch, too little for a restart"
        return Diagnosis(Cause.NOTHING, operator.name, text)
    if operator.parallelism >= slots:
        return Diagnosis(
            Cause.SLOTS,
            operator.name,
            f"{share} has {operator.parallelism} tasks on {slots} slots: more tasks would wait for slots; "
            "more executors would help",
        )
    return Diagnosis(Cause.NOTHING, operator.name, f"{share}: no other parallelism is faster on the free slots")
