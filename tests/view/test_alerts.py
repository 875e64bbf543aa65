"""Alerts: the right ones, told by command and webhook, and never at the job's expense."""

from __future__ import annotations

import json
import re
import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
import yaml

from tests.view.worlds import steps, write
from tidegate.view.alerts import SUMMARIES, alerts, tell
from tidegate.view.book import Book

RULES = Path(__file__).parents[2] / "deploy" / "alerts.yaml"
MESSAGE: dict[str, object] = {"state": "firing", "name": "error-budget-spent", "application": "orders"}


def test_a_job_in_good_order_has_no_alerts_until_it_falls_silent(journal: Path) -> None:
    book = Book(journal)
    last_s = steps(260)[-1][0].time_s
    assert list(alerts(book, last_s + 5)) == []
    assert [one.name for one in alerts(book, last_s + 90)] == ["control-silent"]


def test_a_spent_budget_and_missing_executors_are_told(tmp_path: Path) -> None:
    observation, decision, receipt = steps(22)[20]
    spent = replace(decision, assessments=tuple(replace(one, budget_left=-0.5) for one in decision.assessments[:1]))
    waiting = replace(observation, pool=replace(observation.pool, requested=9))
    book = Book(write(tmp_path / "late.db", (*steps(20), (waiting, spent, receipt))))
    found = {one.name: one for one in alerts(book, observation.time_s)}
    assert set(found) == {"error-budget-spent", "executors-missing"}
    assert found["error-budget-spent"].application == "orders"
    assert found["error-budget-spent"].text == "orders misses its latency objective: the error budget is spent"
    assert found["executors-missing"].text.startswith("late is waiting for executors: ")


def test_prometheus_and_the_webhook_say_the_same() -> None:
    (group,) = yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]
    summaries = {
        rule["alert"]: re.sub(r"{{ \$labels\.(\w+) }}", r"{\1}", rule["annotations"]["summary"])
        for rule in group["rules"]
    }
    for name, summary in SUMMARIES.items():
        rule = "Tidegate" + "".join(word.capitalize() for word in name.split("-"))
        assert summaries[rule] == summary


def test_a_command_gets_the_message(tmp_path: Path) -> None:
    tell(MESSAGE, None, f"tee {tmp_path}/told")
    assert json.loads((tmp_path / "told").read_text()) == MESSAGE


def test_a_webhook_gets_the_message() -> None:
    told: list[bytes] = []

    class Hook(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            told.append(self.rfile.read(int(self.headers["content-length"])))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            return

    server = HTTPServer(("127.0.0.1", 0), Hook)
    thread = threading.Thread(target=server.handle_request)
    thread.start()
    tell(MESSAGE, f"http://127.0.0.1:{server.server_port}/", None)
    thread.join(5)
    server.server_close()
    assert json.loads(told[0]) == MESSAGE


def test_what_cannot_be_told_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    tell(MESSAGE, "http://127.0.0.1:9/", None)
    tell(MESSAGE, None, "no-such-command-here")
    assert len(caplog.records) == 2
