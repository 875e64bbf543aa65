"""The paper's comparison on Spark: the same load four times, with neither, one or both of the levels elastic."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from tidegate_lab.experiments.fleet_run import APPLICATIONS, FLEET, OBJECTIVE_S, Course, FleetRun, Told
from tidegate_lab.experiments.fleet_variants import FOUR_WAYS, Variant, figures_of

# At the peak the look-ups of a region keep four slots busy: a host is full, and a region needs its second one.
COURSE = Course(east_burst_s=(20.0, 90.0), west_burst_s=(100.0, 90.0), peak_rows_per_s=200.0, lead_s=35.0)
END_S = 205.0


def four_way(out: Path, told: Told) -> dict[str, Any]:
    """Play every variant: three and a half minutes of load each, and the time to start and stop a fleet.

    `four-way.json` has the variants that were played so far.
    """
    found: dict[str, Any] = {}
    lost = doubled = 0
    for name, variant in FOUR_WAYS.items():
        told(name)
        played = _play(out / name, variant, told)
        found[name] = played["figures"]
        lost += sum(rows["rows_lost"] for rows in played["applications"].values())
        doubled += sum(rows["rows_doubled"] for rows in played["applications"].values())
        (out / "four-way.json").write_text(json.dumps(_document(found, lost, doubled), indent=1))
    return _document(found, lost, doubled)


def _document(found: dict[str, Any], lost: int, doubled: int) -> dict[str, Any]:
    return {"four_way": found, "rows_lost": lost, "rows_doubled": doubled}


def _play(out: Path, variant: Variant, told: Told) -> dict[str, Any]:
    run = FleetRun(out, COURSE, told, variant)
    try:
        run.begin()
        run.play_to(END_S)
        run.await_rows_of(END_S)
        samples = [sample for sample in run.samples if 0.0 <= sample["time_s"] <= END_S]
        found = run.finish()
        latencies = []
        for name, region in APPLICATIONS.items():
            arrivals_s, latencies_s = run.latencies(name, region)
            latencies.append(latencies_s[arrivals_s < run.start_s + END_S])
        host: Any = FLEET["host"]
        found["figures"] = figures_of(samples, np.concatenate(latencies), OBJECTIVE_S, host["slots"])
        return found
    finally:
        run.fleet("down")
