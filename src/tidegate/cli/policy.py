"""`tidegate policy`: checks a policy file, or shows all settings."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer
import yaml

from tidegate.cli import output
from tidegate.cli.policyreference import policy_reference
from tidegate.control.policyfile import load_policy
from tidegate.domain.policy import Policy
from tidegate.domain.qostables import QosGraph, QosRow


def policy(
    file: Annotated[Path | None, typer.Argument(help="Policy file to check. Default: show the defaults.")] = None,
    reference: Annotated[bool, typer.Option(help="Print a reference of all settings, as Markdown.")] = False,
    json: output.Json = False,
) -> None:
    """Check a policy file and show the resulting policy, with all defaults filled in.

    Every problem is reported on its own line, and the exit code is 2.

    Example: tidegate policy examples/policy.yaml
    """
    if reference:
        typer.echo(policy_reference(), nl=False)
        return
    loaded = load_policy(file)
    effective = loaded.model_dump(mode="json")
    if json:
        output.print_json(effective)
        return
    if file is not None:
        for line in _qos_lines(loaded):
            output.console.print(line)
        output.console.print(f"{file}: valid; with all defaults it is")
    typer.echo(yaml.safe_dump(effective, sort_keys=False), nl=False)


def _qos_lines(policy: Policy) -> Iterator[str]:
    """Which rows of QoS tables and which QoS graphs count in decisions, by application."""
    for name, rule in policy.applications.items():
        wanted: tuple[QosRow | QosGraph, ...] = (*rule.qos_table, *rule.qos_graphs)
        for what, some in (
            ("counts in decisions", [str(one) for one in wanted if one.share is not None]),
            ("only monitored", [str(one) for one in wanted if one.share is None]),
        ):
            if some:
                yield f"{name}: {what}: {'; '.join(some)}"
