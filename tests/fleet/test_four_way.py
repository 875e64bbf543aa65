"""The four-way comparison with everything but Spark: its commands, its course, its rows and its document."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tidegate.cli.fleet import fleet as commands
from tidegate.domain import EnvironmentUnfit
from tidegate.fleet.config import load_config, plain, store_config
from tidegate.fleet.protocol import make_token
from tidegate.load import Timeline
from tidegate_lab.experiments import fleet_four_way, fleet_run
from tidegate_lab.experiments.fleet_run import APPLICATIONS, Course, FleetRun

COURSE = Course(east_burst_s=(2.0, 6.0), west_burst_s=(8.0, 6.0), peak_rows_per_s=200.0, lead_s=3.0)
END_S = 15.0
LATE_S = 6.0


class Moments:
    """The clock of the experiment. Something happens whenever it sleeps."""

    def __init__(self) -> None:
        self.now_s = 1000.0
        self.happens: Callable[[], None] = lambda: None

    def time(self) -> float:
        return self.now_s

    monotonic = time

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds
        self.happens()


class WithoutSpark(FleetRun):
    """Submits with the user's command. Every sleep is a batch that commits what had arrived `LATE_S` ago."""

    ready = 4
    clock: Moments

    def fleet(self, *words: str) -> Any:
        if words[0] == "up":
            config = load_config(Path(words[1]))
            make_token(self.folder.token)
            self.registry.put_fact("config", plain(config))
            store_config(config, self.folder)
            self.clock.happens = self._commit
            return {"ready": ["host"] * self.ready, "wanted": sum(rule.min_hosts for rule in config.regions.values())}
        if words[0] == "submit":
            done = CliRunner().invoke(commands, [*words, "--fleet", str(self.folder.root), "--json"])
            assert done.exit_code == 0, done.output
            self.folder.lease_path(words[words.index("--name") + 1]).mkdir(parents=True)
        return {}

    def _commit(self) -> None:
        for name, region in APPLICATIONS.items():
            rows = Timeline(self.course.load(region)).rows_by(self.now_s() - LATE_S)
            log = self.folder.checkpoint(name)
            batch = len(list((log / "commits").glob("*")))
            for part in ("offsets", "commits"):
                path = log / part / str(batch)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(f"v1\n{{}}\n{json.dumps({'row': rows})}")
                os.utime(path, (self.clock.now_s, self.clock.now_s))

    def _rows(self) -> dict[str, Any]:
        return {name: {"rows_in": 1, "rows_out": 1, "rows_lost": 0, "rows_doubled": 0} for name in APPLICATIONS}


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> type[WithoutSpark]:
    clock = Moments()
    monkeypatch.setattr(fleet_run, "time", clock)
    monkeypatch.setattr(fleet_four_way, "FleetRun", WithoutSpark)
    monkeypatch.setattr(fleet_four_way, "COURSE", COURSE)
    monkeypatch.setattr(fleet_four_way, "END_S", END_S)
    monkeypatch.setattr(WithoutSpark, "clock", clock, raising=False)
    return WithoutSpark


@pytest.mark.usefixtures("played")
def test_every_variant_has_its_figures_and_no_late_row_is_left_out(tmp_path: Path) -> None:
    found = fleet_four_way.four_way(tmp_path / "out", lambda text: None)
    assert list(found["four_way"]) == ["static", "application", "infrastructure", "both"]
    assert (found["rows_lost"], found["rows_doubled"]) == (0, 0)
    for row in found["four_way"].values():
        assert set(row) == {"utilisation", "mean_s", "p99_s", "violation_rate", "host_hours", "reconfigurations"}
        assert row["mean_s"] > LATE_S - 1.0, "rows of the last seconds are waited for"
    assert json.loads((tmp_path / "out" / "four-way.json").read_text()) == found


def test_a_fleet_without_all_of_its_hosts_is_not_compared(
    played: type[WithoutSpark], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(played, "ready", 3)
    with pytest.raises(EnvironmentUnfit, match="3 of 4 hosts"):
        fleet_four_way.four_way(tmp_path / "out", lambda text: None)
