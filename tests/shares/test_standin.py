"""Programs that start in a control group of their own: against a kernel of our own, and on the machine of the tests."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.shares.kernels import KNOBS, FakeKernel
from tidegate.adapters.host.cgroups import PROCS, CgroupTree
from tidegate.adapters.host.shares import PARENT, ProcessGroups
from tidegate.adapters.host.standin import write_stand_in
from tidegate.domain import EnvironmentUnfit

STRANGER = 4_000_001
BURN = """
import os, time
if os.fork() == 0:
    os.setsid()
before_s, until_s = time.process_time(), time.monotonic() + 2
while time.monotonic() < until_s: pass
os.write(1, f"{time.process_time() - before_s}\\n".encode())  # at once: both processes write to one pipe
"""


@pytest.fixture(params=[1, 2], ids=["v1", "v2"])
def kernel(request: pytest.FixtureRequest, tmp_path: Path) -> FakeKernel:
    return FakeKernel(tmp_path / "cgroup", request.param, [os.getpid()])


def made(kernel: FakeKernel, tmp_path: Path) -> ProcessGroups:
    return ProcessGroups(kernel.tree(), kernel, tmp_path / "records", guardian=False)


def test_every_start_gets_a_group_with_the_quota(kernel: FakeKernel, tmp_path: Path) -> None:
    groups = made(kernel, tmp_path)
    nursery, version = groups.nursery("executors", processes=8)
    script = tmp_path / "home of java" / "java"
    write_stand_in(script, "/bin/echo", nursery, version, cpus=0.4)
    done = subprocess.run([script, "a b", "$c"], capture_output=True, text=True, check=True)
    assert done.stdout == "a b $c\n"
    (group,) = [path for path in nursery.iterdir() if path.is_dir()]
    quota = group / ("cpu.max" if kernel.version == 2 else "cpu.cfs_quota_us")
    assert quota.read_text().split()[0] == "40000"
    assert (group / PROCS).read_text().split() == [group.name]
    weight = KNOBS[kernel.version].weight_default * 8
    assert [int((level / version.weight_file).read_text()) for level in (nursery, nursery.parent)] == [weight, weight]


def test_a_nursery_goes_with_all_groups_in_it(kernel: FakeKernel, tmp_path: Path) -> None:
    groups = made(kernel, tmp_path)
    nursery, _ = groups.nursery("executors", processes=2)
    kernel.make(nursery / "1")
    kernel.write(nursery / "1" / PROCS, str(STRANGER))
    groups.restore()
    assert not list(kernel.root.rglob(PARENT))
    origin = next(iter(kernel.mounts.values()))
    assert STRANGER in kernel.members(origin)
    if kernel.version == 2:
        assert (origin / "cgroup.subtree_control").read_text() == ""


def test_a_program_does_not_start_without_its_group(tmp_path: Path) -> None:
    script = tmp_path / "java"
    write_stand_in(script, "/bin/echo", Path("/proc/no/groups"), KNOBS[1], cpus=0.4)
    done = subprocess.run([script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines()[-1].startswith("tidegate: no control group with a CPU quota could be made")


def test_version_2_needs_a_group_that_can_be_shared(tmp_path: Path) -> None:
    kernel = FakeKernel(tmp_path / "cgroup", 2, [os.getpid()])
    kernel.delegate("job", [os.getpid()])
    with pytest.raises(EnvironmentUnfit, match="contains other processes"):
        made(kernel, tmp_path).nursery("executors", processes=2)
    assert not list(kernel.root.rglob(PARENT))


def test_a_program_that_starts_too_late_does_not_make_the_groups_again(kernel: FakeKernel, tmp_path: Path) -> None:
    groups = made(kernel, tmp_path)
    nursery, version = groups.nursery("executors", processes=2)
    script = tmp_path / "java"
    write_stand_in(script, "/bin/echo", nursery, version, cpus=0.4)
    groups.restore()
    assert subprocess.run([script], capture_output=True, check=False).returncode == 1
    assert not list(kernel.root.rglob(PARENT))


@pytest.mark.slow
def test_a_process_and_its_children_share_one_quota_on_this_machine(tmp_path: Path) -> None:
    tree = CgroupTree.find()
    groups = ProcessGroups(tree, records=tmp_path, guardian=False)
    cpu = groups.capabilities()[0]
    if not cpu.able:
        pytest.skip(f"CPU groups cannot be made here: {cpu.reason}")
    try:
        nursery, version = groups.nursery("burners", processes=2)
    except EnvironmentUnfit as unfit:
        pytest.skip(str(unfit))
    try:
        script = tmp_path / "python"
        write_stand_in(script, sys.executable, nursery, version, cpus=0.3)
        done = subprocess.run([script, "-c", BURN], capture_output=True, text=True, check=True)
        spent_s = [float(line) for line in done.stdout.split()]
        assert len(spent_s) == 2
        assert sum(spent_s) < 0.3 * 2 * 1.3  # within two seconds, and what a period of the quota lets through
        deadline_s = time.monotonic() + 10
        while any((group / PROCS).read_text() for group in nursery.iterdir() if group.is_dir()):
            assert time.monotonic() < deadline_s
    finally:
        groups.restore()
    assert not nursery.exists()
