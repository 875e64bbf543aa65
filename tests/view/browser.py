"""Chromium as the machine has it; tests are skipped with a message where there is none."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

_FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
_NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")


@dataclass
class Tab:
    """A page, and everything that went wrong on it."""

    page: Any
    problems: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def open(self, url: str) -> None:
        self.page.goto(url)
        self.until("window.tidegate && window.tidegate.drawn > 0")

    def until(self, expression: str, limit_s: float = 180.0) -> None:
        """Wait for it from outside: the page's own policy forbids scripts that are made of text."""
        end_s = time.monotonic() + limit_s
        while not self.page.evaluate(expression):
            assert time.monotonic() < end_s, f"not in {limit_s} s: {expression}; {self.problems}"
            self.page.wait_for_timeout(50)

    def steady_box(self, selector: str) -> dict[str, float]:
        """Where an element is, once the page around it has stopped moving."""
        end_s, before, box = time.monotonic() + 180, None, self.page.locator(selector).bounding_box()
        while box is None or box != before:
            assert time.monotonic() < end_s, f"{selector} does not come to rest: {before}, {box}"
            self.page.wait_for_timeout(250)
            before, box = box, self.page.locator(selector).bounding_box()
        found: dict[str, float] = box
        return found


@contextmanager
def chromium() -> Iterator[Any]:
    """A browser without a window."""
    program = next((found for name in _NAMES if (found := shutil.which(name))), None)
    if program is None:
        pytest.skip("no Chromium on this machine: apt-get install chromium")
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=list(_FLAGS), timeout=180_000)
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def tab(browser: Any, **options: Any) -> Iterator[Tab]:
    """A page with no memory of others."""
    context = browser.new_context(**options)
    try:
        page = context.new_page()
        page.set_default_timeout(180_000)
        found = Tab(page)
        page.on("console", lambda line: found.problems.append(line.text) if line.type == "error" else None)
        page.on("pageerror", lambda error: found.problems.append(str(error)))
        page.on("request", lambda request: found.requests.append(request.url))
        yield found
    finally:
        context.close()
