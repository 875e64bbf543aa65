"""The `tidegate` command: registers every command and turns errors into one line and an exit code."""

from __future__ import annotations

import sys

import typer

import tidegate
from tidegate.cli import output
from tidegate.cli.analyze import analyze
from tidegate.cli.demo import demo
from tidegate.cli.detect import detect
from tidegate.cli.explain import explain
from tidegate.cli.fleet import fleet
from tidegate.cli.forecast import forecast
from tidegate.cli.host import host
from tidegate.cli.operators import operators
from tidegate.cli.policy import policy
from tidegate.cli.reproduce import reproduce
from tidegate.cli.run import run
from tidegate.cli.schedule import schedule
from tidegate.cli.simulate import simulate
from tidegate.domain import TidegateError

app = typer.Typer(
    name="tidegate",
    help="Keeps Spark Structured Streaming applications inside their latency objectives with the least resources.",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (demo, run, simulate, schedule, forecast, detect, analyze, operators, explain, reproduce, policy, host):
    app.command()(command)
app.add_typer(fleet, name="fleet")


@app.callback(invoke_without_command=True)
def overview(context: typer.Context) -> None:
    """Without a command: the help."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@app.command()
def version(json: output.Json = False) -> None:
    """Show the versions of Tidegate and of what it stands on.

    Example: tidegate version
    """
    from importlib.metadata import version as of

    found = {"tidegate": tidegate.__version__, "pyspark": of("pyspark"), "python": sys.version.split()[0]}
    if json:
        output.print_json(found)
    else:
        typer.echo(", ".join(f"{name} {number}" for name, number in found.items()))


def main() -> None:
    """Entry point of the console script: 0 done, 2 bad input or an unfit machine, 130 interrupted."""
    output.log_to_stderr()
    try:
        app(standalone_mode=False)
    except TidegateError as error:
        _fail(str(error))
    except typer.TyperException as error:
        _fail(error.format_message() if hasattr(error, "format_message") else str(error))
    except (typer.Abort, KeyboardInterrupt):
        _fail("interrupted", code=130)


def _fail(text: str, code: int = 2) -> None:
    typer.echo(f"tidegate: {' '.join(text.split())}", err=True)
    sys.exit(code)
