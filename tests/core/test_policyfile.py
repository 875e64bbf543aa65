"""Policies are validated whole: every finding at once, each with its line in the file and what to write."""

from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tidegate.cli.policyreference import policy_reference
from tidegate.control.policyfile import load_policy, policy_from
from tidegate.control.yamlmodel import parse_model
from tidegate.domain import InvalidInput, Mode, PolicyInvalid
from tidegate.domain.policy import Policy
from tidegate.domain.retired import RETIRED

PAGE = Path(__file__).parents[2] / "docs" / "policy.md"
BAD = """
mode: aply
objective:
  latency_s: -3
executors: {min: 5, max: 2}
applications:
  wordcount:
    objective: {latency: 3}
    class: golden
    qos_table: [{metric: execute_latency_s, bound: 1}]
freeze: [{cron: "0 25 * * *", for: 3 hours}]
classes:
  gold: {weight: 6}
colour: blue
interval_s: 2
interval_s: -1
"""
OLD = """
planner: me-stream
executors: {max: 6, step_up: 2}
capacity:
  utilisation: 0.8
  shrink_after_s: 20
operators: {payback_s: 60}
predictive: {horizon: 3}
store: out/my job.db
history: out/history
classes: {gold: {weight: 6}}
applications: {orders: {qos_class: gold}}
"""


def problems(text: str) -> list[str]:
    with pytest.raises(PolicyInvalid) as raised:
        parse_model(text, Policy, "policy.yaml")
    assert str(raised.value).splitlines() == [f"policy.yaml: {problem}" for problem in raised.value.problems]
    return list(raised.value.problems)


def test_every_problem_is_reported_once_with_its_line_and_in_their_order() -> None:
    assert problems(BAD) == [
        "line 2: mode: 'aply' is unknown; did you mean apply?",
        "line 4: objective.latency_s: should be greater than 0, not -3",
        "line 5: executors.min: 5 is above max 2",
        "line 8: applications.wordcount.objective.latency: unknown setting; did you mean latency_s?",
        "line 9: applications.wordcount.class: no class 'golden' is defined; did you mean gold?",
        "line 10: applications.wordcount.qos_table.0: execute_latency_s is a metric of operators: "
        "name one (operator: NAME)",
        "line 11: freeze.0.cron: cron '0 25 * * *': hour 25 is outside 0 to 23",
        "line 11: freeze.0.for: '3 hours' is not a duration: write 90s, 15m, 3h or 2d",
        "line 14: colour: unknown setting; allowed here: applications, classes, console, dynamic_allocation, "
        "executors, freeze, guards, interval_s, journal, knobs, mode, objective, timezone",
        "line 16: interval_s: should be greater than 0, not -1",
        "line 16: interval_s: written twice, first on line 15: remove one",
    ]


def test_an_old_file_is_told_what_to_write_instead() -> None:
    assert problems(OLD) == [
        "line 2: planner: no longer needed; Tidegate chooses the knob. Remove it.",
        "line 3: executors.step_up: the size of a step follows from the load. Remove it.",
        "line 5: capacity.utilisation: sizing follows from the objective. Remove it.",
        "line 6: capacity.shrink_after_s: write guards: {cool_down_down_s: 20} to shrink later",
        "line 7: operators.payback_s: Tidegate weighs a pause against its gain. "
        "Write knobs: {parallelism: false} to forbid it",
        "line 8: predictive.horizon: sharing follows from classes.NAME.weight and .floor. Remove it.",
        "line 9: store: write journal: {path: out/my job.db}",
        "line 10: history: write journal: {history: out/history}",
        "line 12: applications.orders.qos_class: write class: gold",
    ]


def test_a_section_that_is_gone_is_told_even_when_it_is_empty_or_odd() -> None:
    assert problems("capacity:\n") == ["line 1: capacity: no longer a section. Remove it."]
    assert problems("predictive: {magic: 1}") == ["line 1: predictive.magic: no longer a setting. Remove it."]


def test_names_that_lead_nowhere() -> None:
    assert problems("classes: {gold: {}}\napplications: {a: {}}") == [
        "line 1: classes.gold: class 'gold' is defined but no application uses it: "
        "remove it or write applications.NAME.class: gold"
    ]
    assert problems("applications: {a: {class: gold}}") == [
        "line 1: applications.a.class: no class 'gold' is defined; defined are: none"
    ]


def test_bounds_that_contradict_each_other_are_all_reported() -> None:
    text = """
executors:
  min: 5
  max: 2
  budget_per_day: 100
  minimum:
    - {cron: "0 7 * * *", for: 3h, executors: 2}
    - {cron: "0 8 * * *", for: 3h, executors: 3}
"""
    assert problems(text) == [
        "line 3: executors.min: 5 is above max 2",
        "line 5: executors.budget_per_day: 100 does not pay for min 5, which costs 120 per day: "
        "raise the budget or lower the minimum",
        "line 8: executors.minimum.1.executors: 3 is above max 2",
    ]


def test_what_follows_from_another_problem_is_not_reported() -> None:
    assert problems("classes: {gold: 3}\napplications: {a: {class: gold}}") == [
        "line 1: classes.gold: must hold settings, not 3"
    ]
    assert problems("classes: {gold: {}}\napplications: {a: {clas: gold}}") == [
        "line 2: applications.a.clas: unknown setting; did you mean class?"
    ]


def test_settings_of_lists_that_are_missing() -> None:
    assert problems("executors:\n  minimum:\n  - {cron: 0 7 * * 1, executors: 2}\n  max: x") == [
        "line 3: executors.minimum.0.for: is missing",
        "line 4: executors.max: should be a valid integer, unable to parse string as an integer, not 'x'",
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("- a\n- b", "mapping"),
        ("mode: [", "line 1: not YAML"),
        ("interval_s: fast", "number, unable"),
        ("mode: fast", "should be 'off', 'recommend' or 'apply', not 'fast'"),
        (
            "applications: {a: {qos_table: [{metric: latncy_s, bound: 1}]}}",
            "'latncy_s' is unknown; did you mean latency_s",
        ),
        ("mode: 2020-13-45", "not YAML: month must be"),
        ("a: &x [*x]", "unknown setting"),
        ("a: " + "[" * 1200, "nested too deeply"),
        ("timezone: Europe/Berln", "did you mean Europe/Berlin"),
        ("executors: {min: 2, budget_per_day: 40}", "40 does not pay for min 2, which costs 48 per day"),
        (
            "executors: {minimum: [{cron: 0 7 * * *, for: 1h, executors: 5}]}",
            "executors.minimum.0.executors: 5 is above max 4",
        ),
        ("guards: {max_age_s: .inf}", "finite"),
    ],
)
def test_what_is_no_policy_at_all(text: str, message: str) -> None:
    with pytest.raises(PolicyInvalid, match=message):
        parse_model(text, Policy, "policy.yaml")


def findings(text: str) -> tuple[str, ...]:
    """What is wrong with a text; nothing where it is a policy."""
    try:
        parse_model(text, Policy, "policy.yaml")
    except PolicyInvalid as error:
        return error.problems
    return ()


@given(st.text(max_size=60))
def test_any_text_is_a_policy_or_bad_input(text: str) -> None:
    assert all(" " in problem for problem in findings(text))


names = st.one_of(
    st.sampled_from([*Policy.model_fields, *RETIRED, "class", "min", "for", "cron", "minimum", "qos_table", "a"]),
    st.integers(0, 3),
)
values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-2, 9), st.floats(), st.sampled_from(["3h", "a", "0 7 * * *"])),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(names, inner, max_size=4)),
    max_leaves=12,
)


@given(st.dictionaries(names, values, max_size=5))
def test_any_mapping_is_a_policy_or_bad_input(settings: dict[object, object]) -> None:
    found = findings(yaml.safe_dump(settings))
    lines = [int(problem.split()[1].removesuffix(":")) for problem in found]
    assert lines == sorted(lines)
    assert len(set(found)) == len(found)


def test_an_empty_policy_is_the_default(tmp_path: Path) -> None:
    (tmp_path / "empty.yaml").write_text("")
    assert load_policy(tmp_path / "empty.yaml") == load_policy(None) == Policy()


def test_a_missing_file_is_bad_input() -> None:
    with pytest.raises(InvalidInput, match="cannot be read"):
        load_policy("nowhere.yaml")


def test_a_mapping_is_checked_like_a_file() -> None:
    assert policy_from({"mode": "off"}).mode is Mode.OFF
    with pytest.raises(PolicyInvalid, match="policy: mood: unknown setting; did you mean mode"):
        policy_from({"mood": "off"})


def test_a_bare_off_is_a_mode() -> None:
    assert parse_model("mode: off", Policy, "policy.yaml").mode is Mode.OFF


def test_a_policy_survives_being_written_down() -> None:
    text = PAGE.read_text().split("```yaml\n")[2].split("```")[0]
    policy = parse_model(text, Policy, "docs/policy.md")
    written = yaml.safe_dump(policy.model_dump(mode="json"))
    assert parse_model(written, Policy, "written.yaml") == policy
    assert "for: 62h" in written


def test_the_shortest_example_of_the_page_is_a_policy() -> None:
    text = PAGE.read_text().split("```yaml\n")[1].split("```")[0]
    assert parse_model(text, Policy, "docs/policy.md") == Policy()


def test_the_reference_page_is_current() -> None:
    assert PAGE.read_text() == policy_reference(), "run: tidegate policy --reference > docs/policy.md"
