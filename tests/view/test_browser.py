"""The page in a real browser: every panel has data, nothing leaves the machine, names are only names."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.view.browser import Tab, tab
from tests.view.worlds import Running, running, steps, write
from tidegate.cli.console import _fleet as fleet_of
from tidegate.domain import Mode
from tidegate.domain.rules import ConsoleRule
from tidegate.fleet.folder import FleetFolder
from tidegate.fleet.protocol import make_token
from tidegate.fleet.registry import Registry
from tidegate.fleet.vocabulary import HostSpec
from tidegate.view.api import Steer
from tidegate.view.report import write_report
from tidegate.view.server import Console

pytestmark = pytest.mark.slow

CHARTS = ("latency", "arrivals", "backlog", "catchup", "executors", "budget", "batch", "state")
EVIL = "<script>alert(1)</script><img src=x onerror=alert(2)>"
TOKEN = "a-token-of-enough-length"


@pytest.fixture
def server(journal: Path) -> Iterator[Console]:
    console = Console([journal], ConsoleRule(port=0))
    yield console
    console.close()


def check_panels(found: Tab) -> None:
    """Every panel of the world of these tests has something to show."""
    page = found.page
    for name in CHARTS:
        assert page.locator(f"#panel-{name} .u-over").count() == 1, name
    for name in ("cost", "lag", "notes"):
        assert page.locator(f"#panel-{name} .body .empty").count() == 0, name
    assert page.locator("#panel-operators .operator").count() == 2
    assert page.locator("#panel-timeline .moment.acted").count() > 0
    assert page.locator("#tiles .tile").count() == 6


def test_every_panel_has_data_and_nothing_leaves_the_machine(browser: Any, server: Console) -> None:
    with tab(browser, viewport={"width": 1280, "height": 900}) as found:
        found.open(f"{server.url}?range=0")
        check_panels(found)
        assert found.problems == []
        assert all(url.startswith((server.url, "data:")) for url in found.requests)


def test_a_decision_opens_its_reasons_prediction_and_outcome(browser: Any, server: Console) -> None:
    with tab(browser) as found:
        found.open(f"{server.url}?range=0")
        found.page.locator("#panel-timeline .moment.acted").last.click()
        found.page.locator("#detail[open]").wait_for()
        text = found.page.locator("#detail").inner_text()
        assert "executors → 5" in text
        assert "orders: 3600 rows" in text
        assert "1.5 s" in text
        assert "1.4 s" in text


def test_it_fits_a_phone_and_follows_the_theme(browser: Any, server: Console) -> None:
    with tab(browser, viewport={"width": 390, "height": 844}, color_scheme="dark") as found:
        found.open(f"{server.url}?range=0")
        check_panels(found)
        page = found.page
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
        assert page.evaluate("document.documentElement.dataset.theme") == "dark"
        page.locator("#theme").click()
        assert page.evaluate("document.documentElement.dataset.theme") == "light"
        assert found.problems == []


def test_a_drag_over_a_chart_chooses_the_time_and_the_address_keeps_it(browser: Any, server: Console) -> None:
    with tab(browser, viewport={"width": 1280, "height": 900}) as found:
        found.open(f"{server.url}?range=0")
        page = found.page
        box = found.steady_box("#panel-latency .u-over")
        whole = page.evaluate("window.tidegate.span")
        page.mouse.move(box["x"] + box["width"] * 0.25, box["y"] + 40)
        page.mouse.down()
        page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + 40, steps=5)
        page.mouse.up()
        page.locator("#zoomed").wait_for()
        found.until("window.tidegate.zoom && window.tidegate.series.end_s < window.tidegate.overview.last_s")
        start, end = page.evaluate("window.tidegate.zoom")
        wide = whole[1] - whole[0]
        assert abs(start - (whole[0] + 0.25 * wide)) < 0.02 * wide
        assert abs(end - (whole[0] + 0.5 * wide)) < 0.02 * wide
        again = page.url
        page.locator("#later").click()
        found.until(f"window.tidegate.zoom[0] > {start} + 1")
        page.locator("#zoomed").click()
        found.until("window.tidegate.zoom === null && window.tidegate.series.end_s === window.tidegate.overview.last_s")
        found.open(again)
        assert abs(page.evaluate("window.tidegate.span")[0] - start) < 1
        assert found.problems == []


def test_an_answer_that_comes_late_does_not_replace_a_newer_one(browser: Any, server: Console) -> None:
    with tab(browser) as found:
        found.open(f"{server.url}?range=300")
        page, slow = found.page, []
        last_s = page.evaluate("window.tidegate.overview.last_s")
        page.locator("#earlier").click()
        page.locator("#zoomed").wait_for()
        page.evaluate("window.tidegate.series.before = true")  # to notice that it is replaced
        page.route("**/api/v1/series*", lambda route: route.continue_() if slow else slow.append(route))
        page.locator("#earlier").click()
        page.locator("#zoomed").click()
        found.until("!window.tidegate.series.before")
        with page.expect_response("**/api/v1/series*"):
            slow[0].continue_()
        page.wait_for_timeout(200)
        assert page.evaluate("window.tidegate.series.end_s") == last_s
        assert found.problems == []


def test_all_applications_are_listed_and_one_is_chosen(browser: Any, server: Console) -> None:
    with tab(browser) as found:
        found.open(f"{server.url}?range=0")
        page = found.page
        assert page.locator("#panel-applications .link").all_inner_texts() == ["orders", "clicks"]
        page.locator("#panel-applications .link", has_text="clicks").click()
        found.until("window.tidegate.application === 'clicks'")
        page.locator("#panel-applications tr.chosen", has_text="clicks").wait_for()
        assert "application=clicks" in page.url


def test_names_are_shown_as_text(browser: Any, tmp_path: Path) -> None:
    path = write(tmp_path / "evil.db", steps(60, (EVIL, "clicks")))
    console = Console([path], ConsoleRule(port=0))
    try:
        with tab(browser) as found:
            found.page.on("dialog", lambda dialog: found.problems.append(dialog.message))
            found.open(f"{console.url}?range=0")
            assert EVIL in found.page.locator("#application").inner_text()
            assert found.page.locator("#panel-timeline .why").first.inner_text().startswith(EVIL)
            assert found.page.locator("img").count() == 0
            assert found.problems == []
    finally:
        console.close()


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Running]:
    with running(tmp_path / "job.db", Mode.APPLY) as found:
        yield found


def test_pause_pauses_and_a_bad_token_is_refused(browser: Any, job: Running, tmp_path: Path) -> None:
    (tmp_path / "token").write_text(TOKEN)
    steer = Steer(job.runner.steering, lambda: job.runner.controller.policy, lambda: True)
    console = Console([job.journal.path], ConsoleRule(port=0, token_file=str(tmp_path / "token")), steer)
    try:
        with tab(browser) as found:
            found.open(console.url)
            page = found.page
            page.locator("#live", has_text="live").wait_for()
            page.locator("#steer").click()
            page.locator("#who").fill("ann")
            page.locator("#token").fill("not-the-token-at-all")
            page.locator('[data-act="pause"]').click()
            page.locator("#answer", has_text="missing or wrong").wait_for()
            assert job.runner.mode is Mode.APPLY
            page.locator("#token").fill(TOKEN)
            page.locator('[data-act="pause"]').click()
            page.locator("#answer", has_text="requested: pause").wait_for()
            job.until(lambda: job.runner.mode is Mode.OFF)
            asked, seen = len(job.world.asked), job.runner.steps
            job.until(lambda: job.runner.steps > seen + 10)
            assert len(job.world.asked) == asked
            page.locator("#mode", has_text="paused").wait_for()
            page.locator("#panel-notes", has_text="asked by ann").wait_for()
    finally:
        console.close()


def test_a_page_that_is_open_sees_new_steps(browser: Any, job: Running) -> None:
    console = Console([job.journal.path], ConsoleRule(port=0))
    try:
        with tab(browser) as found:
            found.open(console.url)
            points = found.page.evaluate("window.tidegate.series.time_s.length")
            found.until(f"window.tidegate.series.time_s.length > {points} + 2")
            assert found.problems == []
    finally:
        console.close()


def test_a_fleet_folder_shows_its_fleet_before_and_after_its_first_journal(
    browser: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The registry is a real one; no host answers, as when the machines are away."""
    monkeypatch.setattr("tidegate.view.library._LOOK_AGAIN_S", 0.5)
    folder = FleetFolder(tmp_path)
    make_token(folder.token)
    registry = Registry(folder.registry)
    registry.put_host(HostSpec(name="east-1", region="east", slots=2), None)
    registry.note("host-asked-for", EVIL, "by the region")
    registry.close()
    console = Console([tmp_path], ConsoleRule(port=0), fleet=fleet_of([tmp_path]))
    try:
        with tab(browser, viewport={"width": 1280, "height": 900}) as found:
            found.open(console.url)
            page = found.page
            page.locator("#panel-fleet", has_text="east-1").wait_for()
            page.locator("#panel-fleet", has_text="no centre is running").wait_for()
            page.locator("#panel-fleet .list", has_text=EVIL).wait_for()
            assert not page.locator("#panel-latency").is_visible()
            (tmp_path / "hosts" / "east-1").mkdir(parents=True)
            write(tmp_path / "hosts" / "east-1" / "journal.db", steps(60))
            page.locator("#panel-latency .u-over").wait_for()
            found.until("window.tidegate.journal === 'east-1'")
            assert found.problems == []
    finally:
        console.close()


def test_the_report_is_the_same_page_in_one_file(browser: Any, journal: Path, tmp_path: Path) -> None:
    path = write_report([journal], tmp_path)
    with tab(browser) as found:
        found.open(path.as_uri())
        check_panels(found)
        found.page.locator("#panel-timeline .moment.acted").first.click()
        found.page.locator("#detail[open]", has_text="step").wait_for()
        assert found.problems == []
        assert all(url.startswith(("file:", "data:")) for url in found.requests)
