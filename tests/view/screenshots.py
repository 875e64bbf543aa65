"""Takes the pictures of docs/console.md: python -m tests.view.screenshots docs

The journals are simulated: the scenarios `burst` and `classes` of the examples. With the report of a demonstration it
takes docs/demo.png instead: python -m tests.view.screenshots docs out/demo/report.html
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.view.browser import chromium, tab
from tidegate.domain.rules import ConsoleRule
from tidegate.view.server import Console

_SCENARIOS = Path(__file__).parents[2] / "examples" / "scenarios"
_WIDE, _PHONE = {"width": 1360, "height": 900}, {"width": 390, "height": 844}


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "docs")
    if len(sys.argv) > 2:
        _demonstration(Path(sys.argv[2]).resolve(), folder / "demo.png")
        return
    with TemporaryDirectory() as name, chromium() as browser:
        for scenario in ("burst", "classes"):
            command = [sys.executable, "-m", "tidegate.cli", "simulate", str(_SCENARIOS / f"{scenario}.yaml")]
            subprocess.run([*command, "--out", f"{name}/{scenario}"], check=True, stdout=subprocess.DEVNULL)
        console = Console([Path(name) / one / "tidegate.db" for one in ("burst", "classes")], ConsoleRule(port=0))
        try:
            for picture, query, theme, size, whole in (
                ("console-light", "journal=burst&range=0", "light", _WIDE, True),
                ("console-dark", "journal=classes&application=gold&range=0", "dark", _WIDE, True),
                ("console-phone", "journal=burst&range=0", "light", _PHONE, False),
            ):
                with tab(browser, viewport=size, color_scheme=theme) as found:
                    found.open(f"{console.url}?{query}")
                    found.page.wait_for_timeout(300)  # the charts fade in
                    found.page.screenshot(path=folder / f"{picture}.png", full_page=whole)
            with tab(browser, viewport=_WIDE, color_scheme="light") as found:
                found.open(f"{console.url}?journal=burst&range=0")
                _decision(found.page, folder / "console-decision.png")
        finally:
            console.close()


def _decision(page: Any, picture: Path) -> None:
    """One whose prediction has been judged."""
    moments = page.locator("#panel-timeline .moment.acted")
    for place in range(moments.count()):
        moments.nth(place).click()
        page.locator("#detail[open] h2").wait_for()
        if page.locator("#detail table").count() and "not compared" not in page.locator("#detail").inner_text():
            page.locator("#detail").screenshot(path=picture)
            return
        page.locator("#detail .close").click()
    raise SystemExit("no prediction of this journal has been judged")


def _demonstration(report: Path, picture: Path) -> None:
    """The runs side by side, without what follows."""
    with chromium() as browser, tab(browser, viewport=_WIDE, color_scheme="light") as found:
        found.open(report.as_uri())
        found.page.wait_for_timeout(300)
        found.page.locator("#comparison").screenshot(path=picture)


if __name__ == "__main__":
    main()
