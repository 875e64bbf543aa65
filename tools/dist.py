"""Builds product and laboratory, installs them into a clean environment and tries them: `make dist`.

    python tools/dist.py [--out out/dist]

The product is tried alone first, then with PySpark, which is the user's own, then with the laboratory. Fails if a file
is missing from a wheel, if an sdist does not build the same wheel, if what is installed does not work, or if the commit
has a tag that does not match the version.
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
LAB = ROOT / "lab"
NEEDED = {
    ROOT: (
        "tidegate/py.typed",
        "tidegate/view/page/index.html",
        "tidegate/view/page/uplot.js",
        "tidegate/view/page/uplot.LICENSE",
        "tidegate/adapters/spark/Watcher.java",
        "tidegate/adapters/spark/Limiter.java",
    ),
    LAB: ("tidegate_lab/py.typed", "tidegate_lab/commands/demo.py", "tidegate_lab/workloads/wordcount.py"),
}
TRIAL = """
import tidegate, sys
assert callable(tidegate.attach)
heavy = sorted({"numba", "scipy", "sklearn", "river", "matplotlib"} & set(sys.modules))
print(f"tidegate {tidegate.__version__}: attach can be imported; it loads {', '.join(heavy) or 'nothing heavy'}")
"""
EXPERIMENT = ("reproduce", "four-signals", "--json")
HINT = "tidegate: tidegate reproduce is part of the laboratory: pip install tidegate-lab"


def build(source: Path, out: Path) -> tuple[Path, Path]:
    """Build the wheel and the sdist of a folder into an empty one."""
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-d", str(out)], cwd=source, check=True)
    return next(out.glob("*.whl")), next(out.glob("*.tar.gz"))


def contents(wheel: Path) -> set[str]:
    return set(zipfile.ZipFile(wheel).namelist())


def check(wheel: Path, sdist: Path, needed: tuple[str, ...]) -> None:
    """Check that no file is missing and that the sdist builds the same wheel."""
    missing = [name for name in needed if name not in contents(wheel)]
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


def install(environment: Path, what: Path | str) -> None:
    """Install a wheel or a package, and what it needs from the network."""
    print(f"installing {what.name if isinstance(what, Path) else what} into {environment}", flush=True)
    pip = [environment / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, what], check=True)


def try_product(environment: Path) -> None:
    """Use the product alone: the command works, and says what to install for an experiment."""
    tidegate = environment / "bin" / "tidegate"
    with TemporaryDirectory() as elsewhere:
        subprocess.run([tidegate, "version"], cwd=elsewhere, check=True)
        done = subprocess.run([tidegate, *EXPERIMENT], cwd=elsewhere, capture_output=True, text=True, check=False)
    if (done.returncode, done.stdout, done.stderr.strip()) != (2, "", HINT):
        raise SystemExit(f"tidegate reproduce without the laboratory ends with {done.returncode}: {done.stderr}")
    print(done.stderr.strip())


def try_attach(environment: Path) -> None:
    """Import what a job imports."""
    with TemporaryDirectory() as elsewhere:
        subprocess.run([environment / "bin" / "python", "-c", TRIAL], cwd=elsewhere, check=True)


def try_laboratory(environment: Path) -> None:
    """Run a small experiment."""
    with TemporaryDirectory() as elsewhere:
        command = [environment / "bin" / "tidegate", *EXPERIMENT]
        subprocess.run(command, cwd=elsewhere, stdout=subprocess.DEVNULL, check=True)
    print(f"tidegate {' '.join(EXPERIMENT)}: works")


def main() -> None:
    """Build, check, install, try."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("out/dist"))
    out = parser.parse_args().out.resolve()
    shutil.rmtree(out, ignore_errors=True)
    environment = out / "environment"
    built = {source: build(source, out / ("lab" if source == LAB else "product")) for source in NEEDED}
    for source, (wheel, sdist) in built.items():
        check_tag(wheel.name.split("-")[1])
        check(wheel, sdist, NEEDED[source])
    venv.create(environment, with_pip=True, clear=True)
    install(environment, built[ROOT][0])
    try_product(environment)
    install(environment, "pyspark>=3.5,<4.4")
    try_attach(environment)
    install(environment, built[LAB][0])
    try_laboratory(environment)
    for wheel, sdist in built.values():
        print(f"{wheel}\n{sdist}")


if __name__ == "__main__":
    main()
