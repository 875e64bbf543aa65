"""A stand-in for a program: every process that is started through it gets a control group with a CPU quota of its own.

The stand-in is a shell script that makes a group, enters it, and becomes the program. All its children are in the
group from their first moment on, which no process that is moved later can guarantee.
"""

from __future__ import annotations

import shlex
from pathlib import Path

from tidegate.adapters.host.cgroups import PROCS, CgroupVersion

_SCRIPT = """#!/bin/sh
# {purpose}
group={nursery}/$$
{{ mkdir "$group" || [ -d "$group" ]; }} && {writes} && echo $$ > "$group/{procs}" || {{
  echo "tidegate: no control group with a CPU quota could be made: $group" >&2
  exit 1
}}
exec {program} "$@"
"""


def write_stand_in(path: Path, program: str, nursery: Path, version: CgroupVersion, cpus: float) -> None:
    """A script at `path` that runs the program with at most this many CPUs, in a group inside `nursery`.

    `nursery`, `version`: what `ProcessGroups.nursery` returns.
    """
    writes = " && ".join(f'echo {text} > "$group/{file}"' for file, text in version.quota(cpus).items())
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        _SCRIPT.format(
            purpose=f"Runs {Path(program).name} with at most {cpus:g} CPUs.",
            nursery=shlex.quote(str(nursery)),
            writes=writes,
            procs=PROCS,
            program=shlex.quote(program),
        )
    )
    path.chmod(0o755)
