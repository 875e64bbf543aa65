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
    region: Annotated[str, typer.Option(help="Its region.")] = "local",
    slots: Annotated[int, typer.Option(min=1, help="Number of tasks that run at once.")] = 2,
    master: Annotated[str | None, typer.Option(help="Spark master. Default: local[slots].")] = None,
    memory_mb: Annotated[int, typer.Option(min=384, help="Heap size of the driver.")] = 640,
    lease: Annotated[float, typer.Option(min=1.0, help="Duration of a lease in seconds.")] = 8.0,
    bind: Annotated[str, typer.Option(help="Address that its agent listens on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, help="Port of its agent; 0 picks a free one.")] = 0,
    advertise: Annotated[str | None, typer.Option(help="HOST:PORT at which the centre reaches it.")] = None,
    spark_conf: Annotated[list[str] | None, typer.Option(help="Spark setting key=value or @FILE; repeatable.")] = None,
) -> None:
    """Run one host of a fleet, with the applications that the fleet's centre assigns.

    The folder must contain the fleet's token, which `tidegate fleet up` creates. Stop the host with Ctrl-C or SIGTERM:
    its applications stop between two batches and can continue elsewhere. Spark settings come from the fleet's file and
    from the options given here, which take precedence.

    Example: tidegate host --fleet /shared/fleet --name east-7 --region east --slots 4
    """
    from tidegate.fleet.calls import Endpoint, fleet_wire
    from tidegate.fleet.config import stored_config
    from tidegate.fleet.folder import FleetFolder
    from tidegate.fleet.vocabulary import HostSpec

    folder, spec = FleetFolder(fleet.resolve()), HostSpec(name, region, slots)
    config = stored_config(folder)
    fleet_wire(folder, config)  # report problems with token or certificates before Spark starts
    endpoint = Endpoint(bind, port, _address(advertise))
    settings = {**config.host.settings, **output.spark_settings(spark_conf)}
    if os.getpgrp() != os.getpid():
        os.setpgid(0, 0)  # the watchdog kills the whole group, so the group must be our own

    from tidegate.fleet.hostlimits import limited
    from tidegate.fleet.sparkhost import host_session, serve

    output.console.print(f"host {name}: starting Spark")
    with output.jvm_output_to(folder.host(name) / "spark.log"):
        spark = host_session(name, slots, master, memory_mb, settings)
    try:
        with limited(name, config.host):  # now, when the JVM has the memory that it starts with
            serve(spec, folder, spark, lease_s=lease, endpoint=endpoint)
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
