"""A journal of 22 minutes (two sealed blocks and a tail), and a browser."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.view.browser import chromium
from tests.view.worlds import steps, write


@pytest.fixture(scope="package")
def journal(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("view") / "orders-job.db", steps(260))


@pytest.fixture(scope="package")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found
