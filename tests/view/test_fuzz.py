"""Questions that nobody would ask, made from the API's own description."""

from __future__ import annotations

from collections.abc import Iterator

import hypothesis
import pytest

from tests.view.worlds import steps, write
from tidegate.domain.rules import ConsoleRule
from tidegate.view.server import Console

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("fuzz")
    (folder / "token").write_text("a-token-of-enough-length")
    console = Console([write(folder / "job.db", steps(30))], ConsoleRule(port=0, token_file=str(folder / "token")))
    yield console.url
    console.close()


def test_every_answer_is_one_that_the_description_promises(url: str) -> None:
    schemathesis = pytest.importorskip("schemathesis", reason="schemathesis is not installed")
    schema = schemathesis.openapi.from_url(f"{url}api/v1/openapi.json")
    schema.config.update(base_url=url)
    from schemathesis.checks import not_a_server_error
    from schemathesis.specs.openapi.checks import (
        content_type_conformance,
        response_schema_conformance,
        status_code_conformance,
    )

    checks = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
    asked = 0
    for result in schema.get_all_operations():
        operation = result.ok()

        @hypothesis.given(case=operation.as_strategy())
        @hypothesis.settings(
            max_examples=15, deadline=None, suppress_health_check=list(hypothesis.HealthCheck), database=None
        )
        def ask(case: object) -> None:
            for headers in ({}, {"authorization": "Bearer a-token-of-enough-length"}):
                case.call_and_validate(checks=checks, headers=headers)  # type: ignore[attr-defined]

        ask()
        asked += 1
    assert asked == 12
