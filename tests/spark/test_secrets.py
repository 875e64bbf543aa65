"""Settings that are secrets reach Spark, and no command line on the way."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tidegate.cli import output
from tidegate.domain import InvalidInput

SCRIPT = """
import psutil
from tidegate.adapters.spark.embedded import local_session

spark = local_session("s", 1, 512, {"spark.hadoop.fs.s3a.secret.key": "hunter2", "spark.plain": "seen"})
children = psutil.Process().children(recursive=True)
shown = " ".join(word for child in children for word in child.as_dict(["cmdline"])["cmdline"] or [])  # may have ended
print("on a command line:", "hunter2" in shown, "spark.plain=seen" in shown)
print("in the session:", spark.conf.get("spark.hadoop.fs.s3a.secret.key"), spark.sparkContext.master)
spark.stop()
"""


@pytest.mark.spark
def test_secrets_do_not_show_in_ps(tmp_path: Path) -> None:
    command = [sys.executable, "-c", textwrap.dedent(SCRIPT)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False)
    assert "on a command line: False True" in done.stdout, done.stderr[-2000:]
    assert "in the session: hunter2 local[1]" in done.stdout


def test_settings_can_come_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "spark.conf"
    file.write_text("# ours\nspark.a.password = hunter2\n\nspark.b=1=2\n")
    found = output.spark_settings([f"@{file}", "spark.b=3"])
    assert found == {"spark.a.password": "hunter2", "spark.b": "3"}
    with pytest.raises(InvalidInput, match="the file cannot be read"):
        output.spark_settings([f"@{tmp_path}/none"])
    file.write_text("nonsense")
    with pytest.raises(InvalidInput, match="write key=value"):
        output.spark_settings([f"@{file}"])
    assert output.text_of("--arguments", f"@{file}") == "nonsense"
    assert output.text_of("--arguments", "{}") == "{}"
