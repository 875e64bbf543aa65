"""`tidegate run`, as a user runs it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from tests.spark.conftest import wait_for
from tidegate.control.journal import read_entries

EXAMPLES = Path(__file__).parents[2] / "examples"
LONGER = (1, 4, 12)
"""Where too little was seen in the time that a run was given, it gets more."""


def command(app: Path, out: Path, *options: str, arguments: tuple[str, ...] = ()) -> list[str]:
    return [sys.executable, "-m", "tidegate.cli", "run", "--out", str(out), *options, "--", str(app), *arguments]


def run(app: Path, out: Path, *options: str, arguments: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    line = command(app, out, *options, arguments=arguments)
    return subprocess.run(line, capture_output=True, text=True, timeout=900, check=False)


def test_the_example_runs_and_can_be_explained(tmp_path: Path) -> None:
    options = ("--policy", str(EXAMPLES / "policy.yaml"), "--checkpoints", str(tmp_path / "checkpoints"), "--json")
    for times in LONGER:
        done = run(EXAMPLES / "wordcount.py", tmp_path, *options, "--duration", str(20 * times))
        assert done.returncode == 0, done.stderr[-2000:]
        summary = json.loads(done.stdout)
        assert summary["control_failure"] is None
        explained = subprocess.run(
            [sys.executable, "-m", "tidegate.cli", "explain", summary["journal"]],
            capture_output=True,
            text=True,
            timeout=300,
            check=True,
        )
        if summary["steps"] > 5 and "wordcount:" in explained.stdout:
            break
    assert summary["steps"] > 5
    assert "control-started: mode recommend" in explained.stdout
    assert "wordcount:" in explained.stdout


def test_a_query_that_fails_ends_the_run_with_its_reason(tmp_path: Path) -> None:
    app = tmp_path / "fails.py"
    app.write_text(
        "from pyspark.sql import functions as F\n"
        "def build(spark, settings):\n"
        "    rows = spark.readStream.format('rate').load().select(F.raise_error(F.lit('the shop is closed')))\n"
        "    return rows.writeStream.format('noop').option('checkpointLocation', settings.checkpoint)\n"
    )
    done = run(app, tmp_path / "out", "--mode", "off", "--master", "local[1]")
    assert done.returncode == 2
    assert done.stdout == ""
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("tidegate: query fails failed: ")
    assert "the shop is closed" in last
    assert last.endswith("spark.log")


SCRIPT = """
import argparse
import time

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

options = argparse.ArgumentParser()
options.add_argument("--rows", type=int)
options.add_argument("--folder")
options.add_argument("--pause", type=float, default=0.0)
given = options.parse_args()


def slow(value):
    time.sleep(given.pause)
    return value


if __name__ == "__main__":
    spark = SparkSession.builder.appName("plain").config("spark.sql.shuffle.partitions", "2").getOrCreate()
    if given.folder:
        rows = spark.readStream.option("maxFilesPerTrigger", 1).text(given.folder)
    else:
        rows = spark.readStream.format("rate").option("rowsPerSecond", given.rows).load()
    rows = rows.select(F.udf(slow, "string")("value").alias("value"))
    query = rows.writeStream.format("noop").queryName("ticks").trigger(processingTime="1 second").start()
    query.awaitTermination()
    print("after the wait")
"""
"""A job as a user has it: it knows nothing of Tidegate."""


def numbers(log: Path) -> set[str]:
    """The batches in a log of a checkpoint."""
    return {path.name for path in log.iterdir() if path.name.isdigit()} if log.exists() else set()


def test_an_unchanged_script_runs_with_its_arguments_and_goes_on_where_it_stopped(tmp_path: Path) -> None:
    app = tmp_path / "plain.py"
    app.write_text(SCRIPT)
    commits = tmp_path / "plain.checkpoints" / "ticks" / "commits"
    for times in LONGER:
        options = ("--master", "local[2]", "--duration", str(12 * times), "--mode", "recommend", "--json")
        done = run(app, tmp_path / "out", *options, arguments=("--rows", "20"))
        assert done.returncode == 0, done.stderr[-2000:]
        summary = json.loads(done.stdout)
        assert summary["ended"] == "the time is up"
        assert summary["control_failure"] is None
        assert "after the wait" in done.stderr, "awaitTermination returned: nobody interrupted the script"
        seen = [entry.observation for entry in read_entries(Path(summary["journal"])) if entry.observation]
        rows = sum(batch.rows for one in seen for sample in one.applications for batch in sample.batches)
        if rows and "1" in numbers(commits):
            break
    assert rows > 0
    assert "1" in numbers(commits)


MAIN = """
from pyspark.sql import functions as F


def main(spark, gate):
    rows = spark.readStream.format("rate").option("rowsPerSecond", 20).load()
    gate.start("own", lambda session, settings: rows.writeStream.format("noop")
        .option("checkpointLocation", settings.checkpoint).trigger(processingTime="1 second"))
    query = rows.writeStream.format("noop").queryName("plain").trigger(processingTime="1 second").start()
    WAIT
    print("main has returned")
"""
"""A file that gets the session. It may wait for its queries itself, or leave that to the command."""


@pytest.mark.parametrize("wait", ["query.awaitTermination()", "spark.streams.awaitAnyTermination()", "pass"])
def test_a_file_with_main_ends_when_its_time_is_up(tmp_path: Path, wait: str) -> None:
    app = tmp_path / "given.py"
    app.write_text(MAIN.replace("WAIT", wait))
    options = ("--master", "local[2]", "--duration", "15", "--mode", "off", "--json")
    done = run(app, tmp_path / "out", *options)
    assert done.returncode == 0, done.stderr[-2000:]
    summary = json.loads(done.stdout)
    assert (summary["ended"], summary["control_failure"]) == ("the time is up", None)
    assert "main has returned" in done.stderr
    for name in ("own", "plain"):
        offsets, commits = (tmp_path / "given.checkpoints" / name / kind for kind in ("offsets", "commits"))
        assert numbers(offsets) == numbers(commits) != set(), "the batch that ran was finished"


REREAD = """
import pathlib
import time


def main(spark, gate):
    before = gate.controller.policy
    pathlib.Path(POLICY).write_text("mode: apply\\nobjective: {latency_s: 7}\\n")
    deadline_s = time.monotonic() + 120
    while gate.controller.policy.objective.latency_s != 7:
        assert time.monotonic() < deadline_s, "the policy was not read again"
        time.sleep(0.2)
    assert gate.controller.policy.mode == before.mode == "recommend", "the command's option still counts"
"""


def test_the_policy_is_read_again_when_it_changes(tmp_path: Path) -> None:
    app, policy = tmp_path / "waits.py", tmp_path / "policy.yaml"
    policy.write_text("mode: apply\nobjective: {latency_s: 9}\n")
    app.write_text(REREAD.replace("POLICY", repr(str(policy))))
    options = ("--master", "local[1]", "--policy", str(policy), "--mode", "recommend")
    done = run(app, tmp_path / "out", *options)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "cannot change while Tidegate runs" not in done.stderr


def test_ctrl_c_in_the_middle_of_a_batch_ends_cleanly(tmp_path: Path) -> None:
    app, out = tmp_path / "plain.py", tmp_path / "out"
    app.write_text(SCRIPT)
    lines = tmp_path / "lines"
    lines.mkdir()
    for number in range(60):
        (lines / f"{number:02}.txt").write_text("a\n" * 8)
    arguments = ("--folder", str(lines), "--pause", "0.2")
    line = command(app, out, "--master", "local[2]", "--mode", "off", arguments=arguments)
    running = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        offsets, commits = (tmp_path / "plain.checkpoints" / "ticks" / kind for kind in ("offsets", "commits"))
        wait_for(lambda: "1" in numbers(commits) and numbers(offsets) - numbers(commits), "a batch under way")
        running.send_signal(signal.SIGINT)
        _, said = running.communicate(timeout=300)
    finally:
        running.kill()
    assert running.returncode == 130, said[-2000:]
    assert said.strip().splitlines()[-1] == "tidegate: interrupted"
    assert "Traceback" not in said
    assert numbers(offsets) == numbers(commits), "the batch that ran was finished"
    assert len(numbers(commits)) < 60, "and no other was begun"


def test_a_failing_query_of_a_script_is_one_line(tmp_path: Path) -> None:
    app = tmp_path / "plain.py"
    app.write_text(SCRIPT.replace("time.sleep(given.pause)", "raise ValueError('no such shop')"))
    done = run(app, tmp_path / "out", "--master", "local[1]", "--mode", "off", arguments=("--rows", "5"))
    assert done.returncode == 2
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("tidegate: query ticks failed: ValueError: no such shop")
    assert last.endswith("spark.log")
    assert "Traceback" not in done.stderr


def test_spark_submit_with_one_line(tmp_path: Path) -> None:
    """The driver's Python is ours; the script and its arguments are the user's."""
    python = tmp_path / "tidegate-python"  # as pip installs it
    python.write_text(f"#!{sys.executable}\nfrom tidegate.adapters.spark.driver_python import main\nmain()\n")
    python.chmod(0o755)
    app = tmp_path / "plain.py"
    until = "while not any(report['numInputRows'] for report in query.recentProgress): query.awaitTermination(1)"
    app.write_text(SCRIPT.replace("query.awaitTermination()", f"{until}\n    query.awaitTermination(8)"))
    policy = tmp_path / "policy.yaml"
    policy.write_text(f"mode: recommend\njournal: {{path: {tmp_path / 'submitted.db'}}}\n")
    settings = {
        "spark.pyspark.driver.python": str(python),
        "spark.pyspark.python": sys.executable,
        "spark.tidegate.policy": str(policy),
        "spark.ui.enabled": "false",
    }
    line = [str(Path(pyspark.__file__).parent / "bin" / "spark-submit"), "--master", "local[2]"]
    line += [part for pair in settings.items() for part in ("--conf", "=".join(pair))]
    done = subprocess.run(
        [*line, str(app), "--rows", "10"], cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert "after the wait" in done.stdout
    assert "attached in mode recommend" in done.stdout  # Spark sends both outputs of the driver there
    seen = [entry.observation for entry in read_entries(tmp_path / "submitted.db") if entry.observation]
    assert any(batch.rows for one in seen for sample in one.applications for batch in sample.batches)
