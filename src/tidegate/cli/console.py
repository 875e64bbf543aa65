"""`tidegate console`: the live page over journals on disk."""

from __future__ import annotations

import webbrowser
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidegate.cli import output
from tidegate.domain import InvalidInput
from tidegate.domain.rules import ConsoleRule

if TYPE_CHECKING:
    from tidegate.view.panels import FleetNow


def console(
    journals: Annotated[
        list[Path],
        typer.Argument(help="Journals of jobs under Tidegate, folders with journals, or a fleet's folder."),
    ],
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 picks a free one.")] = 4050,
    host: Annotated[str, typer.Option(help="Address to listen on. All but loopback need a token.")] = "127.0.0.1",
    token_file: Annotated[Path | None, typer.Option(help="File with the token (or TIDEGATE_CONSOLE_TOKEN).")] = None,
    certificate: Annotated[Path | None, typer.Option(help="Certificate file (PEM) for HTTPS.")] = None,
    key: Annotated[Path | None, typer.Option(help="Its private key (PEM).")] = None,
    otlp: Annotated[str | None, typer.Option(help="URL of an OpenTelemetry collector to push metrics to.")] = None,
    browse: Annotated[bool, typer.Option("--browse", help="Open the page in the browser.")] = False,
    json: output.Json = False,
) -> None:
    """Serve a page, an API and metrics for journals, live or finished. Stop with Ctrl-C.

    Example: tidegate console out/demo/tidegate.db
    """
    from tidegate.view.server import Console

    if otlp is not None and not otlp.startswith(("http://", "https://")):
        raise InvalidInput(f"--otlp {otlp}: give the collector's address, such as http://127.0.0.1:4318")
    rule = ConsoleRule(
        port=port,
        host=host,
        token_file=str(token_file) if token_file else None,
        certificate=str(certificate) if certificate else None,
        key=str(key) if key else None,
        otlp_endpoint=otlp,
    )
    server = Console(journals, rule, fleet=_fleet(journals))
    try:
        found = list(server.library.books)
        if json:
            output.print_json({"url": server.url, "journals": found})
        else:
            typer.echo(f"{server.url}  ({len(found)} journal{'s' * (len(found) != 1)}; metrics at {server.url}metrics)")
        if browse:
            webbrowser.open(server.url)
        server.wait()
    except KeyboardInterrupt:
        pass
    finally:
        server.close()


def _fleet(paths: list[Path]) -> Callable[[], FleetNow] | None:
    """A function that asks the fleet whose folder is among the paths; None without one."""
    root = next((path for path in paths if (path / "centre" / "registry.db").is_file()), None)
    if root is None:
        return None
    from tidegate.fleet.folder import FleetFolder
    from tidegate.fleet.registry import Registry
    from tidegate.fleet.status import fleet_report
    from tidegate.view.panels import FleetNow

    folder = FleetFolder(root)

    def ask() -> FleetNow:
        registry = Registry(folder.registry)
        try:
            found = fleet_report(folder, registry)
        finally:
            registry.close()
        return FleetNow(found["centre"], found["regions"], found["hosts"], found["applications"], found["events"])

    return ask
