"""Leases: one holder at a time, whatever the order of events and however the clocks run."""

from __future__ import annotations

import contextlib
import threading
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tidegate.fleet.lease import Fenced, HeldLease, LeaseFolder, LeaseRecord, LeaseTerms, LeaseWatch


class Clock:
    """Time that stands still until somebody moves it."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def steady_s(self) -> float:
        return self.now_s

    wall_s = forward_s = steady_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def files(tmp_path: Path, clock: Clock) -> LeaseFolder:
    made = LeaseFolder(tmp_path / "lease", clock=clock)
    made.create()
    return made


def held(lease: HeldLease | None) -> HeldLease:
    assert lease is not None
    return lease


def test_a_taken_lease_is_not_free_until_it_has_stood_still_for_longer_than_it_lasts(
    files: LeaseFolder, clock: Clock
) -> None:
    lease = held(files.take(LeaseTerms("a", 8.0), None))
    watch = LeaseWatch(clock, 8.0)
    watch.look(files.read())
    clock.now_s += 7.9
    lease.renew()
    watch.look(files.read())
    clock.now_s += 9.9
    watch.look(files.read())
    assert not watch.free
    assert lease.remaining_s < 0, "the holder has stopped well before anybody else may take over"
    clock.now_s += 0.2
    assert watch.free
    taken = held(files.take(LeaseTerms("b", 8.0), files.read()))
    assert taken.record.epoch == 2


def test_an_expired_lease_is_never_renewed(files: LeaseFolder, clock: Clock) -> None:
    lease = held(files.take(LeaseTerms("a", 8.0), None))
    clock.now_s += 8.1
    with pytest.raises(Fenced, match="expired"):
        lease.renew()
    with pytest.raises(Fenced, match="expired"):
        lease.check()


def test_a_holder_that_slept_through_its_expiry_finds_the_next_epoch(files: LeaseFolder) -> None:
    """Its clock stood still as well: only the epoch tells."""
    lease = held(files.take(LeaseTerms("a", 8.0), None))
    held(files.take(LeaseTerms("b", 8.0), files.read()))
    with pytest.raises(Fenced, match="went to b in epoch 2"):
        lease.renew()
    newest = files.read()
    assert newest is not None
    assert newest.owner == "b", "a late renewal touches the old epoch only"


def test_a_released_lease_is_free_at_once(files: LeaseFolder, clock: Clock) -> None:
    held(files.take(LeaseTerms("a", 8.0), None)).release()
    watch = LeaseWatch(clock, 8.0)
    watch.look(files.read())
    assert watch.free
    with pytest.raises(Fenced):
        held(files.take(LeaseTerms("b", 0.0), files.read())).check()


def test_a_lease_that_was_renewed_after_it_was_looked_at_is_not_taken(files: LeaseFolder) -> None:
    lease = held(files.take(LeaseTerms("a", 8.0), None))
    seen = files.read()
    lease.renew()
    assert files.take(LeaseTerms("b", 8.0), seen) is None


def test_what_another_has_watched_counts(files: LeaseFolder, clock: Clock) -> None:
    held(files.take(LeaseTerms("a", 8.0), None))
    watch = LeaseWatch(clock, 8.0)
    watch.look(files.read(), unchanged_s=9.0)
    assert not watch.free
    clock.now_s += 1.1
    watch.look(files.read())
    assert watch.free


def test_where_the_folder_is_missing_nothing_can_be_taken(tmp_path: Path) -> None:
    """A file system that is not mounted looks empty, and must not look like a lease that was never taken."""
    missing = LeaseFolder(tmp_path / "not-mounted")
    with pytest.raises(OSError, match="No such file"):
        missing.take(LeaseTerms("a", 8.0), None)
    assert not missing.folder.exists()


def test_of_many_takers_one_wins(files: LeaseFolder) -> None:
    ready = threading.Barrier(8)
    winners: list[str] = []

    def take(name: str) -> None:
        ready.wait()
        if files.take(LeaseTerms(name, 8.0), None) is not None:
            winners.append(name)

    threads = [threading.Thread(target=take, args=(f"h{number}",)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    newest = files.read()
    assert newest is not None
    assert winners == [newest.owner]
    assert newest.epoch == 1
    assert not list(files.folder.glob("*.draft")), "drafts are cleared away"


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@example([(1, "take"), (0, "step"), (0, "step"), (0, "step"), (0, "step"), (0, "take"), (1, "release")])
@given(st.lists(st.tuples(st.integers(0, 2), st.sampled_from(["step", "renew", "take", "release"])), max_size=40))
def test_never_two_who_may_run(tmp_path_factory: pytest.TempPathFactory, moves: list[tuple[int, str]]) -> None:
    """Three hosts on one lease, in any order of looking, renewing, sleeping: at most one may run at any time."""
    clock = Clock()
    files = LeaseFolder(tmp_path_factory.mktemp("lease"), clock=clock)
    watches = [LeaseWatch(clock, 8.0) for _ in range(3)]
    leases: dict[int, HeldLease] = {}
    for host, move in moves:
        clock.now_s += 1.7 if move == "step" else 0.0
        watches[host].look(files.read())
        if move == "renew" and host in leases:
            try:
                leases[host].renew()
            except Fenced:
                del leases[host]
        elif move == "take" and host not in leases and watches[host].free:
            taken = files.take(LeaseTerms(f"h{host}", 3.0), files.read())
            if taken is not None:
                leases[host] = taken
        elif move == "release" and host in leases:
            with contextlib.suppress(Fenced):  # it has expired, and has another owner by now
                leases.pop(host).release()
        assert sum(lease.remaining_s > 0 for lease in leases.values()) <= 1


def test_a_damaged_lease_heals_after_as_long_as_it_may_have_been_somebodys(files: LeaseFolder, clock: Clock) -> None:
    """A machine that loses power can leave a file without a byte in it."""
    held(files.take(LeaseTerms("a", 8.0), None))
    (files.folder / "0000000001.lease").write_bytes(b"")
    watch = LeaseWatch(clock, 8.0)
    watch.look(files.read())
    clock.now_s += 9.9
    watch.look(files.read())
    assert not watch.free, "its holder may live"
    clock.now_s += 0.2
    assert watch.free
    assert held(files.take(LeaseTerms("b", 8.0), files.read())).record.epoch == 2


def test_the_holder_of_a_damaged_lease_mends_it(files: LeaseFolder) -> None:
    lease = held(files.take(LeaseTerms("a", 8.0), None))
    (files.folder / "0000000001.lease").write_bytes(b"")
    lease.renew()
    assert files.read() == lease.record


def test_the_same_epoch_in_other_hands_is_not_ours(files: LeaseFolder) -> None:
    """Somebody has wiped the folder, and the epochs count from 1 again."""
    old = held(files.take(LeaseTerms("a", 8.0), None))
    (files.folder / "0000000001.lease").unlink()
    new = held(files.take(LeaseTerms("b", 8.0), None))
    for forbidden in (old.renew, old.check, old.release):
        with pytest.raises(Fenced, match="went to b"):
            forbidden()
    assert files.read() == new.record, "and nothing of it was touched"


def test_a_renewal_that_took_longer_than_the_lease_is_none(files: LeaseFolder, clock: Clock) -> None:
    """Somebody may have found it free before the write landed, and take it right after."""
    lease = held(files.take(LeaseTerms("a", 8.0), None))
    write = files.write

    def slowly(record: LeaseRecord) -> None:
        clock.now_s += 10.5
        write(record)

    files.write = slowly  # type: ignore[method-assign]
    with pytest.raises(Fenced, match="while it was being renewed"):
        lease.renew()


def test_drafts_of_the_dead_and_epochs_of_long_ago_are_forgotten(files: LeaseFolder) -> None:
    for epoch in range(1, 302):
        (files.folder / f"{epoch:010d}.lease.5f.draft").write_text("{")
        lease = held(files.take(LeaseTerms("a", 8.0), files.read()))
        assert lease.record.epoch == epoch
        lease.release()
    assert len(files.history()) == 200
    assert len(list(files.folder.glob("*.draft"))) <= 2
