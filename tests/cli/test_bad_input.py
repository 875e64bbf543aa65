"""Bad input: one line that says what to do, exit code 2, nothing on stdout."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tidegate.cli.app import main

CASES: list[tuple[str, list[str], str]] = [
    ("policy", ["policy", "bad.yaml"], "executors.min: 5 is above max 2"),
    ("policy key", ["policy", "key.yaml"], "line 1: colour: unknown setting; allowed here: applications"),
    ("no policy", ["policy", "none.yaml"], "cannot be read"),
    ("policy of an older version", ["run", "fine.py", "--policy", "old.yaml"], "planner: no longer needed"),
    ("controller of a run", ["run", "fine.py", "--controller", "magic"], "no controller named 'magic'"),
    ("app that does not import", ["run", "broken.py"], "cannot be imported: ModuleNotFoundError"),
    ("app without a session", ["run", "empty.py"], "ended without a Spark session"),
    ("arguments of an app", ["run", "fine.py", "--", "--date", "today"], "takes no arguments"),
    ("no history", ["analyze", "fine.py"], "not a history"),
    ("no history either", ["analyze", "large.json"], "not a history"),
    ("no app", ["run", "none.py"], "no such file"),
    ("spark setting", ["run", "fine.py", "--spark-conf", "nonsense"], "write key=value"),
    ("journal", ["explain", "none.db"], "no such file; a job under Tidegate writes one (journal.path"),
    ("journal of another kind", ["explain", "bad.yaml"], "not a Tidegate journal"),
    ("scenario", ["simulate", "none.yaml"], "cannot be read"),
    ("scenario cycle", ["simulate", "cycle.yaml"], "cycle"),
    ("controller", ["simulate", "pool.yaml", "--controller", "magic"], "no controller named 'magic'"),
    ("no pool", ["simulate", "hosts.yaml", "--controller", "tidegate"], "has no pool"),
    ("instance", ["schedule", "bad.yaml"], "not JSON"),
    ("instance that cannot be", ["schedule", "large.json"], "fits"),
    ("scheduler", ["schedule", "large.json", "--scheduler", "magic"], "round-robin"),
    ("experiment", ["reproduce", "table9"], "use one of table1, four-signals"),
    ("series to watch", ["detect", "none.csv"], "cannot be read"),
    ("series to forecast", ["forecast", "none.csv", "--horizon", "1"], "none.csv"),
    ("history", ["analyze", "none"], "no such file or folder"),
    ("run for a twin", ["twin", "none.db", "-o", "twin.yaml"], "give a journal or a Spark event log"),
    ("no run for a twin", ["twin", "fine.py", "-o", "twin.yaml"], "neither a journal nor a Spark event log"),
    ("no run to replay", ["whatif", "large.json", "--policy", "wide.yaml"], "neither a journal nor a Spark event log"),
    ("operators", ["operators", "none.db"], "no such file"),
    ("fleet", ["fleet", "status", "--fleet", "nowhere"], "no fleet there"),
    ("option", ["explain", "--al"], "No such option"),
    ("mode", ["run", "fine.py", "--mode", "often"], "'often'"),
]
FILES = {
    "bad.yaml": "executors: {min: 5, max: 2}\n",
    "key.yaml": "colour: blue\n",
    "old.yaml": "planner: mpc\n",
    "wide.yaml": "executors: {min: 1, max: 9}\n",
    "broken.py": "import no_such_module\ndef main(spark, gate): pass\n",
    "empty.py": "x = 1\n",
    "fine.py": "def main(spark, gate): pass\n",
    "hosts.yaml": (
        "duration_s: 5\nhosts: [{name: h, cpu: 1}]\n"
        "applications: [{name: a, load: 8, operators: [{name: w, cost: 0.1}]}]\n"
    ),
    "pool.yaml": (
        "duration_s: 5\npool:\n  applications: [{name: a, load: 8, operators: [{name: w, cost_s_per_row: 0.1}]}]\n"
    ),
    "cycle.yaml": (
        "duration_s: 5\nhosts: [{name: h, cpu: 1}]\napplications:\n"
        "  - {name: a, load: 8, operators: [{name: s, cost: 0.1}, {name: x, cost: 0.1, inputs: [s, y]}, "
        "{name: y, cost: 0.1, inputs: [x]}]}\n"
    ),
    "large.json": json.dumps({"hosts": [{"name": "h", "cpu": 1}], "tasks": [{"name": "t", "cpu": 2}]}),
}


@pytest.mark.parametrize(("arguments", "message"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_bad_input_gets_one_line_and_exit_code_2(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["tidegate", *arguments])
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setenv("PYTHONPATH", "")
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    printed = capfd.readouterr()
    assert printed.out == ""
    lines = printed.err.strip().splitlines()
    assert len(lines) == 1, printed.err
    assert lines[0].startswith("tidegate: ")
    assert message in lines[0]


def test_the_installed_command_ends_with_the_same_code(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tidegate.cli", "explain", "none.db"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("tidegate: journal none.db: no such file")


def test_a_policy_with_several_problems_gets_a_line_for_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "policy.yaml").write_text("store: a.db\nexecutors: {min: 5, max: 2}\ncolour: blue\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["tidegate", "policy", "policy.yaml", "--json"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    printed = capfd.readouterr()
    assert printed.out == ""
    assert [line.split(";")[0] for line in printed.err.splitlines()] == [
        "tidegate: policy.yaml: line 1: store: write journal: {path: a.db}",
        "tidegate: policy.yaml: line 2: executors.min: 5 is above max 2",
        "tidegate: policy.yaml: line 3: colour: unknown setting",
    ]
