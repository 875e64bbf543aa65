"""The catalogue: complete, without doubles, and the page is what the code says."""

from __future__ import annotations

from pathlib import Path

from tidegate.history.metriccatalogue import METRICS, Kind, Level, catalogue_page

PAGE = Path(__file__).resolve().parents[2] / "docs" / "metrics.md"


def test_every_level_and_kind_is_there_once() -> None:
    assert {metric.level for metric in METRICS} == set(Level)
    assert {metric.kind for metric in METRICS} == set(Kind)
    names = [(metric.name, metric.per_operator) for metric in METRICS]
    assert len(set(names)) == len(names)


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text() == catalogue_page(), "write it anew: python -m tidegate.history > docs/metrics.md"
