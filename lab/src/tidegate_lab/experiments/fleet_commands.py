"""`tidegate fleet …`, as a user types it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tidegate.domain import EnvironmentUnfit

_LIMIT_S = 600.0


def fleet(root: Path, *words: str) -> Any:
    """Run a command on the fleet in a folder and return its JSON output."""
    command = [sys.executable, "-m", "tidegate.cli.fleet", *words, "--fleet", str(root), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_LIMIT_S, check=False)
    if done.returncode:
        raise EnvironmentUnfit(f"fleet {words[0]}: {done.stderr.strip()[-500:]}")
    return json.loads(done.stdout)
