"""Policies are validated whole: every finding at once, with its line and what is allowed."""

from pathlib import Path

import pytest

from tidegate.cli.policy import policy_reference
from tidegate.control.policyfile import load_policy, parse_model, policy_from
from tidegate.domain import InvalidInput, Mode, PolicyInvalid
from tidegate.domain.policy import Policy

BAD = """
mode: aply
objective:
  latency_s: -3
executors: {min: 5, max: 2}
applications:
  wordcount:
    objective: {latency: 3}
colour: blue
"""


def test_every_problem_is_reported_with_its_line() -> None:
    with pytest.raises(PolicyInvalid) as raised:
        parse_model(BAD, Policy, "policy.yaml")
    found = {problem.split(":")[0]: problem for problem in raised.value.problems}
    assert set(found) == {"line 2", "line 4", "line 5", "line 8", "line 9"}
    assert "'off', 'recommend' or 'apply'" in found["line 2"]
    assert "greater than 0" in found["line 4"]
    assert "min 5 is above max 2" in found["line 5"]
    assert "allowed here: latency_s, percentile" in found["line 8"]
    assert "allowed here: applications, capacity" in found["line 9"]


@pytest.mark.parametrize(
    ("text", "message"), [("- a\n- b", "mapping"), ("mode: [", "not YAML"), ("interval_s: fast", "number, unable")]
)
def test_what_is_no_policy_at_all(text: str, message: str) -> None:
    with pytest.raises(PolicyInvalid, match=message):
        parse_model(text, Policy, "policy.yaml")


def test_an_empty_policy_is_the_default(tmp_path: Path) -> None:
    (tmp_path / "empty.yaml").write_text("")
    assert load_policy(tmp_path / "empty.yaml") == load_policy(None) == Policy()


def test_a_missing_file_is_bad_input() -> None:
    with pytest.raises(InvalidInput, match="cannot be read"):
        load_policy("nowhere.yaml")


def test_a_mapping_is_checked_like_a_file() -> None:
    assert policy_from({"mode": "off"}).mode is Mode.OFF
    with pytest.raises(PolicyInvalid, match="unknown setting"):
        policy_from({"mood": "off"})


def test_an_application_may_have_its_own_objective() -> None:
    policy = policy_from({"applications": {"a": {"objective": {"latency_s": 2}}, "b": {"ignore": True}}})
    assert policy.objective_of("a").latency_s == 2
    assert policy.objective_of("c").latency_s == policy.objective.latency_s
    assert policy.ignores("b")
    assert not policy.ignores("c")


def test_the_reference_page_is_current() -> None:
    page = Path(__file__).parents[2] / "docs" / "policy.md"
    assert page.read_text() == policy_reference(), "run: tidegate policy --reference > docs/policy.md"
