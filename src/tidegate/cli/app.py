"""The `tidegate` command: registers every command, and reports errors as one line each with an exit code."""

from __future__ import annotations

import sys

import typer

import tidegate
from tidegate.cli import output
from tidegate.cli.analyze import analyze
from tidegate.cli.console import console
from tidegate.cli.detect import detect
from tidegate.cli.doctor import doctor
from tidegate.cli.explain import explain
from tidegate.cli.fleet import fleet
from tidegate.cli.forecast import forecast
from tidegate.cli.host import host
from tidegate.cli.operators import operators
from tidegate.cli.plugged import add_plugged_in
from tidegate.cli.policy import policy
from tidegate.cli.report import report
from tidegate.cli.run import run
from tidegate.cli.schedule import schedule
from tidegate.cli.simulate import simulate
from tidegate.cli.top import top
from tidegate.cli.twin import twin, whatif
from tidegate.domain import PolicyInvalid, TidegateError
from tidegate.extras import how_to_get

try:
    from typer import TyperException as UsageError
except ImportError:  # older typer uses click
    from click import ClickException as UsageError  # type: ignore

_INTERRUPTED = 130
app = typer.Typer(
    name="tidegate",
    help="Keeps Spark Structured Streaming applications within their latency objectives at the least cost.",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
_COMMANDS = (
    *(run, doctor, console, top, report, explain, operators),
    *(simulate, twin, whatif, schedule, forecast, detect, analyze, policy, host),
)
for command in _COMMANDS:
    app.command()(command)
app.add_typer(fleet, name="fleet")
add_plugged_in(app, taken={"fleet", "version", *(command.__name__ for command in _COMMANDS)})


@app.callback(invoke_without_command=True)
def overview(context: typer.Context) -> None:
    """Without a command, show the help."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@app.command()
def version(json: output.Json = False) -> None:
    """Show the versions of Tidegate, Python and Spark.

    Example: tidegate version
    """
    from importlib.metadata import PackageNotFoundError
    from importlib.metadata import version as of

    try:
        pyspark = of("pyspark")
    except PackageNotFoundError:
        pyspark = "not installed"
    found = {"tidegate": tidegate.__version__, "pyspark": pyspark, "python": sys.version.split()[0]}
    if json:
        output.print_json(found)
    else:
        typer.echo(", ".join(f"{name} {number}" for name, number in found.items()))


def main() -> None:
    """Entry point of the console script. 0: done; 1: `chaos` failed; 2: bad input, unfit machine; 130: interrupted."""
    output.log_to_stderr()
    try:
        code = app(standalone_mode=False)
        if code == _INTERRUPTED:  # typer answers Ctrl-C with this, click with Abort
            raise KeyboardInterrupt
    except PolicyInvalid as error:
        _fail(*str(error).splitlines())
    except TidegateError as error:
        _fail(str(error))
    except UsageError as error:
        _fail(error.format_message() if hasattr(error, "format_message") else str(error))
    except ModuleNotFoundError as error:
        hint = how_to_get(error.name)
        if hint is None:
            raise
        _fail(hint)
    except (typer.Abort, KeyboardInterrupt):
        _fail("interrupted", code=_INTERRUPTED)


def _fail(*problems: str, code: int = 2) -> None:
    """One line for each problem."""
    for problem in problems:
        typer.echo(f"tidegate: {' '.join(problem.split())}", err=True)
    sys.exit(code)
