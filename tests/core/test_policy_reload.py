"""A policy file that changes while the controller runs."""

import os
from pathlib import Path

import pytest

from tidegate.control.policyfile import PolicyFile
from tidegate.domain import InvalidInput, Mode, PolicyInvalid
from tidegate.domain.policy import Policy


class Watched:
    """A policy file, and what was reported about it."""

    def __init__(self, path: Path, text: str = "mode: apply") -> None:
        self.path = path
        self.path.write_text(text)
        self.reports: list[str] = []
        self.file = PolicyFile(path, self.reports.append)

    def settle(self) -> list[object]:
        """What three polls in a row give."""
        return [found.mode if (found := self.file.poll()) else None for _ in range(3)]


@pytest.fixture
def watched(tmp_path: Path) -> Watched:
    return Watched(tmp_path / "policy.yaml")


def test_nothing_is_new_while_nothing_changes(watched: Watched) -> None:
    assert watched.settle() == [None] * 3
    os.utime(watched.path)
    assert watched.settle() == [None] * 3, "touched, and the same"


def test_a_change_is_taken_up_once_it_stands_still(watched: Watched) -> None:
    watched.path.write_text("mode: recommend")
    assert watched.settle() == [None, Mode.RECOMMEND, None]
    assert watched.file.policy.mode is Mode.RECOMMEND
    assert not watched.reports


def test_a_half_written_file_is_no_shorter_policy(watched: Watched) -> None:
    whole = "mode: recommend\nexecutors: {max: 6}\nguards: {max_age_s: 5}\n"
    for end in range(0, len(whole), 3):
        watched.path.write_text(whole[:end])
        assert watched.file.poll() is None
    watched.path.write_text(whole)
    assert watched.settle() == [None, Mode.RECOMMEND, None]
    assert watched.file.policy.executors.max == 6
    assert not watched.reports


def test_what_a_command_overrides_stays_overridden(tmp_path: Path) -> None:
    path, reports = tmp_path / "policy.yaml", list[str]()
    path.write_text("mode: apply\nexecutors: {max: 4}\n")

    def adjusted(policy: Policy) -> Policy:
        journal = policy.journal.model_copy(update={"path": "out/tidegate.db"})
        return policy.model_copy(update={"mode": Mode.RECOMMEND, "journal": journal})

    file = PolicyFile(path, reports.append, adjusted)
    assert file.policy.mode is Mode.RECOMMEND
    path.write_text("mode: apply\nexecutors: {max: 6}\n")
    (changed,) = [found for found in (file.poll(), file.poll(), file.poll()) if found]
    assert (changed.executors.max, changed.mode, changed.journal.path) == (6, Mode.RECOMMEND, "out/tidegate.db")
    assert not reports


def test_a_file_that_is_replaced_in_one_go(watched: Watched, tmp_path: Path) -> None:
    (tmp_path / "new").write_text("mode: off")
    (tmp_path / "new").replace(watched.path)
    assert watched.settle() == [None, Mode.OFF, None]


def test_a_change_of_equal_length_on_an_old_file_is_seen(watched: Watched) -> None:
    os.utime(watched.path, (1e9, 1e9))
    assert watched.settle() == [None] * 3
    watched.path.write_text("mode: 'off'")
    assert watched.settle() == [None, Mode.OFF, None]


def test_an_invalid_file_is_reported_once_and_changes_nothing(watched: Watched) -> None:
    watched.path.write_text("mode: aply\ncolour: blue")
    assert watched.settle() == [None] * 3
    assert watched.file.policy.mode is Mode.APPLY
    assert len(watched.reports) == 2
    assert watched.reports[0].startswith(f"{watched.path}: line 1: mode:")
    assert all(report.endswith("(the current policy stays in force)") for report in watched.reports)
    watched.path.write_text("mode: recommend")
    assert watched.settle() == [None, Mode.RECOMMEND, None]
    assert len(watched.reports) == 2


def test_a_file_that_is_gone_is_reported_once_and_may_come_back(watched: Watched) -> None:
    watched.path.unlink()
    assert watched.file.poll() is None
    assert not watched.reports, "away for a moment"
    assert watched.settle() == [None] * 3
    assert len(watched.reports) == 1
    assert "cannot be read" in watched.reports[0]
    watched.path.write_text("mode: apply")
    assert watched.settle() == [None] * 3
    watched.path.write_text("mode: off")
    assert watched.settle() == [None, Mode.OFF, None]


def test_a_file_that_is_no_text_is_reported_once(watched: Watched) -> None:
    watched.path.write_bytes(b"\xff\xfe\x00")
    assert watched.settle() == [None] * 3
    assert len(watched.reports) == 1


def test_what_cannot_change_while_running_is_reported_and_stays(watched: Watched) -> None:
    watched.path.write_text("mode: recommend\njournal: {path: other.db, keep_days: 3}\ndynamic_allocation: take-over")
    assert watched.settle() == [None, Mode.RECOMMEND, None]
    policy = watched.file.policy
    assert (policy.journal.path, policy.journal.keep_days, policy.dynamic_allocation) == (None, 3, "refuse")
    assert [report.split(": ")[1].split()[0] for report in watched.reports] == ["journal.path", "dynamic_allocation"]
    watched.path.write_text("mode: recommend\njournal: {path: other.db, keep_days: 3}")
    assert watched.settle() == [None] * 3, "only what stays as it is differs"


def test_at_the_start_a_wrong_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(PolicyInvalid, match="unknown setting"):
        Watched(tmp_path / "policy.yaml", "colour: blue")
    with pytest.raises(InvalidInput, match="cannot be read"):
        PolicyFile(tmp_path / "nowhere.yaml")
