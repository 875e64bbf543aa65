"""A real Prometheus scrapes the console and knows every metric of the rules and the dashboard."""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
import time
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest

from tidegate.domain.rules import ConsoleRule
from tidegate.view.server import Console

DEPLOY = Path(__file__).parents[2] / "deploy"


def names_in_use() -> set[str]:
    text = (DEPLOY / "alerts.yaml").read_text() + (DEPLOY / "grafana-dashboard.json").read_text()
    return set(re.findall(r"\btidegate_[a-z_]+", text))


def test_rules_and_dashboard_use_metrics_that_exist(journal: Path) -> None:
    source = (Path(__file__).parents[2] / "src" / "tidegate" / "view" / "openmetrics.py").read_text()
    told = set(re.findall(r'"(tidegate_[a-z_]+)"', source)) | {"tidegate_decisions_total"}
    assert names_in_use() <= told
    assert json.loads((DEPLOY / "grafana-dashboard.json").read_text())["panels"]


@pytest.mark.slow
def test_promtool_accepts_rules_and_configuration() -> None:
    if shutil.which("promtool") is None:
        pytest.skip("no promtool on this machine: apt-get install prometheus")
    subprocess.run(["promtool", "check", "rules", DEPLOY / "alerts.yaml"], check=True, capture_output=True)
    subprocess.run(["promtool", "check", "config", DEPLOY / "prometheus.yaml"], check=True, capture_output=True)


def queried(port: int, text: str) -> Any:
    answer = httpx.get(f"http://127.0.0.1:{port}/api/v1/query", params={"query": text}, timeout=30)
    return answer.json()["data"]["result"]


@pytest.mark.slow
def test_a_real_prometheus_scrapes_it(journal: Path, tmp_path: Path) -> None:
    if shutil.which("prometheus") is None:
        pytest.skip("no Prometheus on this machine: apt-get install prometheus")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    console = Console([journal], ConsoleRule(port=0))
    config = (DEPLOY / "prometheus.yaml").read_text().replace("127.0.0.1:4050", console.url[7:-1])
    (tmp_path / "prometheus.yaml").write_text(config.replace("5s", "1s"))
    shutil.copy(DEPLOY / "alerts.yaml", tmp_path)
    command = ["prometheus", f"--config.file={tmp_path}/prometheus.yaml", f"--storage.tsdb.path={tmp_path}/data"]
    prometheus = subprocess.Popen(
        [*command, f"--web.listen-address=127.0.0.1:{port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        end_s, found, up = time.monotonic() + 180, [], []
        while not found or up != ["1"]:  # a scrape may have come too late
            assert time.monotonic() < end_s, f"Prometheus has nothing after three minutes: {found}, {up}"
            time.sleep(0.2)
            try:
                found = queried(port, 'tidegate_backlog_rows{application="orders"}')
                up = [one["value"][1] for one in queried(port, "up")]
            except (httpx.TransportError, ValueError, KeyError):
                continue
        assert float(found[0]["value"][1]) == 100
    finally:
        prometheus.terminate()
        prometheus.wait(60)
        console.close()
