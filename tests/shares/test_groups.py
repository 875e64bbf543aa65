"""Process groups against a kernel of our own, version 1 and 2: what is set, and that all of it goes back."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.shares.kernels import KNOBS, FakeKernel
from tidegate.adapters.host.cgroups import V1, V2, CgroupTree
from tidegate.adapters.host.records import check_record
from tidegate.adapters.host.shares import PARENT, ProcessGroups, recover
from tidegate.domain import EnvironmentUnfit, InvalidInput

STRANGER = 4_000_001
"""No process has this number; the fake kernel does not mind."""


@pytest.fixture(params=[1, 2], ids=["v1", "v2"])
def kernel(request: pytest.FixtureRequest, tmp_path: Path) -> FakeKernel:
    return FakeKernel(tmp_path / "cgroup", request.param, [STRANGER, STRANGER + 1, os.getpid()])


@pytest.fixture
def groups(kernel: FakeKernel, tmp_path: Path) -> ProcessGroups:
    made = ProcessGroups(kernel.tree(), kernel, tmp_path / "records", guardian=False)
    made.adopt("q1", [STRANGER])
    made.adopt("q3", [STRANGER + 1])
    return made


def folder(kernel: FakeKernel, group: str, controller: str = "cpu") -> Path:
    mount = kernel.mounts.get(controller) or kernel.mounts["all"]
    return mount / PARENT / f"{group}-{os.getpid()}"


def test_adopting_alone_touches_nothing(groups: ProcessGroups, kernel: FakeKernel) -> None:
    assert not list(kernel.root.rglob(PARENT))


def test_shares_become_weights_in_proportion(groups: ProcessGroups, kernel: FakeKernel) -> None:
    groups.set_share("q1", 0.6)
    groups.set_share("q3", 0.1)
    file = KNOBS[kernel.version].weight_file
    first, last = (int((folder(kernel, group) / file).read_text()) for group in ("q1", "q3"))
    assert first == 6 * last
    assert kernel.members(folder(kernel, "q1")) == [STRANGER]
    # The parent weighs two processes' worth, for the two groups in it.
    assert int((folder(kernel, "q1").parent / file).read_text()) == 2 * KNOBS[kernel.version].weight_default


def test_a_quota_is_set_and_lifted(groups: ProcessGroups, kernel: FakeKernel) -> None:
    groups.set_quota("q3", 0.5)
    name = "cpu.max" if kernel.version == 2 else "cpu.cfs_quota_us"
    assert (folder(kernel, "q3") / name).read_text().split()[0] == "50000"
    groups.set_quota("q3", None)
    assert (folder(kernel, "q3") / name).read_text().split()[0] == ("max" if kernel.version == 2 else "-1")


def test_memory_is_never_below_what_the_processes_hold(kernel: FakeKernel, tmp_path: Path) -> None:
    groups = ProcessGroups(kernel.tree(), kernel, tmp_path / "records", guardian=False)
    groups.adopt("self", [os.getpid()])
    resident_bytes = psutil.Process().memory_info().rss
    set_bytes = groups.set_memory("self", 1_000_000)
    assert set_bytes is not None
    assert set_bytes >= resident_bytes
    written = (folder(kernel, "self", "memory") / KNOBS[kernel.version].memory_file).read_text()
    assert int(written) == set_bytes
    assert groups.set_memory("self", 1 << 50) == 1 << 50
    groups.restore()


def test_restoring_leaves_the_tree_as_it_was(groups: ProcessGroups, kernel: FakeKernel, tmp_path: Path) -> None:
    before = {mount: sorted(kernel.members(mount)) for mount in kernel.mounts.values()}
    groups.set_share("q1", 0.6)
    groups.set_memory("q3", None)
    groups.restore()
    assert {mount: sorted(kernel.members(mount)) for mount in kernel.mounts.values()} == before
    assert not list(kernel.root.rglob(PARENT))
    assert not list((tmp_path / "records").glob("*"))
    groups.restore()  # twice is once


def test_version_2_shares_a_delegated_group_and_leaves_it_as_it_was(tmp_path: Path) -> None:
    kernel = FakeKernel(tmp_path / "cgroup", 2, [STRANGER, STRANGER + 1, os.getpid()])
    job = kernel.delegate("job", [STRANGER, STRANGER + 1])
    groups = ProcessGroups(kernel.tree(), kernel, tmp_path / "records", guardian=False)
    groups.adopt("q1", [STRANGER])
    groups.adopt("q3", [STRANGER + 1])
    groups.set_share("q1", 0.6)
    groups.set_share("q3", 0.1)
    groups.set_memory("q3", 1 << 40)
    assert (job / PARENT / f"q1-{os.getpid()}" / "cpu.weight").read_text() == "600"
    assert (job / PARENT / f"q3-{os.getpid()}" / "memory.max").read_text() == str(1 << 40)
    groups.restore()
    assert sorted(kernel.members(job)) == [STRANGER, STRANGER + 1]
    assert (job / "cgroup.subtree_control").read_text() == ""
    assert not list(kernel.root.rglob(PARENT))


def test_version_2_says_so_where_others_share_the_group(tmp_path: Path) -> None:
    kernel = FakeKernel(tmp_path / "cgroup", 2, [STRANGER, STRANGER + 1, os.getpid()])
    job = kernel.delegate("job", [STRANGER, STRANGER + 1])
    groups = ProcessGroups(kernel.tree(), kernel, tmp_path / "records", guardian=False)
    groups.adopt("q1", [STRANGER])
    with pytest.raises(EnvironmentUnfit, match="contains other processes"):
        groups.set_share("q1", 0.6)
    assert sorted(kernel.members(job)) == [STRANGER, STRANGER + 1]
    assert not list(kernel.root.rglob(PARENT))


def test_a_process_that_has_ended_does_not_keep_the_others_from_going_back(
    groups: ProcessGroups, kernel: FakeKernel
) -> None:
    groups.set_share("q1", 0.6)
    groups.set_share("q3", 0.4)
    procs = folder(kernel, "q1") / "cgroup.procs"
    procs.write_text("")
    kernel.gone.add(STRANGER)
    groups.restore()
    assert not list(kernel.root.rglob(PARENT))
    assert STRANGER + 1 in kernel.members(next(iter(kernel.mounts.values())))


def test_what_a_killed_owner_left_is_undone_at_the_next_start(
    groups: ProcessGroups, kernel: FakeKernel, tmp_path: Path
) -> None:
    groups.set_share("q1", 0.6)
    (record,) = (tmp_path / "records").glob("*.json")
    assert recover(tmp_path / "records", kernel, kernel.tree()) == 0, "an owner that lives is left alone"
    left = json.loads(record.read_text())
    record.write_text(json.dumps({**left, "since": left["since"] - 100}))  # another process under the same number
    assert recover(tmp_path / "records", kernel, kernel.tree()) == 1
    assert not list(kernel.root.rglob(PARENT))
    assert not record.exists()


def test_a_damaged_record_is_passed_over(kernel: FakeKernel, tmp_path: Path) -> None:
    (tmp_path / "records").mkdir(mode=0o700)
    (tmp_path / "records" / "1.json").write_text("{")
    assert recover(tmp_path / "records", kernel) == 0


def test_a_group_must_be_adopted_first(groups: ProcessGroups) -> None:
    with pytest.raises(InvalidInput, match="adopt its processes first"):
        groups.set_share("q2", 0.3)
    with pytest.raises(InvalidInput, match="no processes"):
        groups.adopt("q2", [])


def test_capabilities_say_what_stands_in_the_way(kernel: FakeKernel, tmp_path: Path) -> None:
    able = ProcessGroups(kernel.tree(), kernel, tmp_path / "records", guardian=False).capabilities()
    assert {one.actuator: one.able for one in able} == {"cpu": True, "memory": True, "quota": True}
    kernel.may_make_in = lambda path: False  # type: ignore[method-assign]
    locked = ProcessGroups(kernel.tree(), kernel, tmp_path / "records", guardian=False).capabilities()
    assert [one.able for one in locked] == [False, False, False]
    assert "delegated" in locked[0].reason
    none = ProcessGroups(CgroupTree({}), kernel, tmp_path / "records", guardian=False).capabilities()
    assert [one.able for one in none] == [False, False, False]
    assert "not mounted" in str(none[0])


def test_a_machine_in_between_is_read_right(tmp_path: Path) -> None:
    (tmp_path / "unified").mkdir()
    (tmp_path / "unified" / "cgroup.controllers").write_text("\n")
    table = f"cgroup2 {tmp_path}/unified cgroup2 rw 0 0\ncgroup {tmp_path}/cpu cgroup rw,cpuacct,cpu 0 0\n"
    tree = CgroupTree.find(table)
    assert {name: knobs.version for name, (_, knobs) in tree.roots.items()} == {"cpu": 1}


@given(st.floats(1e-6, 1.0), st.floats(1e-6, 1.0))
def test_weights_keep_order_and_range(one: float, other: float) -> None:
    for knobs in (V1, V2):
        low, high = sorted((one, other))
        assert knobs.weight_range[0] <= int(knobs.weight(low)) <= int(knobs.weight(high)) <= knobs.weight_range[1]


def test_the_guardian_undoes_when_its_owner_is_gone(tmp_path: Path) -> None:
    record = tmp_path / "records" / "1.json"
    record.parent.mkdir(mode=0o700)
    root, _ = CgroupTree.find().roots["cpu"]
    places = [{"folder": str(root / PARENT / "absent"), "origin": str(root)}]
    record.write_text(json.dumps({"owner": 2**22 + 1, "since": 0.0, "places": places}))
    guardian = subprocess.Popen(
        [sys.executable, "-m", "tidegate.adapters.host.guardian", str(record)], stdin=subprocess.PIPE
    )
    assert guardian.stdin is not None
    guardian.stdin.close()
    assert guardian.wait(timeout=20) == 0
    assert not record.exists()


def planted(records: Path, **record: object) -> Path:
    records.mkdir(mode=0o700, exist_ok=True)
    path = records / "planted.json"
    path.write_text(json.dumps({"owner": 4_000_009, "since": 0.0, "handed": {}, **record}))
    path.chmod(0o600)
    return path


def test_a_record_moves_only_what_tidegate_has_moved(kernel: FakeKernel, tmp_path: Path) -> None:
    """Somebody names a group of somebody else's: its processes stay where they are."""
    foreign = next(iter(kernel.mounts.values())) / "foreign"
    kernel.make(foreign)
    kernel.write(foreign / "cgroup.procs", str(STRANGER))
    places = [{"folder": str(foreign), "origin": str(foreign.parent)}]
    planted(tmp_path / "records", places=places)
    assert recover(tmp_path / "records", kernel, kernel.tree()) == 0
    assert kernel.members(foreign) == [STRANGER]
    outside = tmp_path / "elsewhere" / PARENT / "group"
    outside.mkdir(parents=True)
    elsewhere = [{"folder": str(outside), "origin": str(tmp_path / "elsewhere")}]
    with pytest.raises(ValueError, match="not in a control group tree"):
        check_record({"places": elsewhere}, kernel.tree())
    planted(tmp_path / "records", places=elsewhere)
    assert recover(tmp_path / "records", kernel, kernel.tree()) == 0
    assert outside.is_dir(), "not a control group at all"
    planted(tmp_path / "records", places=[], handed={str(foreign): ["cpu"]})
    assert recover(tmp_path / "records", kernel, kernel.tree()) == 0


def test_records_count_only_where_nobody_else_can_write(kernel: FakeKernel, tmp_path: Path) -> None:
    groups = ProcessGroups(kernel.tree(), kernel, tmp_path / "records", guardian=False)
    groups.adopt("q1", [STRANGER])
    groups.set_share("q1", 0.5)
    groups.adopt("q3", [STRANGER + 1])
    records = tmp_path / "records"
    assert records.stat().st_mode & 0o777 == 0o700
    (record,) = records.glob("*.json")
    assert record.stat().st_mode & 0o777 == 0o600
    record.write_text(json.dumps({**json.loads(record.read_text()), "owner": 4_000_009}))  # as if we were gone
    records.chmod(0o777)
    assert recover(records, kernel, kernel.tree()) == 0
    with pytest.raises(EnvironmentUnfit, match="open to other users"):
        groups.set_share("q3", 0.5)
    records.chmod(0o700)
    record.chmod(0o666)
    assert recover(records, kernel, kernel.tree()) == 0
    record.chmod(0o600)
    assert recover(records, kernel, kernel.tree()) == 1


def test_the_folder_of_records_is_not_somebody_elses_link(tmp_path: Path, kernel: FakeKernel) -> None:
    (tmp_path / "theirs").mkdir(mode=0o700)
    (tmp_path / "records").symlink_to(tmp_path / "theirs")
    made = ProcessGroups(kernel.tree(), kernel, tmp_path / "records", guardian=False)
    made.adopt("q1", [STRANGER])
    with pytest.raises(EnvironmentUnfit, match="not a folder"):
        made.set_share("q1", 0.5)
