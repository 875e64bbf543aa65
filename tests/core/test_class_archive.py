"""The class archive is made once, and an executor without one starts all the same."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from tidegate.adapters.spark.classarchive import SWITCH, archive_option

JAVA = 'openjdk version "17.0.15"'


class Making:
    """Stands in for the process that makes an archive."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, cache: Path, works: bool = True) -> None:
        self.works, self.made = works, 0
        monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
        monkeypatch.delenv(SWITCH, raising=False)
        monkeypatch.setattr("tidegate.adapters.spark.classarchive.subprocess.run", self._run)

    def _run(self, command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        self.made += 1
        if self.works:
            Path(command[-1]).write_text("classes")
        return subprocess.CompletedProcess(command, 0 if self.works else 1, "", "no room left")


def test_the_archive_is_made_the_first_time(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    making = Making(monkeypatch, tmp_path)
    first, second = archive_option(JAVA, "-Xss4m"), archive_option(JAVA, "-Xss4m")
    assert first == second
    archive = Path(first.split("=", 1)[1].strip('"'))
    assert archive.read_text() == "classes"
    assert making.made == 1


@pytest.mark.parametrize(("java", "flags"), [('openjdk version "21.0.2"', "-Xss4m"), (JAVA, "-Xss8m")])
def test_another_java_and_other_flags_have_their_own(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, java: str, flags: str
) -> None:
    Making(monkeypatch, tmp_path)
    assert archive_option(java, flags) != archive_option(JAVA, "-Xss4m")


def test_what_cannot_be_made_is_not_tried_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    making = Making(monkeypatch, tmp_path, works=False)
    assert [archive_option(JAVA, "") for _ in range(2)] == ["", ""]
    assert making.made == 1
    assert "without a class archive: no room left" in caplog.text


def test_a_cache_that_cannot_be_written_is_no_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    making = Making(monkeypatch, tmp_path / "file")
    assert archive_option(JAVA, "") == ""
    assert making.made == 0


def test_it_can_be_switched_off(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    making = Making(monkeypatch, tmp_path)
    monkeypatch.setenv(SWITCH, "off")
    assert archive_option(JAVA, "") == ""
    assert making.made == 0
