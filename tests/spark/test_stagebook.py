"""The book of stages: what Spark never reports the end of does not stay open, and keeps no batch waiting for ever."""

from __future__ import annotations

from tidegate.adapters.spark.stages import _MOST_KEPT, StagesByBatch
from tidegate.adapters.spark.watcher import Look, read_look

DONE = "S run {batch} {stage} 1 2 40 1 1000 1050 70 60000000 5 0 100 0 90 0 800 700 1 7 0 1 64 0:a,1:b"


def done(batch: int, stage: int) -> Look:
    return read_look(DONE.format(batch=batch, stage=stage).replace(" ", "\t"))


def test_lost_completions_are_forgotten() -> None:
    book = StagesByBatch()
    for batch in range(_MOST_KEPT + 500):
        book.take_in(Look(begun=[(("run", batch), batch)]))
    assert len(book._open) == _MOST_KEPT
    batch = _MOST_KEPT + 499
    book.take_in(done(batch, batch))
    assert book.complete(("run", batch)), "the watch goes on"


def test_a_batch_that_was_handed_out_leaves_nothing_open() -> None:
    book = StagesByBatch()
    book.take_in(Look(begun=[(("run", 1), 7), (("run", 1), 8)]))
    book.take_in(done(1, 7))
    assert not book.complete(("run", 1)), "stage 8 is still under way, or its end was lost"
    assert [stage.stage_id for stage in book.take(("run", 1))] == [7]
    assert not book._open
