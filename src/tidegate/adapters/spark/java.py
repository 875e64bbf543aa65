"""Finds Java before anything slow starts, and says how to install it if it is missing."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from tidegate.domain import EnvironmentUnfit

_LEAST = 17
_HOW = (
    "install one (Debian, Ubuntu: apt-get install openjdk-17-jre-headless; macOS: brew install openjdk@17) "
    "or point JAVA_HOME at it"
)


def require_java() -> int:
    """The major version of the Java that Spark will use. Raises if there is none or it is too old."""
    shown = java_version()
    version = java_major(shown)
    if version is None or version < _LEAST:
        found = shown.splitlines()[0] if shown else "of an unknown version"
        raise EnvironmentUnfit(f"Spark needs Java {_LEAST} or newer: {found}; {_HOW}")
    return version


def java_program() -> str:
    """The Java that Spark will use."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if java is None or (home and not Path(java).exists()):
        where = f"JAVA_HOME is {home}, which has no bin/java" if home else "no java on the PATH"
        raise EnvironmentUnfit(f"Spark needs Java {_LEAST} or newer: {where}; {_HOW}")
    return java


def java_version() -> str:
    """What the Java that Spark will use says of its version."""
    java = java_program()
    try:
        return subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=True).stderr
    except (OSError, subprocess.SubprocessError) as error:
        raise EnvironmentUnfit(f"Spark needs Java {_LEAST} or newer: {java} does not run ({error}); {_HOW}") from None


def java_major(shown: str) -> int | None:
    """
    >>> java_major('openjdk version "17.0.15" 2025-04-15'), java_major('java version "1.8.0_402"')
    (17, 8)
    """
    found = re.search(r'version "(\d+)(?:\.(\d+))?', shown)
    if found is None:
        return None
    first = int(found.group(1))
    return int(found.group(2) or 0) if first == 1 else first
