"""`tidegate host`: one host of a fleet, a Spark application with an agent."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from tidegate.cli import output
from tidegate.domain import InvalidInput


def host(
    fleet: Annotated[Path, typer.Option(help="The fleet's folder, which all hosts share.", envvar="TIDEGATE_FLEET")],
    name: Annotated[str, typer.Option(help="Its name in the fleet.")],
    region: Annotated[str, typer.Option(help="The region it is in.")] = "local",
    slots: Annotated[int, typer.Option(min=1, help="Tasks that it runs at once.")] = 2,
    master: Annotated[str | None, typer.Option(help="Spark master; without it, local[slots].")] = None,
    memory_mb: Annotated[int, typer.Option(min=384, help="Heap of its driver.")] = 640,
    lease: Annotated[float, typer.Option(min=1.0, help="Seconds that a lease lasts.")] = 8.0,
    bind: Annotated[str, typer.Option(help="Address that its agent listens on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, help="Port of its agent; 0 takes any.")] = 0,
    advertise: Annotated[str | None, typer.Option(help="HOST:PORT that the centre reaches it by.")] = None,
    spark_conf: Annotated[list[str] | None, typer.Option(help="Spark setting key=value or @FILE; repeatable.")] = None,
) -> None:
    """Serve as a host: run the applications that the fleet's centre assigns.

    The folder must hold the fleet's token (`tidegate fleet up` makes it). Stop it with Ctrl-C or SIGTERM: every
    application is stopped between two batches and can go on elsewhere. Spark settings of the fleet's file are read from
    the fleet's folder; those given here come on top.

    Example: tidegate host --fleet /shared/fleet --name east-7 --region east --slots 4
    """
    from tidegate.fleet.calls import fleet_wire
    from tidegate.fleet.config import stored_config
    from tidegate.fleet.folder import FleetFolder
    from tidegate.fleet.state import HostSpec

    folder, spec = FleetFolder(fleet.resolve()), HostSpec(name, region, slots)
    config = stored_config(folder)
    fleet_wire(folder, config)  # what is wrong with token or certificates is said before Spark starts
    reached = _address(advertise)
    settings = {**config.host.settings, **output.spark_settings(spark_conf)}
    if os.getpgrp() != os.getpid():
        os.setpgid(0, 0)  # the watchdog kills the whole group, which must be nobody else's

    from tidegate.fleet.host import host_session, serve

    output.console.print(f"host {name}: starting Spark")
    with output.jvm_output_to(folder.host(name) / "spark.log"):
        spark = host_session(name, slots, master, memory_mb, settings)
    try:
        serve(spec, folder, spark, lease_s=lease, bind=bind, port=port, advertise=reached)
    finally:
        spark.stop()
    output.console.print(f"host {name}: ended")


def _address(text: str | None) -> tuple[str, int] | None:
    if text is None:
        return None
    host, _, port = text.rpartition(":")
    if not host or not port.isdigit():
        raise InvalidInput(f"--advertise {text!r}: write HOST:PORT")
    return host, int(port)


if __name__ == "__main__":
    output.log_to_stderr()
    typer.run(host)
