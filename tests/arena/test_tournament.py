"""A small tournament: its summary, its page, and what the command prints."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tidegate.cli.app import app, main
from tidegate.domain import InvalidInput
from tidegate_lab.arena.judge import best_of, summarise
from tidegate_lab.arena.loads import ArenaLoad, made
from tidegate_lab.arena.page import write_page
from tidegate_lab.arena.play import Run, play_sizes
from tidegate_lab.arena.program import given_loads
from tidegate_lab.arena.setting import Setting
from tidegate_lab.arena.tournament import chosen, hold_tournament, smallest_static


def run(rival: str, load: str, late: float, cost: float) -> Run:
    return Run(rival, load, 1, late, cost, 5.0, changes=2, duration_s=3600.0)


def test_the_summary_compares_with_static_and_oracle_on_the_same_load() -> None:
    runs = [
        run("static-holds", "a", 0.0, 100.0), run("static-holds", "b", 0.01, 200.0),
        run("oracle", "a", 0.01, 50.0), run("oracle", "b", 0.01, 100.0),
        run("tidegate", "a", 0.0, 60.0), run("tidegate", "b", 0.03, 140.0),
    ]  # fmt: skip
    ours = summarise(runs, Setting())["tidegate"]
    assert (ours.holds, ours.runs, ours.late_worst, ours.changes_per_hour) == (1, 2, 0.03, 2.0)
    assert (ours.cost_vs_static, ours.cost_vs_oracle) == (pytest.approx(0.65), pytest.approx(1.3))


def test_best_is_the_cheapest_that_holds_else_the_least_late() -> None:
    setting = Setting()
    cheap, safe, poor = run("x", "a", 0.2, 10.0), run("x", "a", 0.001, 50.0), run("x", "a", 0.1, 5.0)
    assert best_of([cheap, safe, poor], setting) is safe
    assert best_of([cheap, poor], setting) is poor


def short() -> ArenaLoad:
    whole = made("cosine", seed=1)
    return ArenaLoad("short", whole.values[20:30], 60.0, 1)


def test_one_executor_fewer_than_static_holds_does_not_hold() -> None:
    setting, load = Setting(), short()
    found = smallest_static(setting, load)
    size = round(found.executor_seconds / load.duration_s)
    assert found.late <= setting.allowed_late
    assert play_sizes(setting, load, [], size - 1, "smaller").late > setting.allowed_late


@pytest.mark.slow
def test_a_tournament_gives_the_page_and_the_document(tmp_path: Path) -> None:
    tournament = hold_tournament(Setting(), [short()], chosen(["hpa-cpu"]), cores=1)
    page = write_page(tournament, tmp_path).read_text()
    assert "hpa-cpu+" in page
    document = json.loads((tmp_path / "arena.json").read_text())
    assert set(document) == {"setting", "runs", "summary"}
    assert set(document["setting"]) == {"start_up_s", "warm_up_s", "objective_s", "compress"}
    for found in document["runs"]:
        assert set(found) == {"rival", "load", "seed", "late", "executor_seconds", "p99_s", "changes"}
    for summary in document["summary"].values():
        assert set(summary) == {
            "holds", "runs", "cost_vs_static", "cost_vs_oracle", "late_mean", "late_worst", "changes_per_hour",
        }  # fmt: skip
    assert document["summary"]["static-holds"]["cost_vs_static"] == 1.0


def test_unknown_rivals_are_refused_by_name() -> None:
    with pytest.raises(InvalidInput, match="no rival 'nobody'"):
        chosen(["nobody"])


def test_the_command_prints_json_alone(tmp_path: Path) -> None:
    file = tmp_path / "load.csv"
    file.write_text("count\n" + "\n".join(str(value) for value in (3, 5, 8, 9, 7, 4)))
    arguments = ["arena", "--load", str(file), "--step-s", "60", "--rivals", "ds2", "--seeds", "1", "--cores", "1"]
    result = CliRunner().invoke(app, [*arguments, "--json"])
    assert result.exit_code == 0, result.output
    assert set(json.loads(result.stdout)["summary"]) == {"static-holds", "oracle", "ds2", "ds2+"}


def test_two_columns_of_one_file_are_two_loads(tmp_path: Path) -> None:
    file = tmp_path / "site.csv"
    file.write_text("hits,bytes\n3,40\n5,20\n")
    found = given_loads([f"{file}:hits", f"{file}:bytes"], "q1", 2, None, 60.0)
    assert [(load.name, load.seed) for load in found] == [
        ("site", 1), ("site", 2), ("site.csv:bytes", 1), ("site.csv:bytes", 2),
    ]  # fmt: skip


@pytest.mark.parametrize("given", [["--load", "nothing.csv"], ["--rivals", "nobody"], ["--query", "q99"]])
def test_bad_input_ends_in_one_line_and_code_2(
    given: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["tidegate", "arena", *given])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 2
    assert len(capsys.readouterr().err.strip().splitlines()) == 1
