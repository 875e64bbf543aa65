"""`tidegate fleet`: starts a fleet, shows it, submits and moves applications, and stops it."""

from __future__ import annotations

import json as json_text
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from tidegate.cli import output
from tidegate.domain import EnvironmentUnfit, InvalidInput

if TYPE_CHECKING:
    from tidegate.fleet.folder import FleetFolder
    from tidegate.fleet.registry import Registry

fleet = typer.Typer(
    help="Manage a fleet: hosts in regions, applications on the hosts, and a centre that controls both.",
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
Folder = Annotated[Path, typer.Option("--fleet", help="The fleet's folder.", envvar="TIDEGATE_FLEET", file_okay=False)]
_DEFAULT_FOLDER = Path("fleet")
_START_LIMIT_S = 60.0
_LONGEST_SAID = 60


@fleet.command()
def up(
    file: Annotated[Path | None, typer.Argument(help="The fleet's file (YAML). Default: the last one used.")] = None,
    folder: Folder = _DEFAULT_FOLDER,
    wait: Annotated[float, typer.Option(min=0, help="Seconds to wait until every region has its hosts.")] = 120.0,
    json: output.Json = False,
) -> None:
    """Start the fleet's centre, which starts the hosts. Hosts that already run are kept.

    Example: tidegate fleet up examples/fleet.yaml --fleet out/fleet
    """
    from tidegate.fleet.centrelock import centre_pid
    from tidegate.fleet.config import FleetConfig, load_config, plain, store_config
    from tidegate.fleet.hostlimits import check_limits
    from tidegate.fleet.protocol import make_token
    from tidegate.fleet.provider import make_provider

    place = _folder(folder)
    given = load_config(file)
    make_token(place.token)
    registry = _registry(place, must_exist=False)
    known = registry.fact("config")
    config = given if file is not None or known is None else FleetConfig.model_validate(known)
    make_provider(config, place)  # report its problems here, not in a log
    if config.provider.kind == "local":
        check_limits(config.host)
    registry.put_fact("config", plain(config))
    store_config(config, place)
    registry.put_fact("down", False)
    if centre_pid(place) is not None and known != plain(config):
        _end_centre(place)  # the next one uses the new file and adopts everything
    if centre_pid(place) is None:
        _start_centre(place)
    wanted = sum(rule.min_hosts for rule in config.regions.values())

    def ready() -> list[str]:
        return [name for name, state in registry.fact("view", {}).get("hosts", {}).items() if state == "ready"]

    _wait(lambda: len(ready()) >= wanted, wait, lambda: f"hosts ready: {len(ready())} of {wanted}")
    found = {"fleet": str(place.root), "centre": centre_pid(place), "ready": ready(), "wanted": wanted}
    if json:
        output.print_json(found)
    else:
        typer.echo(f"fleet {place.root}: {len(ready())} of {wanted} hosts ready, centre {found['centre']}")


@fleet.command(hidden=True)
def centre(folder: Folder = _DEFAULT_FOLDER) -> None:
    """Run the fleet's centre in the foreground; `fleet up` starts it in the background.

    Example: tidegate fleet centre --fleet out/fleet
    """
    from tidegate.control.journal import SqliteJournal
    from tidegate.fleet.centre import Centre
    from tidegate.fleet.centrelock import only_centre
    from tidegate.fleet.config import FleetConfig
    from tidegate.fleet.provider import make_provider

    place = _folder(folder)
    registry = _registry(place)
    config = FleetConfig.model_validate(registry.fact("config", {}))
    with only_centre(place):
        journal = SqliteJournal(place.centre_journal)
        served = Centre(place, config, make_provider(config, place), registry, journal=journal)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: served.end())
        registry.note("centre-started", "centre", f"pid {os.getpid()}")
        served.run()
        served.close()
        registry.note("centre-ended", "centre")


@fleet.command()
def status(folder: Folder = _DEFAULT_FOLDER, json: output.Json = False) -> None:
    """Show regions, hosts, applications, decisions, tokens, requests and the last events.

    Example: tidegate fleet status --fleet out/fleet
    """
    from tidegate.fleet.status import fleet_report

    place = _folder(folder)
    report = fleet_report(place, _registry(place))
    if json:
        output.print_json(report)
        return
    served = report["centre"]
    typer.echo(f"centre: {'away' if served['pid'] is None else 'pid ' + str(served['pid'])}")
    _show(report["regions"], ("region", "hosts", "max_hosts", "slots", "busy_slots"))
    _show(report["hosts"], ("host", "region", "slots", "state", "address", "note"))
    columns = ("application", "region", "host", "phase", "epoch", "busy_slots", "latency_p99_s", "objective_s", "note")
    _show(report["applications"], columns)
    if report["measured"]:
        _show(report["measured"], ("application", "host", "objective", "mean"))
    for title in ("control", "tokens"):
        if report[title]:
            _show([{title: name, "": _short(said)} for name, said in report[title].items()], (title, ""))
    if report["pending_requests"]:
        _show(report["pending_requests"], ("from", "asks", "score", "answer"))
    for event in report["events"]:
        typer.echo(f"  {event['s_ago']:8.1f} s ago  {event['event']}: {event['subject']} {event['text']}")


@fleet.command()
def submit(
    build: Annotated[str, typer.Argument(help="module:function or file.py[:function] with build(spark, settings).")],
    folder: Folder = _DEFAULT_FOLDER,
    name: Annotated[str | None, typer.Option(help="Its name. Default: that of the file or module.")] = None,
    region: Annotated[str | None, typer.Option(help="Where its rows come from.")] = None,
    slots: Annotated[
        float, typer.Option(min=0.01, help="Slots that it needs, until measurements are available.")
    ] = 1.0,
    latency: Annotated[float, typer.Option(min=0.1, help="Objective: 99 % of rows within this many seconds.")] = 30.0,
    arguments: Annotated[str, typer.Option(help="JSON object, or @FILE: keyword arguments of build.")] = "{}",
    elastic: Annotated[list[str] | None, typer.Option(help="operator=maximum tasks; repeatable.")] = None,
    wait: Annotated[float, typer.Option(min=0, help="Seconds to wait until it runs.")] = 60.0,
    json: output.Json = False,
) -> None:
    """Submit an application; the centre places it. If the name exists, the new recipe replaces the old one.

    Example: tidegate fleet submit examples/wordcount.py --region east --elastic split=4 --fleet out/fleet
    """
    from tidegate.fleet.config import FleetConfig
    from tidegate.fleet.vocabulary import ApplicationSpec

    place = _folder(folder)
    registry = _registry(place)
    file, colon, function = build.rpartition(":") if ":" in build else (build, "", "")
    if file.endswith(".py"):
        if not Path(file).is_file():
            raise InvalidInput(f"{file}: no such file")
        build = f"{Path(file).resolve()}{colon}{function}"  # hosts have other working directories
    regions = FleetConfig.model_validate(registry.fact("config", {})).regions
    if region is not None and region not in regions:
        raise InvalidInput(f"--region {region!r}: unknown; the fleet has {', '.join(regions)}")
    spec = ApplicationSpec(
        name or (Path(file).stem if file.endswith(".py") else file.rpartition(".")[2]),
        build,
        _json_object(arguments),
        region,
        slots,
        latency,
        dict(_elastic(pair) for pair in elastic or []),
    )
    registry.put_application(spec)
    registry.note("application-submitted", spec.name, build)
    _await_running(place, registry, spec.name, None, wait, json)


@fleet.command()
def move(
    application: Annotated[str, typer.Argument(help="The application's name.")],
    host: Annotated[str, typer.Argument(help="The host it should run on.")],
    folder: Folder = _DEFAULT_FOLDER,
    wait: Annotated[float, typer.Option(min=0, help="Seconds to wait until it runs there.")] = 90.0,
    json: output.Json = False,
) -> None:
    """Move an application to another host. It stops between two batches and restarts from its checkpoint.

    Example: tidegate fleet move wordcount west-1 --fleet out/fleet
    """
    place = _folder(folder)
    registry = _registry(place)
    _known(application, registry.applications(), "application")
    _known(host, registry.hosts(), "host")
    registry.ask_host(application, host)
    _await_running(place, registry, application, host, wait, json)


@fleet.command()
def withdraw(
    application: Annotated[str, typer.Argument(help="The application's name.")],
    folder: Folder = _DEFAULT_FOLDER,
    wait: Annotated[float, typer.Option(min=0, help="Seconds to wait until it has stopped.")] = 90.0,
    json: output.Json = False,
) -> None:
    """Stop an application between two batches. Its checkpoint stays, so submitting it again resumes it.

    Example: tidegate fleet withdraw wordcount --fleet out/fleet
    """
    registry = _registry(_folder(folder))
    _known(application, registry.applications(), "application")
    registry.end_application(application)
    gone = _wait(lambda: application not in registry.applications(), wait, lambda: f"waiting for {application} to stop")
    if json:
        output.print_json({"application": application, "ended": gone})
    else:
        typer.echo(f"{application} {'has stopped' if gone else 'is stopping'}")


@fleet.command()
def down(
    folder: Folder = _DEFAULT_FOLDER,
    wait: Annotated[float, typer.Option(min=0, help="Seconds to wait until the last host has stopped.")] = 180.0,
    json: output.Json = False,
) -> None:
    """Stop the fleet in order: applications stop between two batches, then the hosts stop, then the centre.

    Checkpoints and the list of applications stay: `fleet up` runs them again.

    Example: tidegate fleet down --fleet out/fleet
    """
    from tidegate.fleet.centrelock import centre_pid

    place = _folder(folder)
    registry = _registry(place)
    registry.put_fact("down", True)
    if centre_pid(place) is None and (registry.hosts() or place.cards()):
        _start_centre(place)
    _wait(lambda: not registry.hosts(), wait, lambda: f"hosts left: {', '.join(registry.hosts())}")
    left = sorted(registry.hosts())
    if not left and centre_pid(place) is not None:
        _end_centre(place)
    if json:
        output.print_json({"fleet": str(place.root), "hosts_left": left})
    if left:
        raise EnvironmentUnfit(
            f"these hosts still run after {wait:.0f} s: {', '.join(left)}; the centre keeps stopping them"
        )
    if not json:
        typer.echo(f"fleet {place.root} is down")


def _folder(path: Path) -> FleetFolder:
    from tidegate.fleet.folder import FleetFolder

    return FleetFolder(path.resolve())


def _registry(place: FleetFolder, must_exist: bool = True) -> Registry:
    from tidegate.fleet.registry import Registry

    if must_exist and not place.registry.exists():
        raise InvalidInput(f"{place.root}: no fleet there; create one with `tidegate fleet up --fleet {place.root}`")
    return Registry(place.registry)


def _start_centre(place: FleetFolder) -> None:
    from tidegate.fleet.centrelock import centre_pid

    place.centre_log.parent.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "tidegate.cli.fleet", "centre", "--fleet", str(place.root)]
    with place.centre_log.open("ab") as log:
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
    if not _wait(lambda: centre_pid(place) or child.poll() is not None, _START_LIMIT_S, lambda: "starting the centre"):
        raise EnvironmentUnfit(f"the centre did not start within {_START_LIMIT_S:.0f} s; see {place.centre_log}")
    if child.poll() is not None:
        raise EnvironmentUnfit(f"the centre exited at once; see {place.centre_log}")


def _end_centre(place: FleetFolder) -> None:
    from tidegate.fleet.centrelock import centre_pid, signal_centre

    signal_centre(place, signal.SIGTERM)
    _wait(lambda: centre_pid(place) is None, _START_LIMIT_S, lambda: "stopping the centre")


def _await_running(
    place: FleetFolder, registry: Registry, name: str, host: str | None, limit_s: float, json: bool
) -> None:
    """Wait until the application runs (there) or the time is up. Then the request stands and the centre continues."""
    from tidegate.fleet.status import fleet_report

    found: dict[str, Any] = {}

    def runs() -> bool:
        found.update(next(app for app in fleet_report(place, registry)["applications"] if app["application"] == name))
        return found["phase"] == "running" and host in {None, found["host"]} and found["host"] == found["assigned"]

    began_s = time.time()
    done = _wait(runs, limit_s, lambda: f"{name}: {found.get('phase') or 'not placed yet'} {found.get('note', '')}")
    recent = [event for event in registry.events() if event.time_s >= began_s - 1 and event.subject == name]
    refused = [event for event in recent if event.event == "move-refused"]
    if host is not None and not done and refused:
        raise InvalidInput(f"{name} was not moved: {refused[-1].text}")
    if json:
        output.print_json({**found, "running": done, "waited_s": round(time.time() - began_s, 1)})
    else:
        where = f"runs on {found['host']}" if done else f"does not run yet ({found['phase'] or 'no centre is running'})"
        typer.echo(f"{name} {where} {found['note']}".rstrip())


def _wait(condition: Callable[[], Any], limit_s: float, text: Callable[[], str]) -> bool:
    deadline_s = time.monotonic() + limit_s
    with output.console.status("") as shown:
        while not condition():
            if time.monotonic() > deadline_s:
                return False
            shown.update(text())
            time.sleep(0.2)
    return True


def _short(said: Any) -> str:
    """Shortened; `tidegate explain` shows everything."""
    text = str(said)
    return text if len(text) <= _LONGEST_SAID else f"{text[: _LONGEST_SAID - 1]}…"


def _known(name: str, names: Mapping[str, Any], what: str) -> None:
    if name not in names:
        raise InvalidInput(f"no {what} {name!r}; there are: {', '.join(names) or 'none'}")


def _json_object(text: str) -> dict[str, Any]:
    try:
        value = json_text.loads(output.text_of("--arguments", text))
    except ValueError as error:
        raise InvalidInput(f"--arguments: not JSON ({error})") from None
    if not isinstance(value, dict):
        raise InvalidInput('--arguments: give a JSON object, such as {"rate": 100}')
    return value


def _elastic(pair: str) -> tuple[str, int]:
    operator, sign, most = pair.partition("=")
    if not sign or not operator or not most.isdigit() or int(most) < 1:
        raise InvalidInput(f"--elastic {pair!r}: write operator=maximum tasks, such as split=4")
    return operator, int(most)


def _show(rows: list[dict[str, Any]], columns: tuple[str, ...]) -> None:
    table = Table(box=None, pad_edge=False)
    for column in columns:
        table.add_column(column.replace("_", " "))
    for row in rows:
        table.add_row(*("–" if row.get(column) in (None, "") else str(row[column]) for column in columns))
    output_console = type(output.console)(highlight=False, soft_wrap=True)
    output_console.print(table)
    typer.echo("")


if __name__ == "__main__":
    output.log_to_stderr()
    fleet()
