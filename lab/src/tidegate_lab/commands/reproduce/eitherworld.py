"""Experiments that run on Spark or, with `--world sim`, simulated."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidegate.cli import output
from tidegate.domain import InvalidInput
from tidegate_lab.commands.reproduce.bars import counted, timed
from tidegate_lab.commands.reproduce.options import Options

if TYPE_CHECKING:
    from rich.table import Table

    from tidegate_lab.experiments.model_check import Configuration

_TOGETHER = "together: p99, objective and pause in seconds, cost in executor-seconds"


def run_together(options: Options) -> dict[str, Any]:
    from tidegate_lab.experiments import together

    scenario, names = together.scenario(), options.runs or together.RUNS
    if unknown := [name for name in names if name not in together.RUNS]:
        raise InvalidInput(f"together --only {unknown[0]}: use some of {', '.join(together.RUNS)}")
    world: together.World
    if options.world == "sim":
        from tidegate_lab.experiments.together_sim import SimWorld

        world = SimWorld(options.seed)
    else:
        from tidegate_lab.experiments.together_spark import SparkWorld

        world = SparkWorld(options.out or Path("out/together"))
    with counted("together") as told:
        document = together.run(world, scenario, told, names)
    output.console.print(_together_table(document))
    return document


def _together_table(document: dict[str, Any]) -> Table:
    classes = document["objectives"]
    table = output.table("run", "class", "late", "p99", "objective", "cost", "changes", "pause", title=_TOGETHER)
    for name, run in document["runs"].items():
        for place, (group, objective_s) in enumerate(classes.items()):
            costs = (f"{run['executor_seconds']:.0f}", str(run["reconfigurations"]), f"{run['pause_s']:.1f}")
            table.add_row(
                "" if place else name,
                group,
                f"{run['violation_rate'][group]:.2%}",
                f"{run['p99_s'][group]:.1f}",
                f"{objective_s:g}",
                *(("", "", "") if place else costs),
            )
    return table


def run_model_check(options: Options) -> dict[str, Any]:

    from tidegate_lab.experiments import model_check
    from tidegate_lab.experiments.model_check_worlds import SimModelWorld, spark_model_world

    simulated = options.world == "sim"
    where = nullcontext(SimModelWorld(options.seed)) if simulated else spark_model_world(_model_folder(options))
    with counted("model check") as told, where as world:
        document = model_check.run(world, told, _chosen(options.runs, model_check.CONFIGURATIONS))
    table = output.table(
        "tasks", "interval", "rows/s", "busy", "predicted p99", "measured p99", "error", title="model check"
    )
    for one in document["configurations"]:
        table.add_row(
            str(one["tasks"]),
            f"{one['interval_s']:g} s",
            f"{one['rows_per_s']:.0f}",
            f"{one['utilisation']:.2f}",
            f"{one['predicted_p99_s']:.2f} s",
            f"{one['measured_p99_s']:.2f} s",
            f"{one['error']:.0%}",
        )
    output.console.print(table)
    output.console.print(f"median error: {document['median_error']:.1%}")
    return document


def _chosen(numbers: tuple[str, ...], configurations: tuple[Configuration, ...]) -> tuple[Configuration, ...]:
    """The configurations with these numbers, from 1; all if none is given."""
    if wrong := [one for one in numbers if not one.isdecimal() or not 1 <= int(one) <= len(configurations)]:
        raise InvalidInput(f"model-check --only {wrong[0]}: use numbers from 1 to {len(configurations)}")
    return tuple(configurations[int(one) - 1] for one in numbers) or configurations


def _model_folder(options: Options) -> Path:
    return options.out or Path("out/model-check")


def run_twin(options: Options) -> dict[str, Any]:
    from tidegate_lab.experiments import twin_check

    where: AbstractContextManager[twin_check.World]
    if options.world == "sim":
        where = nullcontext(twin_check.SimTwinWorld(options.seed))
    else:
        from tidegate_lab.experiments.twin_spark import spark_twin_world

        where = spark_twin_world()
    with timed() as told, where as world:
        document = twin_check.check(world, options.out or Path("out/twin"), told)
    table = output.table("", "over the objective", "executor-seconds", "p99", title="a run that the twin did not see")
    for name, found in document.items():
        table.add_row(name, f"{found['late']:.1%}", f"{found['executor_seconds']:,.0f}", f"{found['p99_s']:.1f} s")
    output.console.print(table)
    return document
