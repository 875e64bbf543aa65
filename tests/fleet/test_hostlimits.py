"""The CPU quota and the memory limit of a host, from the fleet's file to the control groups."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.shares.kernels import FakeKernel
from tidegate.adapters.host.cgroups import CgroupTree
from tidegate.adapters.host.shares import PARENT, ProcessGroups
from tidegate.domain import EnvironmentUnfit, InvalidInput
from tidegate.fleet.config import HostRule, load_config
from tidegate.fleet.hostlimits import check_limits, limited

RULE = HostRule(cpu_quota=1.5, memory_limit_mb=4096)
HOST = """
import sys
from pathlib import Path
from tidegate.adapters.host.cgroups import CgroupTree
from tidegate.adapters.host.shares import ProcessGroups
from tidegate.fleet.config import HostRule
from tidegate.fleet.hostlimits import limited
import os
tree = CgroupTree.find()
with limited("east-1", HostRule(cpu_quota=0.5), lambda: ProcessGroups(tree, records=Path(sys.argv[1]))):
    group = tree.group_of(os.getpid(), "cpu")
    knobs = tree.roots["cpu"][1]
    print(group, all((group / file).read_text().strip() == text for file, text in knobs.quota(0.5).items()))
print(tree.group_of(os.getpid(), "cpu"))
"""


@pytest.fixture(params=[1, 2], ids=["v1", "v2"])
def kernel(request: pytest.FixtureRequest, tmp_path: Path) -> FakeKernel:
    return FakeKernel(tmp_path / "cgroup", request.param, [os.getpid()])


@pytest.fixture
def groups(kernel: FakeKernel, tmp_path: Path) -> Callable[[], ProcessGroups]:
    return lambda: ProcessGroups(kernel.tree(), kernel, tmp_path / "records", guardian=False)


def test_a_host_runs_within_its_limits_and_leaves_nothing_behind(
    kernel: FakeKernel, groups: Callable[[], ProcessGroups]
) -> None:
    check_limits(RULE, groups)
    with limited("east-1", RULE, groups):
        for controller in ("cpu", "memory"):
            root, knobs = kernel.tree().roots[controller]
            folder = root / PARENT / f"east-1-{os.getpid()}"
            assert os.getpid() in kernel.members(folder)
            wanted = knobs.quota(1.5) if controller == "cpu" else {knobs.memory_file: str(4096 << 20)}
            assert {file: (folder / file).read_text() for file in wanted} == wanted
    assert not list(kernel.root.rglob(PARENT))


def test_without_limits_no_group_is_made(kernel: FakeKernel, groups: Callable[[], ProcessGroups]) -> None:
    with limited("east-1", HostRule(), groups):
        assert not list(kernel.root.rglob(PARENT))


def test_a_machine_without_groups_refuses_in_one_line(tmp_path: Path) -> None:
    def none() -> ProcessGroups:
        return ProcessGroups(CgroupTree({}), records=tmp_path, guardian=False)

    with pytest.raises(EnvironmentUnfit, match="its memory cannot be limited here"):
        check_limits(RULE, none)
    with pytest.raises(EnvironmentUnfit, match="east-1: cpu_quota"), limited("east-1", RULE, none):
        pytest.fail("it ran without its limits")
    check_limits(HostRule(), none)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("host: {cpu_quota: 0}", "cpu_quota"),
        ("host: {memory_mb: 1024, memory_limit_mb: 1100}", "give at least 1536"),
    ],
)
def test_a_limit_that_cannot_work_is_refused(tmp_path: Path, text: str, problem: str) -> None:
    file = tmp_path / "fleet.yaml"
    file.write_text(text)
    with pytest.raises(InvalidInput, match=problem):
        load_config(file)


def test_the_quota_of_this_machine(tmp_path: Path) -> None:
    tree = CgroupTree.find()
    quota = ProcessGroups(tree, records=tmp_path, guardian=False).capabilities()[-1]
    if not quota.able:
        pytest.skip(f"CPU groups cannot be made here: {quota.reason}")
    command = [sys.executable, "-c", HOST, str(tmp_path / "records")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    if "cannot share cpu" in done.stderr:
        pytest.skip("the tests do not run in a group of their own")
    assert done.returncode == 0, done.stderr
    during, after = done.stdout.splitlines()
    assert during.startswith(f"{after.rstrip('/')}/{PARENT}/east-1-")
    assert during.endswith(" True")
