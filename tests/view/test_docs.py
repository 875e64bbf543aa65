"""The commands of docs/console.md do what the page says."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.view.worlds import running
from tidegate.domain import Mode
from tidegate.domain.rules import ConsoleRule
from tidegate.view.api import Steer
from tidegate.view.server import Console

PAGE = Path(__file__).parents[2] / "docs" / "console.md"
COMMANDS = [
    found.replace("\\\n", " ") for found in re.findall(r"^curl (?:.*\\\n)*.*$", PAGE.read_text(), flags=re.MULTILINE)
]


@pytest.mark.slow
def test_curl_works_as_written(tmp_path: Path) -> None:
    if shutil.which("curl") is None:
        pytest.skip("no curl on this machine")
    (tmp_path / "console.token").write_text("0123456789abcdef0123456789abcdef\n")
    assert len(COMMANDS) >= 8
    with running(tmp_path / "job.db", Mode.APPLY) as job:
        steer = Steer(job.runner.steering, lambda: job.runner.controller.policy, lambda: True)
        rule = ConsoleRule(port=0, token_file=str(tmp_path / "console.token"))
        console = Console([job.journal.path], rule, steer)
        try:
            for command in COMMANDS:
                patience_s = 10 if "events" in command else 120
                own = command.replace("http://127.0.0.1:4050/", console.url)
                own = own.replace("curl ", f"curl -f -m {patience_s} ", 1)
                done = subprocess.run(["bash", "-c", own], cwd=tmp_path, capture_output=True, text=True, check=False)
                assert done.returncode in ({0, 28} if "events" in command else {0}), (command, done.stderr)
                assert done.stdout, command
            job.until(lambda: job.runner.mode is Mode.OFF)  # one of them pauses
        finally:
            console.close()
