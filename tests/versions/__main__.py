"""`python -m tests.versions`: the suite on every Spark version and cluster, and the page of what works where."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from tests.versions.clusters import CLUSTERS
from tests.versions.environments import ROOT, SPARKS, NoEnvironment, cache, environment
from tests.versions.running import failures, run_suite
from tests.versions.table import Runs, page

PAGE = ROOT / "docs" / "versions.md"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.versions", description=__doc__)
    parser.add_argument("--spark", nargs="+", default=list(SPARKS), choices=SPARKS)
    parser.add_argument("--cluster", nargs="+", default=list(CLUSTERS), choices=list(CLUSTERS))
    parser.add_argument("--install", action="store_true", help="only make the environments")
    parser.add_argument("--page", type=Path, default=PAGE, help="where to write the page")
    given = parser.parse_args()
    kept = cache() / "versions" / "runs.json"
    runs: Runs = _read(kept)
    for spark in given.spark:
        for cluster in given.cluster:
            try:
                made = environment(spark)
                if given.install:
                    break
                print(f"Spark {spark} on {cluster}", flush=True)
                runs[spark, cluster] = run_suite(made, cluster, say=lambda line: print(f"  {line}", flush=True))
            except NoEnvironment as why:
                print(f"  skipped: {why}", flush=True)
                runs[spark, cluster] = {"skipped": str(why)}
            _write(kept, runs)
    if given.install:
        return
    order = [(spark, cluster) for cluster in CLUSTERS for spark in SPARKS if (spark, cluster) in runs]
    given.page.write_text(page({key: runs[key] for key in order}))
    print(f"written: {given.page}")
    now = {(spark, cluster): runs[spark, cluster] for spark in given.spark for cluster in given.cluster}
    if bad := failures(now):
        sys.exit("\n".join(bad))


def _read(path: Path) -> Runs:
    """Runs of before, so that versions can be run one by one."""
    if not path.exists():
        return {}
    return {tuple(key.split(" ", 1)): found for key, found in json.loads(path.read_text()).items()}  # type: ignore[misc]


def _write(path: Path, runs: Runs) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({" ".join(key): found for key, found in runs.items()}, indent=1))


if __name__ == "__main__":
    main()
