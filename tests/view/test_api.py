"""The API: what it answers, whom it refuses, and that steering steers."""

from __future__ import annotations

import json
import shutil
import ssl
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from starlette.testclient import TestClient

from tests.view.worlds import Running, running, steps, write
from tidegate.control.journal import read_notes
from tidegate.domain import EnvironmentUnfit, InvalidInput, Mode
from tidegate.domain.rules import ConsoleRule
from tidegate.view.access import Access, read_token
from tidegate.view.api import Steer, application
from tidegate.view.library import Library
from tidegate.view.openapi import READS
from tidegate.view.server import Console

TOKEN = "a-token-of-enough-length"
BEARER = {"authorization": f"Bearer {TOKEN}"}


@contextmanager
def client(
    *journals: Path, token: str | None = None, host: str = "127.0.0.1", steer: Steer | None = None
) -> Iterator[TestClient]:
    library = Library(journals)
    library.open()
    if steer is not None:
        library.steerable = next(iter(library.books))
    try:
        yield TestClient(application(library, Access(host, token), steer), base_url="http://127.0.0.1:4050")
    finally:
        library.close()


@pytest.fixture(scope="module")
def api(journal: Path) -> Iterator[TestClient]:
    with client(journal) as found:
        yield found


@pytest.mark.parametrize("name", READS)
def test_everything_that_the_page_shows_can_be_read(api: TestClient, name: str) -> None:
    answer = api.get(f"/api/v1/{name}")
    assert answer.status_code == 200
    assert answer.json() is not None


def test_a_decision_is_read_by_its_number(api: TestClient) -> None:
    grown = next(one for one in api.get("/api/v1/timeline").json() if one["kind"] == "acted")
    detail = api.get(f"/api/v1/decisions/{grown['number']}").json()
    assert detail["decision"]["action_texts"] == ["executors → 5"]
    assert [one["p99_s"] for one in detail["outcomes"]] == [1.4]


@pytest.mark.parametrize(
    ("path", "code", "words"),
    [
        ("series?start=x", 400, "start"),
        ("series?end=nan", 400, "end"),
        ("series?start=5&end=3", 400, "is after"),
        ("series?points=1", 400, "points"),
        ("series?points=10&points=11", 400, "more than once"),
        ("series?journal=other", 404, "there is no journal"),
        ("series?application=other", 404, "has no application"),
        ("decisions/x", 400, "not the number"),
        ("decisions/99999", 404, "no decision"),
        ("nothing", 404, "Not Found"),
    ],
)
def test_bad_questions_are_answered_in_a_sentence(api: TestClient, path: str, code: int, words: str) -> None:
    answer = api.get(f"/api/v1/{path}")
    assert answer.status_code == code
    assert words in answer.json()["error"]


def test_the_page_comes_with_a_strict_policy(api: TestClient) -> None:
    answer = api.get("/")
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "<script>" not in answer.text
    assert "https://" not in answer.text
    assert "style=" not in answer.text
    for name in (
        "console.js",
        "panels.js",
        "charts.js",
        "format.js",
        "uplot.js",
        "console.css",
        "uplot.css",
        "icon.svg",
    ):
        assert api.get(f"/{name}").status_code == 200


def test_foreign_names_and_sites_are_refused(journal: Path) -> None:
    with client(journal, token=TOKEN) as api:
        assert api.get("/api/v1/journals", headers={"host": "evil.example"}).status_code == 403
        body = {"act": "pause", "who": "ann"}
        for headers in ({"origin": "http://evil.example"}, {"sec-fetch-site": "cross-site"}):
            assert api.post("/api/v1/steer", json=body, headers={**BEARER, **headers}).status_code == 403
            assert api.get("/api/v1/journals", headers=headers).status_code == 403
            assert api.get("/metrics", headers=headers).status_code == 403
            assert api.get("/", headers=headers).status_code == 200, "a link from elsewhere opens the page"
        assert api.post("/api/v1/steer", content=json.dumps(body), headers=BEARER).status_code == 415


def test_other_addresses_need_a_token_for_everything_but_the_page(journal: Path) -> None:
    with pytest.raises(InvalidInput, match="token"):
        Access("0.0.0.0")
    with pytest.raises(InvalidInput, match="at least 16"):
        Access("127.0.0.1", "short")
    with client(journal, token=TOKEN, host="0.0.0.0") as api:
        assert api.get("/").status_code == 200
        for path in ("/api/v1/journals", "/metrics", "/api/v1/events"):
            assert api.get(path).status_code == 401
            assert api.get(path, headers={"authorization": "Bearer wrong-token-wrong"}).status_code == 401
        assert api.get("/api/v1/journals", headers=BEARER).status_code == 200


def test_steering_is_off_without_a_token_and_refused_without_a_controller(journal: Path) -> None:
    body = {"act": "pause", "who": "ann"}
    with client(journal) as api:
        assert api.post("/api/v1/steer", json=body).status_code == 403
    with client(journal, token=TOKEN) as api:
        assert api.post("/api/v1/steer", json=body).status_code == 401
        assert api.post("/api/v1/steer", json=body, headers=BEARER).status_code == 409
        for wrong in ({"act": "jump", "who": "ann"}, {"act": "pause"}, {"act": "bounds", "who": "a", "min": 0}, []):
            assert api.post("/api/v1/steer", json=wrong, headers=BEARER).status_code == 400


@contextmanager
def steered(path: Path, mode: Mode) -> Iterator[tuple[Running, TestClient]]:
    with running(path, mode) as job:
        steer = Steer(job.runner.steering, lambda: job.runner.controller.policy, lambda: True)
        with client(path, token=TOKEN, steer=steer) as api:
            yield job, api


def post(api: TestClient, **body: Any) -> httpx.Response:
    return api.post("/api/v1/steer", json={"who": "ann", **body}, headers=BEARER)


def test_pause_pauses_resume_resumes_and_both_are_journalled(tmp_path: Path) -> None:
    with steered(tmp_path / "job.db", Mode.APPLY) as (job, api):
        assert post(api, act="pause").status_code == 202
        job.until(lambda: job.runner.mode is Mode.OFF)
        assert api.get("/api/v1/overview").json()["mode"] in {"off", "apply"}  # it is read every few seconds
        asked, seen = len(job.world.asked), job.world.second
        job.until(lambda: job.world.second > seen + 5)
        assert len(job.world.asked) == asked
        assert post(api, act="resume").status_code == 202
        job.until(lambda: job.runner.mode is Mode.APPLY)
        assert post(api, act="bounds", min=9, max=2).status_code == 400
        assert post(api, act="bounds", min=2, max=3).status_code == 202
        job.until(lambda: job.runner.controller.policy.executors.max == 3)
        assert post(api, act="mode", mode="recommend").status_code == 202
        job.until(lambda: job.runner.mode is Mode.RECOMMEND)
    notes = {note.event: note.text for note in read_notes(tmp_path / "job.db")}
    assert notes["steered-pause"] == "paused: observing only, asked by ann from testclient"
    assert notes["steered-resume"] == "resumed in mode apply, asked by ann from testclient"
    assert notes["steered-bounds"].startswith("executors 2 to 3, asked by ann")
    assert notes["steered-mode"].startswith("mode recommend, asked by ann")


def test_one_recommendation_is_applied_and_no_other(tmp_path: Path) -> None:
    with steered(tmp_path / "job.db", Mode.RECOMMEND) as (job, api):
        job.until(lambda: api.get("/api/v1/overview").json()["recommendation"])
        assert job.world.asked == []
        assert post(api, act="apply").status_code == 202
        job.until(lambda: job.world.asked == [2])
        seen = job.runner.steps
        job.until(lambda: job.runner.steps > seen + 10)
        assert job.world.asked == [2]
    texts = [note.text for note in read_notes(tmp_path / "job.db") if note.event == "steered-apply"]
    assert texts == ["applied: executors → 2, asked by ann from testclient"]


def test_metrics_are_what_a_real_parser_reads(api: TestClient) -> None:
    answer = api.get("/metrics")
    assert answer.headers["content-type"].startswith("application/openmetrics-text")
    families = {one.name: one for one in text_string_to_metric_families(answer.text)}
    for name in (
        "backlog_rows",
        "backlog_seconds",
        "watermark_gap_seconds",
        "row_latency_seconds",
        "executors",
        "decisions",
        "error_budget_remaining",
        "forecast_rows_per_second",
        "predicted_latency_seconds",
        "arrival_rows_per_second",
        "capacity_rows_per_second",
        "operator_arrival_rows_per_second",
        "operator_capacity_rows_per_second",
    ):
        assert families[f"tidegate_{name}"].samples, name
    states = {one.labels["state"]: one.value for one in families["tidegate_executors"].samples}
    assert states == {"wanted": 2, "requested": 2, "registered": 2}
    decisions = {
        (one.labels["action"], one.labels["reason"]): one.value for one in families["tidegate_decisions"].samples
    }
    assert decisions["scale-executors", "grow"] == 6
    assert sum(decisions.values()) == 260


def test_the_disruption_budget_is_told(tmp_path: Path) -> None:
    with running(tmp_path / "job.db") as job:
        job.until(lambda: job.runner.steps > 5)
    with client(tmp_path / "job.db") as api:
        families = {one.name: one for one in text_string_to_metric_families(api.get("/metrics").text)}
    (left,) = families["tidegate_disruption_budget_remaining"].samples
    assert left.value > 0


def test_old_scrapers_get_the_old_format(api: TestClient) -> None:
    answer = api.get("/metrics", headers={"accept": "text/plain;version=0.0.4"})
    assert answer.headers["content-type"].startswith("text/plain")


def test_several_journals_have_names_of_their_own(journal: Path, tmp_path: Path) -> None:
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        write(tmp_path / folder / "tidegate.db", steps(3))
    with client(journal, tmp_path / "one" / "tidegate.db", tmp_path / "two" / "tidegate.db") as api:
        assert [one["journal"] for one in api.get("/api/v1/journals").json()] == ["orders-job", "one", "two"]
        assert api.get("/api/v1/overview?journal=two").json()["steps"] == 3


def test_journals_that_appear_in_a_folder_are_taken_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fleet's folder: a host that starts later is seen without a restart of the console."""
    monkeypatch.setattr("tidegate.view.library._LOOK_AGAIN_S", 0.0)
    for host in ("east-1", "east-2"):
        (tmp_path / "hosts" / host).mkdir(parents=True)
    write(tmp_path / "hosts" / "east-1" / "tidegate.db", steps(3))
    with client(tmp_path) as api:
        assert [one["journal"] for one in api.get("/api/v1/journals").json()] == ["east-1"]
        (tmp_path / "hosts" / "east-2" / "other.db").write_text("not a journal")
        write(tmp_path / "hosts" / "east-2" / "tidegate.db", steps(5))
        time.sleep(0.21)  # at most five looks a second
        names = {one["journal"]: one["steps"] for one in api.get("/api/v1/journals").json()}
        assert names == {"east-1": 3, "east-2": 5}


@pytest.mark.slow
def test_a_real_server_streams_news_and_ends(journal: Path, tmp_path: Path) -> None:
    with running(tmp_path / "job.db") as job:
        server = Console([job.journal.path], ConsoleRule(port=0))
        try:
            with httpx.stream("GET", f"{server.url}api/v1/events", timeout=120) as stream:
                lines = stream.iter_lines()
                news = [json.loads(next(line for line in lines if line.startswith("data: "))[6:]) for _ in range(2)]
            assert news[1]["overview"]["steps"] > news[0]["overview"]["steps"]
            assert news[1]["series"]["time_s"]
            with pytest.raises(InvalidInput, match="give another port"):
                Console([journal], ConsoleRule(port=int(server.url.rsplit(":", 1)[1].rstrip("/"))))
        finally:
            server.close()
        assert not server.running


def test_what_cannot_be_served_is_said(journal: Path, tmp_path: Path) -> None:
    (tmp_path / "broken.pem").write_text("nonsense")
    broken = str(tmp_path / "broken.pem")
    for rule, words in (
        (ConsoleRule(port=0, certificate=broken), "belong together"),
        (ConsoleRule(port=0, certificate=broken, key=broken), "cannot be used"),
        (ConsoleRule(port=0, token_file=str(tmp_path / "none")), "cannot be read"),
        (ConsoleRule(port=0, host="0.0.0.0"), "token"),
    ):
        with pytest.raises((InvalidInput, EnvironmentUnfit), match=words):
            Console([journal], rule)
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    assert read_token(tmp_path / "token") == TOKEN


def test_metrics_and_api_work_without_the_page(journal: Path) -> None:
    library = Library([journal])
    library.open()
    try:
        api = TestClient(application(library, Access("127.0.0.1"), page=False), base_url="http://127.0.0.1:4050")
        assert api.get("/metrics").status_code == 200
        assert api.get("/api/v1/overview").status_code == 200
        assert api.get("/").status_code == 404
        assert api.get("/console.js").status_code == 404
    finally:
        library.close()


def test_other_addresses_warn_and_speak_tls(journal: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("no openssl on this machine")
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    made = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
        "-days",
        "1",
    ]
    files = ["-keyout", str(tmp_path / "key.pem"), "-out", str(tmp_path / "certificate.pem")]
    subprocess.run([*made, *files, *subject], check=True, capture_output=True)
    (tmp_path / "token").write_text(TOKEN)
    rule = ConsoleRule(
        port=0,
        host="0.0.0.0",
        token_file=str(tmp_path / "token"),
        certificate=str(tmp_path / "certificate.pem"),
        key=str(tmp_path / "key.pem"),
    )
    console = Console([journal], rule)
    try:
        assert "can be reached from other machines" in caplog.text
        assert console.url.startswith("https://")
        url = f"https://localhost:{console.url.rsplit(':', 1)[1]}api/v1/journals"
        trusted = ssl.create_default_context(cafile=str(tmp_path / "certificate.pem"))
        assert httpx.get(url, verify=trusted, timeout=30).status_code == 401
        assert httpx.get(url, verify=trusted, headers=BEARER, timeout=30).status_code == 200
        with pytest.raises(httpx.TransportError):
            httpx.get(url.replace("https", "http"), timeout=30)
    finally:
        console.close()
