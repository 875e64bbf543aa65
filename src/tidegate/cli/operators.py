"""`tidegate operators`: load and bottleneck of the operators inside a query, and where their tasks ran."""

from __future__ import annotations

from dataclasses import asdict
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidegate.cli import output
from tidegate.domain import InvalidInput

if TYPE_CHECKING:
    from tidegate.domain import ApplicationSample, BatchSample
    from tidegate.evaluate.profiles import OperatorProfile


def operators(
    journal: Annotated[Path, typer.Argument(help="The SQLite file that a job under Tidegate writes.")],
    application: Annotated[str | None, typer.Option(help="Only this query.")] = None,
    seconds: Annotated[float, typer.Option(min=1, help="How many seconds to look back from the journal's end.")] = 60.0,
    out: output.Out = None,
    json: output.Json = False,
) -> None:
    """Show load, rows, failed tasks, state and cost of every operator in a journal, and the bottleneck.

    Example: tidegate operators out/mestream/mestream.db --out out/operators
    """
    from tidegate.control.journal import read_entries, read_knowledge
    from tidegate.domain.codec import from_tree
    from tidegate.evaluate.bottleneck import aggregate, worst_operator
    from tidegate.evaluate.profiles import profiles_of
    from tidegate.plan.operators import Operators
    from tidegate.plan.operators.memory import OperatorsMemory
    from tidegate.view.operatortable import render_migration, render_operators

    slots, found = 1, dict[str, tuple["ApplicationSample", list["BatchSample"]]]()
    for entry in read_entries(journal):
        if entry.observation is not None:
            slots = max(1, entry.observation.pool.slots)
            for sample in entry.observation.applications:
                _, batches = found.get(sample.name, (sample, []))
                found[sample.name] = (sample, [*batches, *sample.batches])
    if application is not None and application not in found:
        raise InvalidInput(f"{journal}: no query {application!r}; it has {', '.join(found) or 'none'}")
    document = {}
    for name, (sample, batches) in found.items():
        newest_s = batches[-1].committed_s - seconds if batches else 0.0
        recent = [batch for batch in batches if batch.committed_s >= newest_s]
        metrics = aggregate(sample, recent)
        if metrics is None or application not in {None, name}:
            continue
        profiles = profiles_of(recent, slots)
        document[name] = {
            **asdict(metrics),
            "bottleneck": asdict(worst_operator(metrics, slots)),
            "profiles": [_plain(profile) for profile in profiles],
        }
        output.console.print(render_operators(metrics, profiles, slots))
        if out is not None:
            from tidegate.view.operatorgraph import draw_operators

            output.console.print(f"written: {draw_operators(metrics, slots, out / f'{name}.png')}")
    if not document:
        output.console.print("no warm batch with known stages in that time; try a larger --seconds")
    knowledge = read_knowledge(journal)
    saved = knowledge.parts.get(Operators.name) if knowledge is not None else None
    memory = from_tree(OperatorsMemory, saved) if isinstance(saved, dict) else OperatorsMemory()
    for table in memory.tables[-1:]:
        output.console.print(render_migration(table, None if application is None else [application]))
    if json:
        output.print_json(document)


def _plain(profile: OperatorProfile) -> dict[str, Any]:
    """As JSON. An operator that took no time has no largest rate."""
    most = profile.sustainable_rows_per_s
    return asdict(profile) | {"sustainable_rows_per_s": most if isfinite(most) else None}
