"""The bill of materials lists what Tidegate needs, with versions from the lock."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_bill_of_materials(tmp_path: Path) -> None:
    out = tmp_path / "sbom.json"
    tool = [sys.executable, str(ROOT / "tools" / "sbom.py")]
    subprocess.run([*tool, "--out", str(out)], check=True, capture_output=True)
    bill = json.loads(out.read_text())
    found = {component["name"]: component for component in bill["components"]}
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.5")
    assert {"numpy", "pydantic", "pydantic-core"} <= found.keys(), "what dependencies need is there too"
    assert "pyspark" not in found, "it is the user's own"
    assert "ruff" not in found
    assert found["pydantic"]["purl"] == f"pkg:pypi/pydantic@{found['pydantic']['version']}"
    references = {component["bom-ref"] for component in bill["components"]} | {"tidegate"}
    for entry in bill["dependencies"]:
        assert {entry["ref"], *entry["dependsOn"]} <= references
    done = subprocess.run([*tool, "--lock", str(tmp_path / "none")], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "cannot be read" in done.stderr
