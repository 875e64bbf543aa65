"""The console in the driver of a real Spark job: panels have data, and steering reaches the controller."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest

from tests.view.browser import tab

pytestmark = pytest.mark.spark

EXAMPLE = Path(__file__).parents[2] / "examples" / "wordcount.py"
TOKEN = "a-token-of-enough-length"
POLICY = """
mode: apply
objective: {latency_s: 5}
executors: {min: 1, max: 2}
classes: {gold: {latency_s: 5}}
applications: {wordcount: {class: gold}}
console: {port: PORT, token_file: TOKEN}
"""


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    """A job with a console, from its first batch with a known latency on."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (tmp_path / "token").write_text(TOKEN)
    policy = tmp_path / "policy.yaml"
    policy.write_text(POLICY.replace("PORT", str(port)).replace("TOKEN", str(tmp_path / "token")))
    command = [sys.executable, "-m", "tidegate.cli", "run", str(EXAMPLE), "--policy", str(policy)]
    with (tmp_path / "log").open("w") as log:
        job = subprocess.Popen([*command, "--out", str(tmp_path / "out"), "--duration", "1800"], stdout=log, stderr=log)
    try:
        address = f"http://127.0.0.1:{port}/"

        def measured() -> bool:
            assert job.poll() is None, (tmp_path / "log").read_text()[-2000:]
            try:
                seen = asked(address)["applications"]
            except httpx.TransportError:
                return False
            return bool(seen) and seen[0]["latency_p99_s"] is not None and seen[0]["arrival_rows_per_s"] is not None

        try:
            until(measured)
        except AssertionError:
            pytest.fail("no latency was measured; the job said: " + (tmp_path / "log").read_text()[-2000:])
        yield address
    finally:
        job.send_signal(signal.SIGINT)
        try:
            job.wait(180)
        except subprocess.TimeoutExpired:
            job.kill()


def asked(url: str) -> Any:
    return httpx.get(f"{url}api/v1/overview", timeout=60).json()


def until(condition: Callable[[], Any], limit_s: float = 400.0) -> None:
    end_s = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < end_s, "it did not happen in time"
        time.sleep(0.2)


def test_panels_have_data_of_a_real_run_and_pause_pauses(url: str, browser: Any) -> None:
    with tab(browser, viewport={"width": 1280, "height": 900}) as found:
        found.open(url)
        page = found.page
        for name in ("latency", "arrivals", "backlog", "catchup", "executors", "budget", "batch", "state"):
            page.locator(f"#panel-{name} .u-over").wait_for()
        page.locator("#panel-operators .operator", has_text="count").wait_for()
        page.locator("#panel-classes", has_text="gold").wait_for()
        page.locator("#panel-notes", has_text="control-started").wait_for()
        page.locator("#panel-cost .bars").wait_for()
        page.locator("#live", has_text="live").wait_for()
        assert found.problems == []
        assert all(one.startswith((url, "data:")) for one in found.requests)
    bearer = {"authorization": f"Bearer {TOKEN}"}
    pause: Any = {"url": f"{url}api/v1/steer", "json": {"act": "pause", "who": "ann"}, "timeout": 60}
    assert httpx.post(**pause).status_code == 401
    assert httpx.post(**pause, headers=bearer).status_code == 202
    until(lambda: asked(url)["paused"])
    notes = asked(url)["notes"]
    assert any(note["event"] == "steered-pause" and "ann from 127.0.0.1" in note["text"] for note in notes), json.dumps(
        notes
    )
