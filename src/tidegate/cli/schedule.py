"""`tidegate schedule`: assigns tasks to hosts, with a bound on how good the result is."""

from __future__ import annotations

import json as json_text
import time
from pathlib import Path
from typing import Annotated

import typer

from tidegate.cli import output
from tidegate.domain import InvalidInput


def schedule(
    instance: Annotated[Path, typer.Argument(help='JSON: {"hosts": […], "tasks": […]}; see docs/placement.md.')],
    scheduler: Annotated[str, typer.Option(help="Scheduler; `tidegate` searches and proves a bound.")] = "tidegate",
    seed: Annotated[int, typer.Option(min=0, help="Seed of everything random.")] = 1,
    islands: Annotated[int, typer.Option(min=1, help="Independent searches; the best is kept (tidegate only).")] = 1,
    engine: Annotated[str, typer.Option(help="Where the islands run: local or spark.")] = "local",
    out: output.Out = None,
    json: output.Json = False,
) -> None:
    """Assign tasks to as few hosts as possible, so that the peaks of some fall into the valleys of others.

    Example: tidegate schedule examples/instance.json --scheduler best-fit
    """
    import numpy as np

    from tidegate.placement import InvalidInstance, read_instance, solve_islands
    from tidegate.placement import scheduler as scheduler_named

    try:
        chosen = scheduler_named(scheduler)
    except ValueError as error:
        raise InvalidInput(f"--scheduler: {error}") from None
    if engine not in {"local", "spark"}:
        raise InvalidInput(f"--engine {engine!r}: use local or spark")
    if scheduler != "tidegate" and (islands > 1 or engine != "local"):
        raise InvalidInput("--islands and --engine spark work only with --scheduler tidegate")
    try:
        problem = read_instance(json_text.loads(instance.read_text(encoding="utf-8")))
    except OSError as error:
        raise InvalidInput(f"{instance}: cannot be read ({error.strerror})") from None
    except ValueError as error:  # not JSON, or not a valid instance
        what = str(error) if isinstance(error, InvalidInstance) else f"not JSON ({error})"
        raise InvalidInput(f"{instance}: {what}") from None
    began_s = time.perf_counter()
    if islands == 1 and engine == "local":
        found = chosen.schedule(problem, np.random.default_rng(seed))
    else:
        seeds = [seed + island for island in range(islands)]
        if engine == "spark":
            from tidegate.adapters.spark.embedded import embedded_session
            from tidegate.adapters.spark.islands import spark_engine

            with output.jvm_output_to((out or Path("out")) / "spark.log"):
                spark = embedded_session("tidegate-islands", executors=1, most_executors=1, slots=2)
            found = solve_islands(problem, seeds, engine=spark_engine(spark.sparkContext))
            spark.stop()
        else:
            found = solve_islands(problem, seeds)
    document = found.to_json(seconds=round(time.perf_counter() - began_s, 3))
    if out is not None:
        from tidegate.placement.figure import draw_schedule

        out.mkdir(parents=True, exist_ok=True)
        (out / "schedule.json").write_text(json_text.dumps(document, indent=1))
        draw_schedule(problem, found, out / "schedule.png")
        output.console.print(f"written: {out / 'schedule.json'}, {out / 'schedule.png'}")
    if json:
        output.print_json(document)
        return
    verdict = "proven optimal" if found.proven_optimal else f"at least {found.lower_bound} are needed"
    typer.echo(f"{found.used_hosts} hosts used ({verdict}), utilisation {found.utilisation:.1%}, ", nl=False)
    typer.echo(f"overload {found.overload:.2%}, {found.migrations} migrations, {document['seconds']} s")
    by_host: dict[str, list[str]] = {}
    for task, host in found.assignment.items():
        by_host.setdefault(host, []).append(task)
    for host, tasks in by_host.items():
        typer.echo(f"  {host}: {', '.join(tasks)}")
