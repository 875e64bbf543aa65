"""`make sbom`: Tidegate's dependencies as a CycloneDX 1.5 document.

Versions and hashes come from the lock file, licences and dependencies from the installed packages. Only direct and
indirect dependencies of Tidegate are listed, unless `--development` includes everything in the lock file.

    python tools/sbom.py --out out/sbom.json
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
_PINNED = re.compile(r"^(?P<name>[A-Za-z0-9._-]+)==(?P<version>[^\s;\\]+)")
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")
_REQUIRED = re.compile(r"^\s*(?P<name>[A-Za-z0-9._-]+)")


@dataclass(frozen=True, slots=True)
class Pinned:
    """A line of the lock file."""

    name: str
    version: str
    sha256: tuple[str, ...]


def read_lock(text: str) -> dict[str, Pinned]:
    """
    >>> read_lock("numpy==2.1.0 \\\\\\n    --hash=sha256:" + "0" * 64)["numpy"].version
    '2.1.0'
    """
    found: dict[str, Pinned] = {}
    for entry in text.replace("\\\n", " ").splitlines():
        pinned = _PINNED.match(entry)
        if pinned:
            name = normal(pinned["name"])
            found[name] = Pinned(name, pinned["version"], tuple(_HASH.findall(entry)))
    return found


def normal(name: str) -> str:
    """Normalise a name as PyPI does.

    >>> normal("Typing_Extensions")
    'typing-extensions'
    """
    return re.sub(r"[-_.]+", "-", name).lower()


def needs(name: str) -> list[str]:
    """Return the dependencies of an installed package, without extras."""
    try:
        required = metadata.requires(name) or []
    except metadata.PackageNotFoundError:
        return []
    plain = [text for text in required if "extra ==" not in text]
    return sorted({normal(found["name"]) for text in plain if (found := _REQUIRED.match(text))})


def reached(start: list[str], lock: dict[str, Pinned]) -> set[str]:
    """Return all direct and indirect dependencies of these packages in the lock file."""
    seen: set[str] = set()
    waiting = [name for name in start if name in lock]
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            waiting += [other for other in needs(name) if other in lock]
    return seen


def sbom(lock: dict[str, Pinned], development: bool = False) -> dict[str, Any]:
    """The document."""
    own = needs("tidegate")
    chosen = set(lock) if development else reached(own, lock)
    components = [_component(lock[name]) for name in sorted(chosen)]
    tree = [{"ref": "tidegate", "dependsOn": [_purl(lock[name]) for name in own if name in chosen]}]
    tree += [
        {"ref": _purl(lock[name]), "dependsOn": [_purl(lock[other]) for other in needs(name) if other in chosen]}
        for name in sorted(chosen)
    ]
    root = {"type": "application", "bom-ref": "tidegate", "name": "tidegate", "version": metadata.version("tidegate")}
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"timestamp": datetime.now(UTC).isoformat(timespec="seconds"), "component": root},
        "components": components,
        "dependencies": tree,
    }


def _component(pinned: Pinned) -> dict[str, Any]:
    found: dict[str, Any] = {
        "type": "library",
        "bom-ref": _purl(pinned),
        "name": pinned.name,
        "version": pinned.version,
        "purl": _purl(pinned),
    }
    if licence := _licence(pinned.name):
        found["licenses"] = [{"license": {"name": licence}}]
    if len(pinned.sha256) == 1:  # several hashes are one per platform, and none is the component's own
        found["hashes"] = [{"alg": "SHA-256", "content": pinned.sha256[0]}]
    elif pinned.sha256:
        found["properties"] = [{"name": "tidegate:sha256", "value": digest} for digest in pinned.sha256]
    return found


def _licence(name: str) -> str | None:
    try:
        about = metadata.metadata(name)
    except metadata.PackageNotFoundError:
        return None
    for field in ("License-Expression", "License"):
        text = (about.get(field) or "").strip()
        if text and "\n" not in text:
            return text
    classified = [text.split(" :: ")[-1] for text in about.get_all("Classifier") or [] if text.startswith("License")]
    return classified[0] if classified else None


def _purl(pinned: Pinned) -> str:
    return f"pkg:pypi/{pinned.name}@{pinned.version}"


def main() -> int:
    parser = argparse.ArgumentParser(description="Write a software bill of materials (CycloneDX 1.5, JSON).")
    parser.add_argument("--lock", type=Path, default=ROOT / "requirements.lock")
    parser.add_argument("--out", type=Path, help="the file to write (default: standard output)")
    parser.add_argument("--development", action="store_true", help="the whole lock file, with development tools")
    given = parser.parse_args()
    try:
        lock = read_lock(given.lock.read_text())
    except OSError as error:
        print(f"{given.lock}: the lock file cannot be read ({error.strerror})", file=sys.stderr)
        return 2
    text = json.dumps(sbom(lock, given.development), indent=1) + "\n"
    if given.out is None:
        sys.stdout.write(text)
    else:
        given.out.parent.mkdir(parents=True, exist_ok=True)
        given.out.write_text(text)
        print(f"{given.out}: {text.count('bom-ref') - 1} components")
    return 0


if __name__ == "__main__":
    sys.exit(main())
