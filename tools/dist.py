"""Builds the wheel and the sdist, installs the wheel into a clean environment and tries it: `make dist`.

    python tools/dist.py [--out out/dist]

Fails if a file is missing from the wheel, if the sdist does not build the same wheel, if the installed package does not
work, or if the commit has a tag that does not match the version.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parents[1]
NEEDED = (
    "tidegate/py.typed",
    "tidegate/view/page/index.html",
    "tidegate/view/page/uplot.js",
    "tidegate/view/page/uplot.LICENSE",
    "tidegate/adapters/spark/Watcher.java",
    "tidegate/adapters/spark/Limiter.java",
)
TRIAL = """
import tidegate, sys
assert callable(tidegate.attach)
heavy = sorted({"numba", "scipy", "sklearn", "river", "matplotlib"} & set(sys.modules))
print(f"tidegate {tidegate.__version__}: attach can be imported; it loads {', '.join(heavy) or 'nothing heavy'}")
"""


def build(source: Path, out: Path) -> tuple[Path, Path]:
    """Build the wheel and the sdist of a folder."""
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-d", str(out)], cwd=source, check=True)
    return next(out.glob("*.whl")), next(out.glob("*.tar.gz"))


def contents(wheel: Path) -> set[str]:
    return set(zipfile.ZipFile(wheel).namelist())


def check(wheel: Path, sdist: Path) -> None:
    """Check that no file is missing and that the sdist builds the same wheel."""
    missing = [name for name in NEEDED if name not in contents(wheel)]
    if missing:
        raise SystemExit(f"{wheel.name} lacks {', '.join(missing)}")
    with TemporaryDirectory() as folder, tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
        again, _ = build(next(Path(folder).iterdir()), Path(folder) / "again")
        if contents(again) != contents(wheel):
            differ = sorted(contents(again) ^ contents(wheel))[:5]
            raise SystemExit(f"{sdist.name} builds another wheel; it differs in {', '.join(differ)}")


def check_tag(version: str) -> None:
    """Check that the tag of the commit, if any, matches the version."""
    found = subprocess.run(["git", "tag", "--points-at", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False)
    tags = [tag for tag in found.stdout.split() if tag.startswith("v")]
    if tags and f"v{version}" not in tags:
        raise SystemExit(f"this commit is tagged {', '.join(tags)}; tidegate/__init__.py says {version}")


def try_it(wheel: Path, environment: Path) -> None:
    """Install the wheel into a clean environment and use it as a user would."""
    venv.create(environment, with_pip=True, clear=True)
    python = environment / "bin" / "python"
    print(f"installing {wheel.name} into {environment}", flush=True)
    subprocess.run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", wheel], check=True)
    with TemporaryDirectory() as elsewhere:
        subprocess.run([python, "-c", TRIAL], cwd=elsewhere, check=True)
        subprocess.run([environment / "bin" / "tidegate", "version"], cwd=elsewhere, check=True)


def main() -> None:
    """Build, check, install, try."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("out/dist"))
    out = parser.parse_args().out.resolve()
    shutil.rmtree(out, ignore_errors=True)
    wheel, sdist = build(ROOT, out)
    check_tag(wheel.name.split("-")[1])
    check(wheel, sdist)
    try_it(wheel, out / "environment")
    print(f"{wheel}\n{sdist}")


if __name__ == "__main__":
    main()
