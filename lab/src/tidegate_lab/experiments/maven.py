"""Jars from Maven, cached in `~/.cache/tidegate`, for experiments and tests."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tidegate.domain import EnvironmentUnfit


@dataclass(frozen=True, slots=True)
class Artifact:
    """One artifact; `whole` includes its dependencies."""

    group: str
    name: str
    version: str
    whole: bool = False


def cached(folder: str) -> Path:
    """Return the cache folder for jars of this name."""
    return Path.home() / ".cache" / "tidegate" / folder


def can_fetch() -> bool:
    """Return whether Maven is available."""
    return shutil.which("mvn") is not None


def fetched(folder: str, artifacts: tuple[Artifact, ...]) -> Path:
    """Return the folder of the jars; Maven fetches them the first time."""
    kept = cached(folder)
    if kept.is_dir():
        return kept
    draft = kept.with_name(f"{kept.name}.{os.getpid()}")
    draft.mkdir(parents=True, exist_ok=True)
    pom = draft / "pom.xml"
    pom.write_text(_pom(artifacts))
    command = ["mvn", "-q", "-B", "-f", str(pom), "dependency:copy-dependencies", f"-DoutputDirectory={draft}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        last = next(iter(done.stdout.strip().splitlines()[-1:]), "no message")
        raise EnvironmentUnfit(f"Maven could not fetch {artifacts[0].name}: {last}")
    draft.rename(kept)
    return kept


def _pom(artifacts: tuple[Artifact, ...]) -> str:
    alone = "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"
    dependencies = "".join(
        f"<dependency><groupId>{one.group}</groupId><artifactId>{one.name}</artifactId>"
        f"<version>{one.version}</version>{'' if one.whole else alone}</dependency>"
        for one in artifacts
    )
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion><groupId>tidegate</groupId>'
        f"<artifactId>jars</artifactId><version>1</version><dependencies>{dependencies}</dependencies></project>"
    )
