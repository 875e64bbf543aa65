"""The parts of `tidegate-lab`, the package of demonstrations and experiments.

The product never imports the laboratory. It finds installed parts through entry points. This list is only used to tell
the user what to install.
"""

from __future__ import annotations

from importlib.util import find_spec

from tidegate.domain.capability import Capability

PARTS = {
    "commands": ("arena", "chaos", "demo", "reproduce"),
    "controllers": (
        *("amadeus", "daedalus", "dhalion", "ds2", "dstreams", "flink", "flink-1min"),
        *("hpa-cpu", "hpa-varga", "keda-lag", "spark-dra"),
    ),
    "schedulers": ("paper-ga", "rstorm", "rstorm-cpu", "rstorm-peak", "tstorm"),
}
"""Names of the laboratory's parts by kind of extension."""


def how_to_install(kind: str, name: str) -> str | None:
    """What to install for a part of the laboratory; None for anything else.

    >>> how_to_install("controllers", "hpa-cpu")
    "controller 'hpa-cpu' is part of the laboratory: pip install tidegate-lab"
    >>> how_to_install("controllers", "mine") is None
    True
    """
    if name not in PARTS.get(kind, ()):
        return None
    what = f"tidegate {name}" if kind == "commands" else f"{kind[:-1]} {name!r}"
    return f"{what} is part of the laboratory: pip install tidegate-lab"


def laboratory() -> Capability:
    """Whether the laboratory is installed here, and what it is for."""
    there = find_spec("tidegate_lab") is not None
    use = f"tidegate {', '.join(PARTS['commands'])}; rivals for --controller"
    return Capability("tidegate-lab", there, use if there else f"{use}: pip install tidegate-lab")
