"""Follows a progress report through one tick to an action, and compares its way with the page that describes it.

Everything from the adapter on is the real thing; only the JVM is replaced, by `tests/house/driver.py`. Not every helper
is on the way. A file is, if one of its functions returns the next stage of the report's life (`STAGES`), each made from
the one before: lines of text, reports, samples, observation, columns, figures, evaluation, prediction, plan, guarded
actions, decision, receipt. An empty plan carries nothing on, and `domain` defines what travels, not where it goes.
"""

from __future__ import annotations

import re
import sys
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any, get_args

import pytest

from tests.house.driver import Driver, Overload
from tidegate.adapters.spark.watcher import Look
from tidegate.domain import Action, ActionReceipt, ApplicationSample, Decision, Observation, Proposal, Receipt
from tidegate.evaluate.evaluation import Evaluation
from tidegate.evaluate.intake import Intake
from tidegate.evaluate.workload import Loads
from tidegate.history.progress import Progress
from tidegate.model.rollout import Outlook
from tidegate.plan.planner import Plan

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "tidegate"
MOST_FILES = 15
STAGES = (
    *(Look, Progress, ApplicationSample, Observation, Intake, Loads, Evaluation, Outlook, Proposal, Plan),
    *(*get_args(Action), Decision, ActionReceipt, Receipt),
)


class Trace:
    """The files that a tick enters, and those that return a stage in order, up to the first request to Spark."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._entered: list[str] = []
        self._order: dict[FrameType, int] = {}
        self._returned: list[tuple[int, str]] = []

    def __enter__(self) -> Trace:
        sys.setprofile(self._note)
        return self

    def __exit__(self, *error: object) -> None:
        sys.setprofile(None)

    @property
    def entered(self) -> set[str]:
        return set(self._entered)

    @property
    def way(self) -> list[str]:
        return list(dict.fromkeys(file for _, file in sorted(self._returned)))

    def _note(self, frame: FrameType, event: str, value: Any) -> None:
        file = on_the_way(frame.f_code.co_filename)
        inner = frame.f_code.co_name.startswith("<")  # a comprehension returns to its own function
        if inner or file is None:
            return
        if event == "call" and not self._driver.requested:
            self._order[frame] = len(self._entered)
            self._entered.append(file)
        elif event == "return" and frame in self._order and carries(value):
            self._returned.append((self._order[frame], file))


@cache
def on_the_way(filename: str) -> str | None:
    """The file's name inside the product, unless it only defines what travels. Asked for every call of a tick."""
    path = Path(filename)
    if not path.is_relative_to(PACKAGE) or path.parent.name == "domain":
        return None
    return path.relative_to(PACKAGE).as_posix()


def carries(value: object) -> bool:
    """Is this a stage of the report's life?"""
    if isinstance(value, Plan):
        return bool(value.proposals)
    if isinstance(value, tuple | list):
        return any(carries(one) for one in value[:4])
    return isinstance(value, STAGES)


@pytest.fixture(scope="module")
def trace() -> Trace:
    """The tick in which a report leads to a request."""
    world = Overload()
    for _ in range(120):
        with Trace(world.driver) as found:
            world.tick()
        if world.driver.requested:
            break
    assert world.driver.requested == [2], "the backlog is worth a second executor"
    return found


def tables() -> list[list[str]]:
    """The files in each table of the page's section, in order."""
    page = (ROOT / "docs" / "design.md").read_text(encoding="utf-8")
    section = page.split("## From a progress report to an action")[1].split("\n## ")[0]
    found = [re.findall(r"^\|.*$", part, re.MULTILINE) for part in section.split("\n\n")]
    files = [re.findall(r"`([\w/]+\.py)`", "\n".join(rows)) for rows in found]
    return [names for names in files if names]


def test_the_page_names_the_files_of_a_real_report_in_order(trace: Trace) -> None:
    assert tables()[0] == trace.way


def test_the_way_is_short(trace: Trace) -> None:
    assert len(trace.way) <= MOST_FILES


def test_the_figures_that_join_on_the_way_come_from_the_files_named(trace: Trace) -> None:
    assert set(tables()[1]) <= trace.entered


def test_every_file_named_on_the_page_exists() -> None:
    page = (ROOT / "docs" / "design.md").read_text(encoding="utf-8")
    packages = "adapters|control|domain|evaluate|history|model|plan|placement|view"
    named = set(re.findall(rf"`((?:{packages})/[\w/]+\.\w+)`", page))
    assert [file for file in sorted(named) if not (PACKAGE / file).exists()] == []
