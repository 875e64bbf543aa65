"""The documentation builds as a site, without a warning and without the network."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import ROOT

pytest.importorskip("material", reason="mkdocs-material is not installed")


@pytest.mark.slow
def test_the_site_builds_strictly(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    )
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "commands.html").read_text()
    assert "tidegate explain" in text
    assert 'src="http' not in (tmp_path / "index.html").read_text(), "nothing is loaded from elsewhere"
