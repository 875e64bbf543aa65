"""The CPU controller of the machine that runs the tests, where it may be used: shares, exit, kill.

Memory groups are not tried on the machine itself: a test must not take its processes out of somebody else's limit.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tidegate.adapters.host.cgroups import CgroupTree
from tidegate.adapters.host.shares import PARENT, ProcessGroups

SLEEPER = "import time; time.sleep(60)"
OWNER = """
import sys, time
from pathlib import Path
from tidegate.adapters.host.shares import ProcessGroups
groups = ProcessGroups(records=Path(sys.argv[1]))
groups.adopt("sleeper", [int(sys.argv[2])])
groups.set_share("sleeper", 0.5)
print("set", flush=True)
time.sleep(60)
"""


@pytest.fixture
def tree(tmp_path: Path) -> CgroupTree:
    tree = CgroupTree.find()
    cpu = ProcessGroups(tree, records=tmp_path, guardian=False).capabilities()[0]
    if not cpu.able:
        pytest.skip(f"CPU groups cannot be made here: {cpu.reason}")
    return tree


@pytest.fixture
def sleeper() -> Iterator[int]:
    process = subprocess.Popen([sys.executable, "-c", SLEEPER])
    yield process.pid
    process.kill()
    process.wait()


def test_a_process_is_moved_weighed_and_brought_back(tree: CgroupTree, sleeper: int, tmp_path: Path) -> None:
    before = tree.group_of(sleeper, "cpu")
    groups = ProcessGroups(tree, records=tmp_path, guardian=False)
    groups.adopt("sleeper", [sleeper])
    groups.set_share("sleeper", 0.5)
    group = tree.group_of(sleeper, "cpu")
    assert group == before / PARENT / f"sleeper-{os.getpid()}"
    knobs = tree.roots["cpu"][1]
    assert int((group / knobs.weight_file).read_text()) == 5 * knobs.weight_default
    groups.restore()
    assert tree.group_of(sleeper, "cpu") == before
    assert not group.exists()


@pytest.mark.parametrize("guarded", [True, False])
def test_a_killed_owner_leaves_nothing_behind(tree: CgroupTree, sleeper: int, tmp_path: Path, guarded: bool) -> None:
    before = tree.group_of(sleeper, "cpu")
    code = OWNER if guarded else OWNER.replace("sys.argv[1])", "sys.argv[1]), guardian=False")
    owner = subprocess.Popen([sys.executable, "-c", code, str(tmp_path), str(sleeper)], stdout=subprocess.PIPE)
    assert owner.stdout is not None
    assert owner.stdout.readline() == b"set\n"
    assert tree.group_of(sleeper, "cpu") != before
    owner.send_signal(signal.SIGKILL)
    owner.wait()
    owner.stdout.close()
    if guarded:
        deadline_s = time.monotonic() + 20
        while tree.group_of(sleeper, "cpu") != before and time.monotonic() < deadline_s:
            time.sleep(0.05)
    else:
        ProcessGroups(tree, records=tmp_path, guardian=False)  # the next start recovers
    assert tree.group_of(sleeper, "cpu") == before
    assert not list(before.glob(f"{PARENT}/sleeper-*"))
