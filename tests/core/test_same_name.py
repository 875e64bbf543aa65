"""A query that was started again under its name is one application, whatever a look finds of its two runs."""

from __future__ import annotations

from tests.core.worlds import application, batch
from tidegate.adapters.spark.applications import one_per_name


def test_the_newer_run_keeps_the_batches_of_the_one_that_ended() -> None:
    ended = application((batch(1, 0.0, 10),), name="words", running=False)
    again = application((batch(2, 5.0, 20),), name="words", running=True)
    other = application((), name="other")
    words, _ = one_per_name([ended, again, other])
    assert words.running
    assert [one.rows for one in words.batches] == [10, 20]
    assert [one.name for one in one_per_name([again, ended, other])] == ["words", "other"]
    assert one_per_name([again, ended])[0].running
