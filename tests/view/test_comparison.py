"""Reports that compare runs: the demonstration's, and points in a plane, in a real browser."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.view.browser import tab
from tests.view.worlds import steps, write
from tidegate.view.comparison import Comparison, Line, Lines, Plane, Point
from tidegate.view.report import write_report as write_page
from tidegate_lab.experiments.demo import QUICK, RunRecord, RunResult
from tidegate_lab.experiments.demo_report import compare, write_report

EVIL = "<img src=x onerror=alert(1)>"


def record(name: str, executors: int) -> RunRecord:
    """A run whose rows take longer the fewer executors there are."""
    arrivals_s = np.sort(np.random.default_rng(1).uniform(0, QUICK.duration_s, 4000))
    times_s = np.arange(0.0, QUICK.duration_s + 1)
    latencies_s = 2.0 + 60.0 / executors * arrivals_s / QUICK.duration_s
    result = RunResult(3.0, 9.0, 0.01, 90.0, 4000, 4000, 0, 0, 1)
    decisions = ((12.0, "executors → 3", f"words {EVIL}: more rows arrive"),) if name == "tidegate" else ()
    return RunRecord(
        name, result, arrivals_s, latencies_s, times_s, np.full(len(times_s), float(executors)), times_s * 10, decisions
    )


RECORDS = [record("static-min", 1), record("static-peak", 3), record("tidegate", 2)]


def test_every_line_has_a_value_for_every_time() -> None:
    charts = [part for part in compare(QUICK, RECORDS).parts if isinstance(part, Lines)]
    assert [chart.title for chart in charts] == ["Load", "Backlog", "Latency", "Executors"]
    latency = {line.label: line.values for line in charts[2].lines}
    assert latency["objective"] == [QUICK.objective_s] * len(charts[2].time_s)
    assert latency["static-min"][-1] > latency["tidegate"][-1] > latency["static-peak"][-1]  # type: ignore[operator]
    with pytest.raises(ValueError, match="2 values, not 1"):
        Lines("Load", "", "rows/s", [0.0], [Line("load", [1.0, 2.0], "blue")])


@pytest.mark.slow
def test_the_demonstration_compares_its_runs_above_their_panels(browser: Any, tmp_path: Path) -> None:
    for one in RECORDS:
        write(tmp_path / f"{one.name}.db", steps(60))
    path = write_report(QUICK, RECORDS, tmp_path)
    with tab(browser, viewport={"width": 1280, "height": 900}) as found:
        found.page.on("dialog", lambda dialog: found.problems.append(dialog.message))
        found.open(path.as_uri())
        page = found.page
        assert page.locator("#comparison .u-over").count() == 4
        assert page.locator("#comparison table").first.locator("tr").count() == 4
        assert page.locator("#journal option").all_inner_texts() == ["tidegate", "static-peak", "static-min"]
        assert page.locator("#panel-latency .u-over").count() == 1
        page.locator("summary").click()
        assert EVIL in page.locator("details").inner_text()
        page.locator("#theme").click()
        assert page.locator("#comparison .u-over").count() == 4
        assert found.problems == []


@pytest.mark.slow
def test_a_comparison_needs_no_journal(browser: Any, tmp_path: Path) -> None:
    points = [Point("static", 1.0, 0.0001, "grey"), Point("tidegate", 0.6, 0.004, "blue", large=True),
              Point(EVIL, 0.6, 0.0041, "orange", hollow=True)]  # fmt: skip
    plane = Plane("Cost and lateness", "lower left is better", "cost", "rows over the objective, %", points, 0.01)
    path = write_page([], tmp_path, "points", Comparison("Points", EVIL, [plane]))
    with tab(browser) as found:
        found.open(path.as_uri())
        page = found.page
        assert page.locator(".plane circle").count() == 3
        assert "1 %" in page.locator(".plane").inner_html()
        assert page.locator("#comparison > p").inner_text() == EVIL
        assert not page.locator("#tiles").is_visible()
        tops = [page.locator(".plane .name").nth(place).bounding_box()["y"] for place in (1, 2)]
        assert abs(tops[0] - tops[1]) > 8, "names lie on each other"
        assert found.problems == []
