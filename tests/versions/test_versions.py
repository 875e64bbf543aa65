"""The oldest Spark and one in between, on every run of `make test`; `make test-versions` runs all, on all clusters."""

from __future__ import annotations

import pytest

from tests.versions.environments import NoEnvironment, environment
from tests.versions.running import failures, run_suite


@pytest.mark.spark
@pytest.mark.parametrize(
    ("spark", "repartitions"),
    [("3.5", False), ("4.2", True)],
)
def test_a_plain_job_under_control(spark: str, repartitions: bool) -> None:
    try:
        made = environment(spark)
    except NoEnvironment as why:
        pytest.skip(f"Spark {spark} cannot be had here: {why}")
    found = run_suite(made, "local")
    assert found["spark"].startswith(spark)
    assert not failures({(spark, "local"): found})
    works = {one["check"]: one["works"] for one in found["checks"]}
    assert works.pop("state repartition") is repartitions
    assert all(works.values()), works
